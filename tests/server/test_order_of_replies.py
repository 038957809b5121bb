"""Replies come in the order of the requests, interim ones too, and those that are finished come although the
connection ends in the middle of a later request (RFC 9112, 9.3.2)."""

from __future__ import annotations

import importlib.util
import signal
import socket
from collections.abc import Iterator

import pytest
from serving import Serving, read_all, read_reply

WSGI = ("pipelines:application", "--interface", "wsgi")
ASGI = ("pipelines:app", "--interface", "asgi")
DRIVERS = {
    "threads": WSGI,
    "threads unbuffered": (*WSGI, "--no-request-buffering"),
    "asyncio": (*ASGI, "--loop", "asyncio"),
}
if importlib.util.find_spec("uvloop"):
    DRIVERS["uvloop"] = (*ASGI, "--loop", "uvloop")
if importlib.util.find_spec("gevent"):
    DRIVERS["gevent"] = (*WSGI, "-k", "gevent")
    DRIVERS["gevent unbuffered"] = (*WSGI, "-k", "gevent", "--no-request-buffering")


@pytest.fixture(scope="module", params=DRIVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Serving]:
    made = Serving(*DRIVERS[request.param])
    yield made
    made.kill()


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()


EXPECTING = b"POST /body HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"


@pytest.mark.parametrize("earlier", [1, 2, 5])
def test_the_word_to_go_on_comes_behind_earlier_replies(server: Serving, earlier: int) -> None:
    with server.connect() as sock:
        sock.sendall(b"".join(get(f"/{i}") for i in range(earlier)) + EXPECTING)
        buffer = bytearray()
        for i in range(earlier):
            assert read_reply(sock, buffer)[::2] == (200, f"/{i} ".encode())
        assert read_reply(sock, buffer)[0] == 100
        sock.sendall(b"nine char")
        assert read_reply(sock, buffer)[::2] == (200, b"/body nine char")
        sock.sendall(get("/next"))
        assert read_reply(sock, buffer)[::2] == (200, b"/next ")


def test_it_comes_behind_replies_that_the_client_is_slow_to_take(server: Serving) -> None:
    """Far more than fits into the socket: the word waits until its client reads, and is not lost."""
    count, path = 300, "/" + "x" * 6000
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(20)
        sock.connect(("127.0.0.1", server.port))
        sock.sendall(get(path) * count + EXPECTING)
        buffer = bytearray()
        for _ in range(count):
            assert read_reply(sock, buffer)[0] == 200
        assert read_reply(sock, buffer)[0] == 100
        sock.sendall(b"nine char")
        assert read_reply(sock, buffer)[::2] == (200, b"/body nine char")


ENDS = {
    "a body that is cut": b"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc",
    "a chunked body that is cut": b"POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
    "a body that is not begun": EXPECTING,
    "a head that is cut": b"GET /1 HTTP/1.1\r\nHos",
    "a request that nobody is left for": get("/wait"),
}


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize("end", ENDS)
def test_finished_replies_are_sent_though_the_connection_ends_later(server: Serving, end: str, method: str) -> None:
    length = "Content-Length: 4\r\n\r\nwhole"[:-1] if method == "POST" else "\r\n"
    wanted = b"" if method == "HEAD" else b"/0 whol" if method == "POST" else b"/0 "
    for _ in range(20):
        with server.connect() as sock:
            sock.sendall(f"{method} /0 HTTP/1.1\r\nHost: a\r\n{length}".encode() + get("/0b") + ENDS[end])
            sock.shutdown(socket.SHUT_WR)
            buffer = bytearray()
            assert read_reply(sock, buffer, head=method == "HEAD")[::2] == (200, wanted)
            assert read_reply(sock, buffer)[::2] == (200, b"/0b ")


def test_all_of_them_are_sent_to_a_slow_reader(server: Serving) -> None:
    """What does not fit into the socket at once is sent when it does."""
    count, path = 300, "/" + "x" * 6000
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(20)
        sock.connect(("127.0.0.1", server.port))
        sock.sendall(get(path) * count + ENDS["a body that is cut"])
        sock.shutdown(socket.SHUT_WR)
        buffer = bytearray()
        for _ in range(count):
            assert read_reply(sock, buffer)[0] == 200


def test_interim_replies_and_refusals_keep_their_order(server: Serving) -> None:
    with server.connect() as sock:
        sock.sendall(get("/1") + get("/hint") + get("/2") + b"GET / HTTP/1.1\r\n bad\r\n\r\n")
        buffer = bytearray()
        replies = []
        while len(replies) < 3 or replies[-1][0] < 400:
            replies.append(read_reply(sock, buffer)[::2])
        hints = [(103, b"")] if server_is_asgi(server) else []
        assert replies[:-1] == [(200, b"/1 "), *hints, (200, b"/hint "), (200, b"/2 ")]
        assert not read_all(sock)


def server_is_asgi(server: Serving) -> bool:
    return any("asgi" == word for word in server.process.args[3:])  # type: ignore[index]


def test_nothing_is_left(server: Serving) -> None:
    """Last in this file: every connection above has gone, and the server ends in order."""
    assert server.stop(signal.SIGTERM) == 0, server.log()
