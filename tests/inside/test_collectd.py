"""collectd hears what is sent to statsd: it understands every line, and adds up to what was counted."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from serving import PATIENCE, Serving, read_reply
from shared import GET, descriptors, settled, statistics

Serve = Callable[..., Serving]
PROGRAM = shutil.which("collectd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
#: It reads every 0.2 s what has come, and writes down each value as it is.
CONFIGURATION = """
Hostname "here"
FQDNLookup false
BaseDir "{folder}"
Interval 0.2
LoadPlugin logfile
<Plugin logfile>
  File "{folder}/log"
</Plugin>
LoadPlugin statsd
<Plugin statsd>
  Host "127.0.0.1"
  Port "0"
</Plugin>
LoadPlugin csv
<Plugin csv>
  DataDir "{folder}/values"
  StoreRates false
</Plugin>
"""


class Collectd:
    """One that runs, and what it has written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        configuration = folder / "collectd.conf"
        configuration.write_text(CONFIGURATION.format(folder=folder))
        assert PROGRAM is not None
        with (folder / "said").open("wb") as said:
            self.process = subprocess.Popen(
                [PROGRAM, "-f", "-C", str(configuration)], stdin=subprocess.DEVNULL, stdout=said, stderr=said
            )

    def log(self) -> str:
        return "".join((self.folder / name).read_text() for name in ("said", "log") if (self.folder / name).exists())

    def port(self) -> int:
        """Of its one UDP socket; 0: it has none yet."""
        assert self.process.poll() is None, self.log()
        sockets = {
            link[len("socket:[") : -1] for _, link in descriptors(self.process.pid) if link.startswith("socket:[")
        }
        lines = [line.split() for line in Path("/proc/net/udp").read_text().splitlines()[1:]]
        return next((int(line[1].rpartition(":")[2], 16) for line in lines if line[9] in sockets), 0)

    def values(self, kind: str) -> dict[str, float]:
        """The newest of each name."""
        found = {}
        for file in (self.folder / "values/here/statsd").glob(f"{kind}-*"):
            name = file.name[len(kind) + 1 :].rpartition("-")[0].rpartition("-")[0].rpartition("-")[0]
            # It writes line by line, a heading first.
            if values := file.read_text().splitlines()[1:]:
                found[name] = float(values[-1].partition(",")[2].split(",")[0] or "nan")
        return found


@contextmanager
def listening(folder: Path) -> Iterator[tuple[Collectd, int]]:
    collectd = Collectd(folder)
    try:
        end = time.monotonic() + PATIENCE
        while not (port := collectd.port()):
            assert time.monotonic() < end, collectd.log()
            time.sleep(0.02)
        yield collectd, port
    finally:
        collectd.process.kill()
        collectd.process.wait()


@pytest.mark.skipif(PROGRAM is None, reason="no collectd here (Debian's package collectd-core)")
def test_collectd_understands_every_line_and_adds_up_to_what_was_counted(serve: Serve, tmp_path: Path) -> None:
    with listening(tmp_path) as (collectd, port):
        options = ("--statsd-host", f"127.0.0.1:{port}", "--statsd-interval", "0.1", "--statsd-prefix", "shop")
        server = serve("phases:application", "--workers", "2", *options)
        shared = statistics(server)
        # What was counted before the first datagram is not sent.
        server.until(lambda: collectd.values("gauge").get("shop.forehand.workers") == 2)
        server.raw(b"no request\r\n\r\n")
        # The slow one last: quantiles are of an interval, and collectd keeps the newest that it has heard.
        for path in ("/quick", "/fail", "/missing", "/sleep/0.05"):
            with server.connect() as sock:
                sock.sendall(GET.format(path, "a", "").encode())
                read_reply(sock, bytearray())
        settled(server, shared, 5)

        def counted() -> dict[str, Any]:
            every = shared.totals()["counters"].items()
            # Reasons of refusals are for Prometheus, whose names have labels.
            totals = {name: count for name, count in every if count and "{" not in name}
            # Workers have looked before the first datagram, and look again.
            del totals["looks"]
            statuses = {"requests": 5, "request.status.200": 2}
            statuses |= {f"request.status.{status}": 1 for status in (400, 404, 500)}
            return {f"shop.forehand.{name}": count for name, count in (totals | statuses).items()}

        def heard() -> dict[str, float]:
            found = collectd.values("derive")
            found.pop("shop.forehand.looks", None)
            return found

        server.until(lambda: heard() == counted())
        # It writes one file after the other, these perhaps later.
        server.until(lambda: 45 <= collectd.values("gauge").get("shop.forehand.request.duration.p99", 0) < 20_000)
        wanted = {f"shop.forehand.{name}" for name in ("requests.active", "request.duration.p50")}
        server.until(lambda: wanted <= collectd.values("gauge").keys())
        assert "nable to parse" not in collectd.log() and "rror" not in collectd.log(), collectd.log()
