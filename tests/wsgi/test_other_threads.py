"""`write` and `wsgi.input` in the hands of other threads: they get exceptions, and nobody else notices."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
from serving import PATIENCE, Serving, read_all, read_reply

pytestmark = pytest.mark.interpreters

HELLO = b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"
OVER = "RuntimeError: the request that this function belongs to has ended"


def ask(server: Serving, path: str) -> bytes:
    with server.connect() as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        return read_reply(sock, bytearray())[2]


def reluctant(server: Serving, path: str) -> socket.socket:
    """A client with a small window that has asked for something and reads nothing."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(PATIENCE)
    sock.connect(("127.0.0.1", server.port))
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    return sock


def bystanders_are_served(server: Serving, others: list[socket.socket]) -> None:
    """Each gets exactly its own reply, and no byte more."""
    for sock in others:
        rest = bytearray()
        sock.sendall(HELLO)
        assert read_reply(sock, rest)[2] == b"hello"
        assert rest == b""


def test_a_thread_that_writes_on_when_its_request_is_over_reaches_nobody_else(serve: Callable[..., Serving]) -> None:
    server = serve("elsewhere")
    with reluctant(server, "/writes-on") as slow:
        # Its thread waits for room while the request ends: what it had handed over is sent, and then the end.
        # Nobody reads before that: as long as somebody does it writes on.
        server.until(lambda: ask(server, "/stood-still") == b"1")
        others = [server.connect() for _ in range(60)]
        buffer = bytearray(slow.recv(4096))
        bystanders_are_served(server, others)
        status, _, body = read_reply(slow, buffer)
        bystanders_are_served(server, others)
        server.until(lambda: ask(server, "/notes"))
        bystanders_are_served(server, others)
    assert status == 200
    part = b"0123456789abcdef" * 20_000
    assert len(body) % len(part) == 0 and body == part * (len(body) // len(part)), "only whole parts"
    assert OVER in ask(server, "/notes").decode()
    for sock in others:
        sock.close()


def test_parts_that_two_threads_write_are_not_mixed(serve: Callable[..., Serving]) -> None:
    server = serve("elsewhere")
    with reluctant(server, "/two-write") as slow:
        body = read_reply(slow, bytearray())[2]
    assert (body.count(b"a"), body.count(b"b")) == (20 * 50_000, 20 * 200_000)
    runs = body.replace(b"a" * 50_000, b"A").replace(b"b" * 200_000, b"B")
    assert set(runs) == set(b"AB"), "each part is whole"
    assert ask(server, "/notes") == b"nothing was raised\nnothing was raised"


def test_a_thread_that_reads_on_when_its_request_is_over_stops_nobody(serve: Callable[..., Serving]) -> None:
    server = serve("elsewhere", "--no-request-buffering")
    with server.connect() as poster:
        poster.sendall(b"POST /reads-on HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
        buffer = bytearray()
        status, fields, body = read_reply(poster, buffer)
        assert (status, body, fields.get("connection")) == (200, b"answered", "close")
        assert read_all(poster) == b"", "the connection ends: nobody knows where the next request begins"
        assert ask(server, "/hello") == b"hello"
    server.until(lambda: ask(server, "/notes"))
    assert ask(server, "/notes") == b"RuntimeError: the request has ended; its body can no longer be read"


def test_a_body_that_a_thread_reads_while_it_comes_slowly_ends_with_its_request(serve: Callable[..., Serving]) -> None:
    server = serve("elsewhere", "--no-request-buffering")
    with server.connect() as poster:
        poster.sendall(b"POST /reads-on HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + b"x" * 5000)
        assert read_reply(poster, bytearray())[2] == b"answered"
        # What still comes is nobody's, and resets nothing.
        poster.sendall(b"y" * 50_000)
        assert read_all(poster) == b""
    server.until(lambda: ask(server, "/notes"))
    assert b"RuntimeError: the request has ended" in ask(server, "/notes")


def test_write_sends_nothing_where_no_response_has_been_started(serve: Callable[..., Serving]) -> None:
    server = serve("elsewhere")
    found = server.raw(b"GET /writes-unstarted HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 500 "), found
    assert b"never to be seen" not in found
    server.until(lambda: "without calling start_response first" in server.log())


def test_a_part_of_no_bytes_leaves_the_head_to_be_replaced(serve: Callable[..., Serving]) -> None:
    server = serve("elsewhere")
    found = server.raw(b"GET /writes-nothing-first HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 503 Later\r\nX-Second: 2\r\n"), found
    assert found.endswith(b"\r\n\r\nlater") and b"X-First" not in found, found


def test_a_deadline_that_passes_while_a_failure_is_logged_does_not_hit_the_log(serve: Callable[..., Serving]) -> None:
    server = serve("elsewhere", "--request-timeouts", "/fails-late=2s")
    server.raw(b"GET /fails-late HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    server.until(lambda: ask(server, "/notes"))
    assert ask(server, "/notes") == b"told"
    assert "forehand.RequestTimeout" not in server.log(), server.log()


def test_205_has_no_content_and_says_so(serve: Callable[..., Serving]) -> None:
    server = serve("elsewhere")
    with server.connect() as sock:
        sock.sendall(b"GET /reset-content HTTP/1.1\r\nHost: a\r\n\r\n" + HELLO)
        buffer = bytearray()
        status, fields, body = read_reply(sock, buffer)
        assert (status, fields["content-length"], body) == (205, "0", b"")
        assert read_reply(sock, buffer)[2] == b"hello"
