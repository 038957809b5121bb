"""Clients that ask and do not read: nobody else notices, and what is held for them has a bound.

Each test runs with threads, under an event loop and under gevent's hub.
"""

from __future__ import annotations

import importlib.util
import re
import select
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import PATIENCE, Serving, read_reply

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "apps"))

from pages import page

DRIVERS = {
    "threads": ("pages:wsgi", "--threads", "4"),
    "asyncio": ("pages:asgi", "--lifespan", "off"),
    "gevent": ("pages:wsgi", "--worker-class", "gevent"),
}
if not importlib.util.find_spec("gevent"):
    del DRIVERS["gevent"]


@pytest.fixture(params=DRIVERS)
def start(request: pytest.FixtureRequest, serve: Callable[..., Serving]) -> Callable[..., Serving]:
    """Start a server of the pages with more options."""
    return lambda *options: serve(*DRIVERS[request.param], *options)


def ask(server: Serving, *paths: str, more: bytes = b"") -> socket.socket:
    """A client with a small window that has asked for these, all at once, and reads nothing."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(PATIENCE)
    sock.connect(("127.0.0.1", server.port))
    sock.sendall(b"".join(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path.encode() for path in paths) + more)
    return sock


def assert_others_are_served(server: Serving) -> None:
    """Twenty requests, each answered long before anybody's patience with a slow reader ends."""
    with server.connect(5) as sock:
        for _ in range(20):
            sock.sendall(b"GET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
            assert read_reply(sock, bytearray())[2] == page(2)


@pytest.mark.parametrize(("size", "pairs"), [(8_000_000, 1), (70_000, 60)])
def test_a_client_that_pipelines_and_does_not_read_holds_up_nobody(
    start: Callable[..., Serving], size: int, pairs: int
) -> None:
    server = start()
    with ask(server, *["/2", f"/{size}"] * pairs) as sock:
        assert_others_are_served(server)
        buffer = bytearray()
        for _ in range(pairs):
            assert read_reply(sock, buffer)[2] == page(2)
            assert read_reply(sock, buffer)[2] == page(size)
        assert buffer == b""


def count(server: Serving) -> int:
    """How many pages were made, once that does not change any more."""
    with server.connect() as sock:
        last, same, questions = -1, 0, 0
        while same < 50:
            sock.sendall(b"GET /count HTTP/1.1\r\nHost: a\r\n\r\n")
            # Asking counts as well.
            now = int(read_reply(sock, bytearray())[2]) - questions
            same, last = (same + 1 if now == last else 0), now
            questions += 1
        return last


def kernel_buffers() -> int:
    """The most that the kernel takes for one connection of ours, on both sides."""
    return int(Path("/proc/sys/net/ipv4/tcp_wmem").read_text().split()[2]) + 64 * 1024


@pytest.mark.parametrize("bound", [1, 65_536, 200_000])
def test_who_does_not_take_replies_is_not_answered_further(start: Callable[..., Serving], bound: int) -> None:
    size, asked = 60_000, 300
    server = start("--limit-response-buffer-bytes", str(bound))
    with ask(server, "/2", *[f"/{size}"] * asked) as sock:
        made = count(server)
        assert 0 < made * size <= kernel_buffers() + 2 * bound + 2 * size
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        buffer = bytearray()
        assert read_reply(sock, buffer)[2] == page(2)
        for _ in range(asked):
            assert read_reply(sock, buffer)[2] == page(size)
        assert buffer == b""


def is_cut(sock: socket.socket, patience: float = PATIENCE) -> bool:
    """True as soon as the server has reset the connection, whatever of it is unread."""
    poll = select.poll()
    poll.register(sock, 0)
    return bool(poll.poll(patience * 1000))


CARRIED = ["/2", *["/60000"] * 200]


@pytest.mark.parametrize(
    ("paths", "more"),
    [(CARRIED, b""), (CARRIED, b"GE"), (["/2", "/8000000"], b""), (["/parts/200/60000"], b"GET /2")],
    ids=["carried", "carried and a piece", "kept", "parts"],
)
def test_who_takes_nothing_is_given_up_in_time(start: Callable[..., Serving], paths: list[str], more: bytes) -> None:
    server = start("--write-timeout", "500ms", "--header-timeout", "500ms")
    with ask(server, *paths, more=more) as sock:
        assert is_cut(sock)
        assert_others_are_served(server)


@pytest.mark.parametrize(("rate", "served"), [(1000, True), (10_000_000, False)])
@pytest.mark.parametrize("path", ["/8000000", "/parts/100/60000"])
def test_a_reader_must_keep_the_write_rate(start: Callable[..., Serving], path: str, rate: int, served: bool) -> None:
    server = start("--write-timeout", "500ms", "--limit-write-rate", str(rate))
    for _ in range(20):
        with ask(server, path) as sock:
            got, longest, last = bytearray(), 0.0, time.monotonic()
            # 50 kB a second, for longer than the timeout.
            for _ in range(60):
                if is_cut(sock, 0.02):
                    break
                got += sock.recv(1024)
                longest, last = max(longest, time.monotonic() - last), time.monotonic()
            cut = is_cut(sock, 0 if served else PATIENCE)
            if served and cut and max(longest, time.monotonic() - last) > 0.25:
                # It was this reader that had no processor, and did not keep the rate.
                continue
            assert cut != served
            if served:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
                assert read_reply(sock, got)[0] == 200
            return
    pytest.fail("this process never had a processor for a second")


def test_a_stop_waits_for_a_reader_as_long_as_that_has_patience(start: Callable[..., Serving]) -> None:
    server = start("--write-timeout", "500ms")
    with ask(server, *CARRIED, more=b"GE"):
        count(server)
        assert server.stop() == 0
        assert "cut" not in server.log()


@pytest.mark.parametrize("burst", [1000, 299_999, 300_000, 300_001])
def test_what_is_sent_in_bursts_arrives_whole(start: Callable[..., Serving], burst: int) -> None:
    server = start("--limit-send-burst-bytes", str(burst), "--write-timeout", "3s")
    with server.connect(2) as sock:
        for path in ["/300000", "/parts/5/300000", "/parts/1/64000", "/list/3/100000"] * 2:
            sock.sendall(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path.encode())
            body = read_reply(sock, bytearray())[2]
            *_, count, size = [1, *map(int, re.findall(r"\d+", path))]
            assert body == page(size) * count


def test_a_streamed_reply_holds_its_thread_as_long_as_its_reader_keeps_the_rate(serve: Callable[..., Serving]) -> None:
    server = serve(
        "pages:wsgi", "--threads", "1", "--write-timeout", "500ms", "--limit-write-rate", "10M", "--queue-timeout", "1m"
    )
    with ask(server, "/parts/1000/60000") as slow, server.connect() as other:
        assert select.select([slow], [], [], PATIENCE)[0]
        other.sendall(b"GET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
        # It takes 50 kB a second, for as long as it is let.
        while not select.select([other], [], [], 0.02)[0]:
            if not is_cut(slow, 0):
                slow.recv(1024)
        assert is_cut(slow, 0)
        assert read_reply(other, bytearray())[2] == page(2)
