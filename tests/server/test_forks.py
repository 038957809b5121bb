"""A forked child is not the worker: whatever it does, no client hears of it, and the worker serves on.

Each way to serve has one server for all of it, because whatever one child breaks the next test shows.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from serving import PATIENCE, Serving, read_all, read_reply

pytestmark = pytest.mark.interpreters

KINDS = {
    "threads": ("forks:application", "--threads", "4"),
    "streamed": ("forks:application", "--threads", "4", "--no-request-buffering"),
    "alone": ("forks:application", "--threads", "4", "--workers", "0"),
    "asyncio": ("forks:asynchronous", "--loop", "asyncio"),
}
if importlib.util.find_spec("uvloop"):
    KINDS["uvloop"] = ("forks:asynchronous", "--loop", "uvloop")
if importlib.util.find_spec("gevent"):
    KINDS["gevent"] = ("forks:application", "--worker-class", "gevent")
EVENT_LOOPS = ("asyncio", "uvloop")
#: Larger than what is kept in memory, so that parent and child share a file.
LARGE = b"x" * 400_000


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def server(kind: str) -> Iterator[Serving]:
    serving = Serving(*KINDS[kind])
    yield serving
    # Whoever is killed leaves what multiprocessing keeps in a folder of its own.
    try:
        assert serving.stop() == 0
    finally:
        serving.kill()


def request(path: str, body: bytes = b"", *, close: bool = False, version: str = "1.1") -> bytes:
    fields = f"Host: a\r\nContent-Length: {len(body)}\r\n" + ("Connection: close\r\n" if close else "")
    return f"POST /{path} HTTP/{version}\r\n{fields}\r\n".encode() + body


def ask(sock: socket.socket, path: str, body: bytes = b"") -> dict[str, Any]:
    """One request on a connection that is kept: the one reply to it, and nothing behind it."""
    buffer = bytearray()
    sock.sendall(request(path, body))
    status, _, text = read_reply(sock, buffer)
    assert (status, buffer) == (200, b""), text
    found: dict[str, Any] = json.loads(text)
    return found


def worker(server: Serving) -> int:
    return server.workers[0] if server.workers else server.pid


def check(server: Serving, path: str, body: bytes = b"") -> int:
    """Has a child made beside a bystander; its status. Whoever asks, the worker answers."""
    with server.connect() as bystander, server.connect() as sock:
        assert ask(bystander, "no")["pid"] == worker(server)
        found = ask(sock, path, body)
        assert (found["pid"], found["read"]) == (worker(server), len(body))
        for one in (bystander, sock):
            assert ask(one, "no")["pid"] == worker(server)
        with server.connect() as late:
            assert ask(late, "no")["pid"] == worker(server)
    return int(found["status"])


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("returns", 0),
        ("raises", 1),
        ("exits", 3),
        ("exits-with-text", 1),
        ("exit-is-caught", 0),
        ("ends", 7),
        ("execs", 5),
        ("again", 0),
        ("pty", 0),
        ("thread", 0),
        ("terminated", -signal.SIGTERM),
        ("mp-fork", 0),
        ("mp-spawn", 0),
        ("mp-forkserver", 0),
        ("subprocess", 3),
        ("preexec", 0),
    ],
)
def test_a_child_ends_as_it_wants_to_and_touches_nothing(server: Serving, kind: str, path: str, status: int) -> None:
    if (kind, path) == ("gevent", "mp-forkserver") and sys.version_info >= (3, 14):
        pytest.skip("the forkserver's handshake since 3.14 and gevent's sockets do not go together")
    assert check(server, path) == status


def test_what_a_child_writes_reaches_nobody(server: Serving) -> None:
    assert check(server, "writes") == 0


def test_a_child_and_its_parent_read_a_body_each_for_itself(server: Serving, kind: str) -> None:
    # What has not arrived at the fork is the parent's alone, and the child is told so.
    assert check(server, "reads", LARGE) == (1 if kind == "streamed" else 0)


def test_what_a_child_has_printed_is_written_once(server: Serving) -> None:
    before = server.log().count("printed by the child")
    assert check(server, "prints") == 0
    assert server.log().count("printed by the child") == before + 1


def test_an_exception_in_a_child_is_told_as_python_tells_it(server: Serving) -> None:
    check(server, "raises")
    server.says("RuntimeError: raised in the child")
    check(server, "exits-with-text")
    server.says("the child's last word")


def test_a_child_of_a_generator_ends_with_it(server: Serving, kind: str) -> None:
    if kind in EVENT_LOOPS:
        pytest.skip("generators are WSGI's")
    with server.connect() as sock:
        sock.sendall(request("generator", close=True))
        _, _, text = read_reply(sock, bytearray())
        assert json.loads(text)["pid"] == worker(server)
        assert read_all(sock) == b""


@pytest.mark.parametrize(("path", "status"), [("sleeps", 1), ("waits", 1), ("callback", 1), ("in-a-thread", 0)])
def test_a_child_never_runs_its_parents_event_loop(server: Serving, kind: str, path: str, status: int) -> None:
    if kind not in EVENT_LOOPS:
        pytest.skip("there is no event loop")
    assert check(server, path) == status


@pytest.mark.parametrize("workers", ["1", "0"])
def test_a_child_that_is_terminated_at_once_dies_of_it(kind: str, workers: str, serve: Callable[..., Serving]) -> None:
    """Before its signals are its own again nobody would hear of it: whoever waits for its end would do so for ever."""
    target, *options = KINDS[kind]
    server = serve(target.replace("forks:", "terminated_early:"), *options, "--workers", workers)
    with server.connect() as sock:
        sock.sendall(request("", close=True))
        assert read_all(sock).endswith(f"\r\n\r\n{-signal.SIGTERM}".encode())


@pytest.mark.parametrize("preload", ["--preload", "--no-preload"])
@pytest.mark.parametrize("target", ["forks:application", "forks:asynchronous"])
def test_a_fork_before_the_first_request_makes_no_second_worker(
    serve: Callable[..., Serving], target: str, preload: str
) -> None:
    calls = ("--readiness", "forks:forks_and_returns", "--on-worker-start", "forks:forks_and_returns")
    server = serve(target, preload, *calls, "--on-worker-ready", "forks:forks_and_returns")
    assert check(server, "returns") == 0
    assert len(server.status()["workers"]) == 1
    assert server.stop() == 0
    assert "raised" not in server.log() and "traceback" not in server.log().lower(), server.log()


@pytest.mark.parametrize("path", ["stays", "stays-in-c", "stays-unseen"])
def test_clients_see_the_end_and_the_port_is_free_though_a_child_lives(kind: str, path: str) -> None:
    # An address of its own: a port of 127.0.0.1 that is free is soon another test's.
    server = Serving(*KINDS[kind], "--bind", "127.0.0.78:0")
    child = 0
    try:
        with server.connect() as other, server.connect() as idle, server.connect() as old:
            ask(idle, "no")
            ask(other, "no")
            # The end of the connection is the message: HTTP/1.0, and `Connection: close`.
            old.sendall(request(path, version="1.0"))
            child = json.loads(read_all(old).partition(b"\r\n\r\n")[2])["status"]
            os.kill(child, 0)
            other.sendall(request("no", close=True))
            assert read_all(other).endswith(b"}")
            assert server.stop() == 0
            if path != "stays-unseen":
                assert read_all(idle) == b""
        os.kill(child, 0)
        if path == "stays-unseen":
            return  # it has the listener
        with contextlib.suppress(ConnectionRefusedError), server.connect() as late:
            pytest.fail(f"somebody accepts connections: {late}")
    finally:
        if child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        server.kill()
    assert server.process.wait(PATIENCE) == 0
