"""A Prometheus server of Debian's, which scrapes what a test has it scrape and answers questions about it."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from serving import PATIENCE, Serving

PROGRAM = shutil.which("prometheus")
#: Its own messages are asked for, which have native histograms.
NATIVE = "--enable-feature=native-histograms"
#: A label that has the metric's name: functions that drop the name leave series apart even so.
CONFIGURATION = """
global: {{scrape_interval: 250ms, scrape_timeout: 250ms}}
scrape_configs:
  - job_name: forehand
    static_configs: [targets: {targets}]
    metric_relabel_configs:
      - {{source_labels: [__name__], target_label: metric}}
"""


def last(selector: str) -> str:
    """What it has read last of some series, in place of what it has read now: a scrape that does not come in time, as
    on a busy machine, says of all of them that they are there no more, until the next one."""
    return f"last_over_time({selector}[1m])"


def status_address(server: Serving) -> str:
    """Where `--status-bind 127.0.0.1:0` of a server is, as its banner says."""

    def said() -> str:
        found = re.search(r"  status +http://([\d.:]+)", server.log())
        return found[1] if found else ""

    address: str = server.until(said)
    return address


class Prometheus:
    """It runs as long as the block lasts; what it has kept goes with the folder."""

    def __init__(self, folder: Path, *targets: str, native: bool = False) -> None:
        self.targets = targets
        self.log = folder / "prometheus.log"
        configuration = folder / "prometheus.yml"
        configuration.write_text(CONFIGURATION.format(targets=json.dumps(targets)))
        assert PROGRAM is not None
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    PROGRAM, f"--config.file={configuration}", f"--storage.tsdb.path={folder / 'prometheus'}",
                    "--web.listen-address=127.0.0.1:0", "--scrape.discovery-reload-interval=50ms",
                    *([NATIVE] if native else []),
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def __enter__(self) -> Prometheus:
        try:
            self.address = self.until(lambda: re.search(r'msg="Listening on" address=(\S+)', self.log.read_text()))[1]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # It would write down what it knows, which nobody reads.
        self.process.kill()
        self.process.wait()

    def scrapes(self) -> None:
        """Wait until it has read all targets. It looks who they are each five seconds, so that this is worth
        doing something else before."""
        self.until(lambda: self.number("sum(up)") == len(self.targets))

    def until(self, what: Any) -> Any:
        """Wait for something that shows, at most so long; what it was."""
        end = time.monotonic() + PATIENCE
        while not (found := what()):
            assert time.monotonic() < end, f"it did not come to pass:\n{self.log.read_text()[-4096:]}"
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.02)
        return found

    def ask(self, query: str) -> list[tuple[dict[str, str], float]]:
        """What it answers at once: labels and value of each series; a native histogram has none."""
        connection = http.client.HTTPConnection(self.address, timeout=PATIENCE)
        try:
            connection.request("GET", f"/api/v1/query?query={quote(query)}")
            reply = connection.getresponse()
            text = reply.read()
        except ConnectionRefusedError:
            return []
        finally:
            connection.close()
        if reply.status == 503:
            return []  # it is starting
        found = json.loads(text)
        assert found["status"] == "success", f"{query}: {found}"
        return [(one["metric"], float(one.get("value", (0, "nan"))[1])) for one in found["data"]["result"]]

    def number(self, query: str) -> float:
        """The one value of a query that has one; -1: it has none."""
        found = self.ask(query)
        assert len(found) < 2, f"{query}: {found}"
        return found[0][1] if found else -1

    def comes(self, query: str) -> float:
        """The one value of a query, once there is one: of native histograms `last` has none (Prometheus 2.42), and
        they are there again when it has read them again."""
        found = self.until(lambda: self.ask(query))
        assert len(found) == 1, f"{query}: {found}"
        return float(found[0][1])
