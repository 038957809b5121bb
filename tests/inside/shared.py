"""What a running server tells of itself: its shared statistics, and its status endpoint as Prometheus reads it."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from forehand import _core
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as prometheus
from serving import PATIENCE, Serving, read_all, read_reply

GET = "GET {} HTTP/1.1\r\nHost: {}\r\n{}\r\n"
Serve = Callable[..., Serving]
OPEN = "Accept: application/openmetrics-text; version=1.0.0\r\n"
#: The lines of an application that has something to be found.
INNER = (Path(__file__).resolve().parent.parent / "apps" / "inner.py").read_text().splitlines()
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def applications(name: str) -> dict[str, tuple[str, ...]]:
    """How to serve the applications of a module under each driver: `application` by WSGI, `app` by ASGI."""
    found: dict[str, tuple[str, ...]] = {
        "threads": (f"{name}:application",),
        "asyncio": (f"{name}:app", "--interface", "asgi"),
    }
    if importlib.util.find_spec("gevent"):
        found["gevent"] = (f"{name}:application", "--worker-class", "gevent")
    return found


def descriptors(pid: int) -> Iterator[tuple[Path, str]]:
    """Those of a process, each with what it stands for; those that it closes meanwhile are left out."""
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            yield entry, os.readlink(entry)


def statistics(server: Serving) -> _core.Statistics:
    """Those of a server, through a descriptor of its supervisor."""
    for entry, link in descriptors(server.pid):
        if "forehand-statistics" in link:
            fd = os.open(entry, os.O_RDONLY)
            try:
                return _core.Statistics(fd, False)
            finally:
                os.close(fd)
    raise AssertionError("the server shares no statistics")


def settled(server: Serving, shared: _core.Statistics, requests: int) -> dict[str, Any]:
    """All that is counted, once so many requests are: a reply is with its client before it is counted."""

    def reached() -> dict[str, Any] | None:
        found = shared.totals()
        assert found["requests"] <= requests, f"{found['requests']} are counted, and {requests} were asked"
        return found if found["requests"] == requests and found["inside"] == 0 else None

    found: dict[str, Any] = server.until(reached)
    return found


def told(server: Serving, *flags: str) -> list[dict[str, Any]]:
    """What `forehand requests` says of each."""
    status, text = server.order("requests", "--json", *flags)
    assert status == 0, text
    return [json.loads(line) for line in text.splitlines()]


def spent(found: dict[str, Any]) -> dict[str, float]:
    """Seconds in each phase, of all requests together."""
    return {name: numbers[1] for name, numbers in found["phases"].items()}


def adds_up(found: dict[str, Any]) -> bool:
    """What phases took is what their requests took."""
    took = spent(found)
    whole = sum(took[phase] for phase in ("receive", "queue", "gil", "app", "send"))
    return bool(abs(whole - took["total"]) <= 0.01 * took["total"] + 5e-6 * found["requests"])


class Watched:
    """A server and its status endpoint, on a unix socket: no port is guessed."""

    def __init__(
        self, serve: Serve, folder: Path, *options: str, target: str = "phases:application", **more: Any
    ) -> None:
        self.path = str(folder / "status.sock")
        self.server = serve(target, "--status-bind", f"unix:{self.path}", *options, **more)

    def ask(self, path: str, fields: str = "", *, host: str = "localhost", method: str = "GET") -> tuple[int, str]:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(PATIENCE)
            sock.connect(self.path)
            sock.sendall(GET.format(path, host, f"Connection: close\r\n{fields}").replace("GET", method, 1).encode())
            head, _, body = read_all(sock).partition(b"\r\n\r\n")
        return int(head.split()[1]), body.decode()

    def view(self, path: str) -> int:
        with self.server.connect() as sock:
            sock.sendall(GET.format(path, "a", "").encode())
            return read_reply(sock, bytearray())[0]

    def samples(self, fields: str = OPEN) -> Samples:
        status, text = self.ask("/metrics", fields)
        assert status == 200, text
        parse: Any = open_metrics if fields else prometheus
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in parse(text)
            for sample in family.samples
        }


def process(server: Serving) -> tuple[int, list[str]]:
    """The one that answers: its id, and its command line."""
    pids = map(int, Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split())
    for pid in pids:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().rstrip("\0").split("\0")
        if words[0].endswith(", status"):
            return pid, words
    raise AssertionError("nobody answers")


def woken(pid: int) -> int:
    """How often its threads have waited for something."""
    texts = [task.joinpath("status").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int(text.partition("\nvoluntary_ctxt_switches:")[2].split()[0]) for text in texts)


def serving(server: Serving) -> int:
    """The process of its only worker that serves: one that a reload has replaced may still be there."""

    def found() -> int:
        pids = [one["pid"] for one in server.status()["workers"] if one["state"] == "ready"]
        return int(pids[0]) if len(pids) == 1 else 0

    pid: int = server.until(found)
    return pid
