"""Clients that leave while their body is still arriving: nobody's failure, and nothing for the log."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
from serving import Serving, read_all

pytestmark = pytest.mark.interpreters


def post(server: Serving, path: str, body: bytes = b"abc") -> bytes:
    """Half a body, the end of the client's side, and what comes back until the server ends its own."""
    with server.connect() as sock:
        sock.sendall(f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n".encode() + body)
        sock.shutdown(socket.SHUT_WR)
        return read_all(sock)


def get(server: Serving, path: str) -> bytes:
    """A page."""
    return server.raw(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())


@pytest.mark.parametrize("path", ["/reads", "/reads-and-wraps"])
def test_a_client_that_leaves_in_its_body_is_not_told_as_a_failure(serve: Callable[..., Serving], path: str) -> None:
    server = serve("elsewhere", "--no-request-buffering")
    assert post(server, path) == b"", "nobody is left who could miss a reply"
    assert post(server, "/reads-and-answers").startswith(b"HTTP/1.1 400 "), "the log has been written meanwhile"
    assert "failed" not in server.log()


def test_it_is_none_in_the_middle_of_a_response_either(serve: Callable[..., Serving]) -> None:
    server = serve("elsewhere", "--no-request-buffering")
    found = post(server, "/reads-late")
    assert found.startswith(b"HTTP/1.1 200 ") and found.endswith(b"5\r\nfirst\r\n"), "cut, visibly"
    assert b"left before its request body was complete" in post(server, "/reads-and-answers")
    assert "failed" not in server.log()


def test_it_is_none_where_the_client_has_left_before_its_body_could_be_asked_for(serve: Callable[..., Serving]) -> None:
    server = serve("elsewhere", "--no-request-buffering")
    with server.connect() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        sock.sendall(b"POST /reads-when-told HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n")
        server.until(lambda: b"asked" in get(server, "/notes"))
    # It was reset by now. Its body is asked for in vain.
    get(server, "/tell")
    server.until(lambda: b"read" in get(server, "/notes"))
    assert server.stop() == 0
    assert "failed" not in server.log()


def test_an_application_that_fails_by_itself_is_told_all_the_same(serve: Callable[..., Serving]) -> None:
    server = serve("elsewhere", "--no-request-buffering")
    assert post(server, "/reads-and-fails").startswith(b"HTTP/1.1 500 ")
    server.until(lambda: "ValueError: a failure of its own" in server.log())
