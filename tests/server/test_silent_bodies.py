"""A request body of which nothing arrives any more ends after a while, however much of it came before."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from drivers import DRIVERS, connections, spool_files
from serving import Serving, read_all, read_reply

# What has come of it has paid for an hour, by the rate; or the grace is as long.
FIRST = 1_000_000
HEAD = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nf4240\r\n"


@pytest.mark.parametrize("head", [HEAD, CHUNKED], ids=["length", "chunked"])
@pytest.mark.parametrize("driver", DRIVERS)
def test_silence_ends_a_body_whatever_came_before(serve: Callable[..., Serving], driver: str, head: bytes) -> None:
    server = serve(*DRIVERS[driver], "--body-idle-timeout", "700ms", "--workers", "0")
    before = connections(server.pid), spool_files(server.pid)
    with server.connect() as sock:
        sock.sendall(head + bytes(FIRST - 1))
        begun = time.monotonic()
        sock.sendall(bytes(1))
        reply = read_all(sock)
        assert time.monotonic() - begun > 0.5
    # Where the application was reading, it has heard of it, and may have said something else.
    assert reply.startswith(b"HTTP/1.1 408 " if driver in ("threads", "asyncio") else b"HTTP/1.1 "), reply
    server.until(lambda: (connections(server.pid), spool_files(server.pid)) == before)


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_byte_in_time_keeps_a_body_alive(serve: Callable[..., Serving], driver: str) -> None:
    server = serve(*DRIVERS[driver], "--body-idle-timeout", "1500ms", "--body-grace", "1m")
    with server.connect() as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
        for _ in range(5):
            time.sleep(0.35)
            sock.sendall(b"xx")
        assert read_reply(sock, bytearray())[2] == b"10"


@pytest.mark.parametrize("driver", [driver for driver in DRIVERS if driver != "threads"])
def test_an_application_that_takes_its_time_does_not_make_its_client_silent(
    serve: Callable[..., Serving], driver: str
) -> None:
    _, *options = DRIVERS[driver]
    target = "uploads:late_app" if driver == "asyncio" else "uploads:late_application"
    server = serve(target, *options, "--body-idle-timeout", "1500ms", "--body-grace", "1500ms")
    with server.connect() as sock:
        # It is told to go on only when the application asks for the body.
        sock.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n")
        buffer = bytearray()
        assert read_reply(sock, buffer)[0] == 100
        sock.sendall(b"0123456789")
        assert read_reply(sock, buffer)[2] == b"10"
