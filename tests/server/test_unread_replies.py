"""Clients that ask and do not read: nobody else notices, and what is held for them has a bound.

Each test runs with threads, under an event loop and under gevent's hub.
"""

from __future__ import annotations

import importlib.util
import socket
import sys
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
