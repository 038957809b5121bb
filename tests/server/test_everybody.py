"""Everybody is looked at, whatever one connection does. What the loop does between two looks is counted in
crates/server/tests/fairness.rs; here is what others see of it."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from drivers import DRIVERS, driving
from serving import PATIENCE, Serving, read_reply

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def ask(sock: socket.socket, path: bytes = b"/") -> bytes:
    """One request on a connection that is kept, and the content of its reply."""
    sock.sendall(GET.replace(b"/", path, 1))
    status, _, body = read_reply(sock, bytearray())
    assert status == 200
    return body


def cpu_seconds(pid: int) -> float:
    """What a process has used of a processor."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def are_stopped(pid: int) -> bool:
    """All threads of a process are."""
    stats = [(task / "stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_long_pipeline_is_not_served_before_all_others(serve: Callable[..., Serving], driver: str) -> None:
    _, *options = DRIVERS[driver]
    server = serve("burning:app" if driver == "asyncio" else "burning:application", *options, "--workers", "0")
    with server.connect() as greedy, server.connect() as greedier, server.connect() as other:
        for sock in (greedy, greedier, other):
            ask(sock)
            # As much as it says fits, whoever reads.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, len(GET) * 4000)
        # Stopped meanwhile, so that it finds all of it at once, however long this takes.
        os.kill(server.pid, signal.SIGSTOP)
        server.until(lambda: are_stopped(server.pid))
        for sock in (greedy, greedier):
            sock.sendall(GET * 2000)
        other.sendall(GET)
        os.kill(server.pid, signal.SIGCONT)
        status, _, body = read_reply(other, bytearray())
        assert status == 200 and int(body) < 2000, "half of eight tenths of a second came first"


@pytest.mark.parametrize("driver", driving("beside_slow", unbuffered=False))
def test_whoever_asks_beside_a_pipeline_of_slow_requests_is_answered_before_its_next_one(
    serve: Callable[..., Serving], driver: tuple[str, ...]
) -> None:
    """On a busy machine the kernel may take its time to show what was sent: it is asked until most of all have come in
    time. Where slow requests go before others, none of these does, however often."""
    server = serve(*driver, "--workers", "0")
    slow = 400
    asked, begun, answered = 0, 0, 0
    for _ in range(5):
        with server.connect() as greedy:
            ask(greedy, b"/meet?%d" % server.port)
            greedy.sendall(GET.replace(b"/", b"/slow", 1) * slow)
            got = bytearray()
            for _ in range(slow):
                assert read_reply(greedy, got)[0] == 200
            asked, begun, answered = map(int, ask(greedy, b"/told").split())
        if begun > asked / 2 and answered > asked / 2:
            return
    pytest.fail(f"of {asked} requests of others {begun} began before the next slow one, {answered} were answered")


@pytest.mark.parametrize(
    ("driver", "path"), [("threads", b"/big?20000000"), ("gevent", b"/big?20000000"), ("asyncio", b"/vast-parts")]
)
def test_whoever_says_more_while_its_reply_waits_costs_nothing(
    serve: Callable[..., Serving], driver: str, path: bytes
) -> None:
    if driver not in DRIVERS:
        pytest.skip("gevent is not installed")
    _, *options = DRIVERS[driver]
    server = serve("asgi_views:app" if driver == "asyncio" else "behaviours", *options, "--workers", "0")
    with socket.socket() as slow, server.connect() as other:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        slow.settimeout(PATIENCE)
        slow.connect(("127.0.0.1", server.port))
        ask(other, b"/hello")
        slow.sendall(GET.replace(b"/", path, 1))
        assert slow.recv(100).startswith(b"HTTP/1.1 200"), "the reply has begun"
        slow.sendall(b"GE")
        ask(other, b"/hello")
        before = cpu_seconds(server.pid)
        time.sleep(1)
        assert cpu_seconds(server.pid) - before < 0.5, "it waits for room, and does not look for it all the time"
        ask(other, b"/hello")


@pytest.mark.parametrize("driver", DRIVERS)
def test_uploads_are_not_served_before_all_others(serve: Callable[..., Serving], driver: str) -> None:
    target, *options = DRIVERS[driver]
    server = serve(target, *options, "--workers", "0")
    size, begun = 60_000_000, threading.Barrier(5)

    def upload() -> None:
        with server.connect(60) as sock:
            ask(sock)
            begun.wait()
            sock.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size)
            sock.sendall(bytes(size))
            assert read_reply(sock, bytearray())[2] == b"%d" % size

    uploads = [threading.Thread(target=upload) for _ in range(4)]
    for thread in uploads:
        thread.start()
    with server.connect(60) as other:
        ask(other)
        begun.wait()
        answered = 0
        while any(thread.is_alive() for thread in uploads):
            ask(other)
            answered += 1
    assert answered >= 25, "others had their turn all the time, not only when the uploads had ended"
