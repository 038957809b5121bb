"""Who comes while a server finishes what runs is refused at once, and asks elsewhere: nobody waits in a queue that is
never emptied."""

from __future__ import annotations

import contextlib
import importlib.util
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import Serving, read_reply

Serve = Callable[..., Serving]
KINDS = {
    "threads": ("until_there:application",),
    "one thread": ("until_there:application", "--threads", "1"),
    "asyncio": ("until_there:app", "--lifespan", "off"),
}
if importlib.util.find_spec("gevent"):
    KINDS["gevent"] = ("until_there:application", "--worker-class", "gevent")
WORKERS = {"none": ("--workers", "0"), "two": ("--workers", "2"), "preloaded": ("--workers", "2", "--preload")}


def connection(place: str | tuple[str, int]) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX if isinstance(place, str) else socket.AF_INET)
    sock.settimeout(20)
    sock.connect(place)
    return sock


def is_refused(place: str | tuple[str, int]) -> bool:
    with contextlib.suppress(ConnectionRefusedError, FileNotFoundError):
        # One that has come just before is reset when nobody listens any more.
        connection(place).close()
        return False
    return True


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_who_comes_during_a_stop_is_refused_while_requests_run(
    serve: Serve, kind: str, workers: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    binds = (f"--bind=unix:{tmp_path}/s", "--bind=127.0.0.1:0")
    server = serve(*KINDS[kind], *WORKERS[workers], *binds, env={"GATE": str(gate)})
    port = int(server.urls[1].rpartition(":")[2])
    places: list[str | tuple[str, int]] = [f"{tmp_path}/s", ("127.0.0.1", port)]
    # Some are served by either worker, on connections that are kept.
    for place in places * 2:
        with connection(place) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert read_reply(sock, bytearray())[0] == 200
    with connection(places[1]) as running:
        running.sendall(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
        server.until((tmp_path / "gate.runs").exists)
        server.process.send_signal(signal.SIGTERM)
        server.until(lambda: all(map(is_refused, places)))
        assert server.process.poll() is None, "it has ended before its request"
        gate.touch()
        assert read_reply(running, bytearray())[::2] == (200, b"ok")
    assert server.process.wait(30) == 0
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("options", [("--workers", "0"), ("--control", "none")], ids=["one process", "workers"])
def test_a_server_that_comes_meanwhile_keeps_its_unix_socket(
    serve: Serve, options: tuple[str, ...], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    path = f"{tmp_path}/s"
    one = serve(*KINDS["threads"], *options, f"--bind=unix:{path}", env={"GATE": str(gate)})
    with connection(path) as running:
        running.sendall(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
        one.until((tmp_path / "gate.runs").exists)
        one.process.send_signal(signal.SIGTERM)
        one.until(lambda: is_refused(path))
        serve(*KINDS["threads"], *options, f"--bind=unix:{path}", env={"GATE": str(gate)})
        gate.touch()
        assert read_reply(running, bytearray())[0] == 200
    assert one.process.wait(30) == 0
    with connection(path) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert read_reply(sock, bytearray())[0] == 200
