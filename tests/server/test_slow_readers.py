"""A reader that is slow and goes on is served to the end; one that stops is cut."""

from __future__ import annotations

import contextlib
import functools
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from serving import PATIENCE, Serving

WAYS = ["wsgi file_wrapper", "wsgi body", "asgi pathsend", "asgi zerocopysend", "asgi parts"]
PATHS = {"asgi pathsend": "/vast-path", "asgi zerocopysend": "/vast-copy", "asgi parts": "/vast-parts"}


#: Begins a reader.
Reader = Callable[[], AbstractContextManager[socket.socket]]
#: So often one is begun again that had no processor for a good part of the timeout, and was cut for that.
TRIES = 20
OPTIONS = ("--write-timeout", "800ms", "--keep-alive", "1m")


@functools.cache
def expected() -> bytes:
    """What there is to be read: 16 MB."""
    return b"".join(b"%015d\n" % number for number in range(1_000_000))


@pytest.fixture(params=WAYS)
def reader(request: pytest.FixtureRequest, serve: Callable[..., Serving], tmp_path: Path) -> Reader:
    """Somebody with a small window who has asked for 16 MB, on a connection that was idle for long before that."""
    if request.param.startswith("wsgi"):
        (tmp_path / "vast").write_bytes(expected())
        server = serve("behaviours", *OPTIONS, env={"TEST_FILE": str(tmp_path / "vast")})
    else:
        server = serve("asgi_views:app", *OPTIONS)
    path = PATHS.get(request.param, "/file?0" if "file" in request.param else "/read-file")

    @contextmanager
    def begin() -> Iterator[socket.socket]:
        with small_window(server) as sock:
            # Longer than the patience that begins with the reply.
            time.sleep(1)
            sock.sendall(b"GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % path.encode())
            yield sock

    return begin


@contextmanager
def small_window(server: Serving) -> Iterator[socket.socket]:
    """A connection that takes little at a time and has had its first reply."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        sock.settimeout(PATIENCE)
        sock.connect(("127.0.0.1", server.port))
        sock.sendall(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")
        yield sock


def rest(sock: socket.socket, got: bytearray) -> bytes:
    """The content, as far as it comes."""
    try:
        while part := sock.recv(1 << 20):
            got += part
    except ConnectionResetError:
        pass
    return bytes(got).partition(b"\r\n\r\n")[2]


def slowly(sock: socket.socket, times: int) -> tuple[bytes, float]:
    """The content, of which it takes little so many times and then all; the longest time in which it took nothing."""
    got, longest, last = bytearray(), 0.0, time.monotonic()
    for _ in range(times):
        try:
            got += sock.recv(8 * 1024)
        except ConnectionResetError:
            break
        time.sleep(0.02)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    return rest(sock, got), longest


def gets_it_all(begin: Reader, times: int) -> None:
    for _ in range(TRIES):
        with begin() as sock:
            body, longest = slowly(sock, times)
        if body == expected():
            return
        assert longest > 0.3, f"{len(body)} of {len(expected())} bytes"
    pytest.fail("this process never had a processor for some seconds")


def test_a_slow_reader_that_goes_on_gets_it_all(reader: Reader) -> None:
    # In all this time, twice the timeout and more, it takes less than what makes the kernel tell of room.
    gets_it_all(reader, 130)


def test_a_reader_that_stops_is_cut(reader: Reader) -> None:
    with reader() as sock:
        got = bytearray(sock.recv(1000))
        time.sleep(2.5)
        body = rest(sock, got)
    assert len(body) < len(expected()) and expected().startswith(body)


def test_the_time_of_a_slow_reader_begins_with_its_reply_and_not_before_a_view_that_held_the_event_loop(
    serve: Callable[..., Serving],
) -> None:
    server = serve("asgi_views:app", *OPTIONS)

    @contextmanager
    def begin() -> Iterator[socket.socket]:
        with small_window(server) as sock:
            sock.sendall(b"GET /held?file HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            yield sock

    gets_it_all(begin, 20)


def test_the_time_of_an_idle_client_begins_with_its_reply_and_not_before_a_view_that_held_the_event_loop(
    serve: Callable[..., Serving],
) -> None:
    server = serve("asgi_views:app", "--keep-alive", "800ms")
    for _ in range(TRIES):
        with small_window(server) as sock:
            sock.sendall(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
            assert select.select([sock], [], [], PATIENCE)[0]
            answered = time.monotonic()
            assert sock.recv(65536).endswith(b"held")
            # Every other client makes the server look at what is over.
            for _ in range(3):
                with small_window(server):
                    time.sleep(0.1)
            found = b""
            with contextlib.suppress(OSError):
                sock.sendall(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
                found = sock.recv(65536)
            if found.startswith(b"HTTP/1.1 200"):
                return
            # Or it was idle for as long as that: the reply was there before it was seen.
            assert time.monotonic() - answered > 0.5, found
    pytest.fail("this process never had a processor for half a second")
