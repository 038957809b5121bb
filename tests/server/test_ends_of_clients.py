"""A client that ends its side is noticed at once, also where the end comes together with its last data."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest
from drivers import DRIVERS, connections, spool_files
from serving import Serving, read_all, read_reply

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
# Whoever misses an end waits for it longer than any test does.
LONG = ("--keep-alive", "10m", "--body-grace", "10m", "--header-timeout", "10m", "--workers", "0")


@pytest.fixture(params=DRIVERS)
def server(request: pytest.FixtureRequest, serve: Callable[..., Serving]) -> Iterator[Serving]:
    """A server of uploads that has no patience of its own."""
    server = serve(*DRIVERS[request.param], *LONG, "--no-defer-accept")
    yield server
    assert server.stop() == 0


def watched(server: Serving) -> socket.socket:
    """A connection that has had a request: edges tell what comes on it."""
    sock = server.connect()
    sock.sendall(GET)
    assert read_reply(sock, bytearray())[0] == 200
    return sock


def last_words(sock: socket.socket, data: bytes) -> None:
    """Send bytes and the end in one segment."""
    sock.send(data, socket.MSG_MORE)
    sock.shutdown(socket.SHUT_WR)


def test_the_end_with_the_last_request_ends_the_connection(server: Serving) -> None:
    with watched(server) as sock:
        last_words(sock, GET)
        assert read_all(sock).startswith(b"HTTP/1.1 200")


def test_the_end_with_the_last_bytes_of_a_body_ends_the_connection(server: Serving) -> None:
    with watched(server) as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\n" + b"x" * 20)
        last_words(sock, b"x" * 20)
        assert read_all(sock).endswith(b"\r\n\r\n40")


def test_the_end_within_a_head_ends_the_connection(server: Serving) -> None:
    with watched(server) as sock:
        last_words(sock, GET[:20])
        assert not read_all(sock)


def test_uploads_that_are_cut_leave_nothing(server: Serving) -> None:
    before = connections(server.pid), spool_files(server.pid)
    cut = []
    for number in range(20):
        sock = watched(server)
        sock.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n")
        # Some are in memory and some in a file by then.
        sock.sendall(b"x" * (100 if number % 2 else 600_000))
        last_words(sock, b"y" * 500)
        cut.append(sock)
    for sock in cut:
        assert b" 200 " not in read_all(sock)
        sock.close()
    server.until(lambda: (connections(server.pid), spool_files(server.pid)) == before)
