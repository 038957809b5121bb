"""A web server's body that the application does not read: its reply is there when all of it has been sent.

A web server that is asked here sends all of a body before it looks at the reply, as Apache and Caddy do.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from drivers import DRIVERS
from gatewayrequests import STDIN, WRITERS, fastcgi, parsed, place, read_record, read_reply, record, variables
from serving import PATIENCE, Serving, read_all

Serve = Callable[..., Serving]

DRIVEN = {
    name: ("fronted:app" if name == "asyncio" else "fronted:application", *options[1:])
    for name, options in DRIVERS.items()
}
each = pytest.mark.parametrize("protocol", sorted(WRITERS))
driven = pytest.mark.parametrize("driver", DRIVEN.values(), ids=DRIVEN)
#: One of each engine.
ENGINES = {name: driver for name, driver in DRIVEN.items() if name != "threads without buffering"}
#: In these the application is asked before its body has come.
STREAMING = [name for name in DRIVEN if name in ("asyncio", "threads without buffering")]
streaming = pytest.mark.parametrize("driver", [DRIVEN[name] for name in STREAMING], ids=STREAMING)
#: More than sockets take of what nobody reads.
LARGE = b"x" * 8_000_000


@contextmanager
def connected(served: Serving, number: int = 0) -> Iterator[socket.socket]:
    with socket.create_connection(place(served, number), PATIENCE) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield sock


def early(protocol: str, body: bytes, **more: str) -> bytes:
    """A request that is refused with 403 whatever its body is."""
    return WRITERS[protocol](variables("POST", "/?early", body, more), body)


@each
@driven
def test_a_reply_is_there_when_all_of_a_body_has_been_sent(
    serve: Serve, driver: tuple[str, ...], protocol: str
) -> None:
    target, *more = driver
    served = serve(target, *more, f"--bind={protocol}://127.0.0.1:0")
    for _ in range(2):
        with connected(served) as sock:
            sock.sendall(early(protocol, LARGE))
            status, _, body = parsed(read_all(sock))
            assert (status, body) == (403, b"early")
    served.counts("lingers_cut", 0)


@streaming
def test_a_kept_connection_goes_on_behind_a_body_that_nobody_has_read(serve: Serve, driver: tuple[str, ...]) -> None:
    target, *more = driver
    served = serve(target, *more, "--bind=fastcgi://127.0.0.1:0")
    with connected(served) as sock:
        for told in (True, False, True):
            given = variables("POST", "/?early", LARGE, {} if told else {"CONTENT_LENGTH": ""})
            sock.sendall(fastcgi(given, LARGE, keep=True))
            assert parsed(read_reply(sock))[::2] == (403, b"early")
            # One that comes together with the end of the body is not taken for a part of it.
            given = variables("POST", "/?early", b"hello")
            sock.sendall(fastcgi(given, b"hello", keep=True) + fastcgi(variables("GET", "/?received,x"), keep=True))
            assert parsed(read_reply(sock))[::2] == (403, b"early")
            assert parsed(read_reply(sock))[::2] == (200, b"0")


@streaming
def test_whoever_looks_at_the_reply_first_may_leave(serve: Serve, driver: tuple[str, ...]) -> None:
    target, *more = driver
    served = serve(target, *more, "--bind=uwsgi://127.0.0.1:0")
    with connected(served) as sock:
        sock.sendall(early("uwsgi", LARGE)[:100_000])
        assert parsed(read_all(sock))[0] == 403, "a reply ends with our side of the connection"
    served.counts("connections_closed", 1)
    served.counts("lingers_cut", 0)
    served.counts("requests_incomplete", 0)


@each
@streaming
def test_a_body_that_nobody_reads_may_take_the_time_of_a_body(
    serve: Serve, driver: tuple[str, ...], protocol: str
) -> None:
    target, *more = driver
    served = serve(target, *more, f"--bind={protocol}://127.0.0.1:0", "--linger-timeout", "1s")
    request = early(protocol, LARGE)
    with connected(served) as sock:
        sock.sendall(request[:2000])
        begun = time.monotonic()
        assert select.select([sock], [], [], PATIENCE)[0], "it is refused at once"
        for at in range(2000, 2040):
            sock.sendall(request[at : at + 1])
            time.sleep(0.03)  # as a slow client does: in all longer than the time to linger
        assert time.monotonic() - begun >= 1.2
        sock.sendall(request[2040:])
        found = read_all(sock)
    assert parsed(found)[::2] == (403, b"early")
    served.counts("lingers_cut", 0)


@pytest.mark.parametrize("driver", ENGINES.values(), ids=ENGINES)
def test_who_sends_too_much_is_told_so_however_long_it_takes(serve: Serve, driver: tuple[str, ...]) -> None:
    target, *more = driver
    binds = [f"--bind={protocol}://127.0.0.1:0" for protocol in WRITERS]
    served = serve(target, *more, *binds, "--limit-body-bytes", "1000000", "--linger-timeout", "3s")
    # Nobody is to read it, as its length is told before.
    requests = [early(protocol, LARGE[:1_000_001]) for protocol in WRITERS]
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(connected(served, number)) for number in range(len(requests))]
        for part in range(50):
            for sock, request in zip(socks, requests):
                step = len(request) // 50 + 1
                sock.sendall(request[part * step : part * step + step])
            time.sleep(0.065)  # in all longer than the time to linger, and never so long without a byte
        assert [parsed(read_all(sock))[0] for sock in socks] == [413] * len(socks)
    served.counts("lingers_cut", 0)


@streaming
def test_a_body_that_nobody_reads_and_that_stops_is_given_up(serve: Serve, driver: tuple[str, ...]) -> None:
    target, *more = driver
    served = serve(target, *more, "--bind=fastcgi://127.0.0.1:0", "--body-idle-timeout", "200ms")
    with connected(served) as sock:
        sock.sendall(fastcgi(variables("POST", "/?early", LARGE), LARGE, keep=True)[:100_000])
        assert parsed(read_reply(sock))[0] == 403
        assert read_record(sock)[0] == 0, "its connection ends"
    served.counts("lingers_cut", 1)


@pytest.mark.parametrize(("size", "fits"), [(999_999, True), (1_000_000, True), (1_000_001, False)])
@streaming
def test_of_a_body_without_a_length_as_much_is_thrown_away_as_a_body_may_have(
    serve: Serve, driver: tuple[str, ...], size: int, fits: bool
) -> None:
    target, *more = driver
    options = ("--limit-body-bytes", "1000000", "--linger-timeout", "200ms", "--limit-drain-bytes", "0")
    served = serve(target, *more, "--bind=fastcgi://127.0.0.1:0", *options)
    given = variables("POST", "/?early", more={"CONTENT_LENGTH": ""})
    with connected(served) as sock:
        sock.sendall(fastcgi(given, b"x" * 1000, keep=True).removesuffix(record(STDIN, 1)))
        assert parsed(read_reply(sock))[0] == 403
        left = size - 1000
        while left:
            part = min(left, 50_000)
            sock.sendall(record(STDIN, 1, b"x" * part))
            left -= part
        sock.sendall(record(STDIN, 1))
        if fits:
            sock.sendall(fastcgi(variables("GET", "/?received,x"), keep=True))
            assert parsed(read_reply(sock))[2] == b"0", "the connection goes on"
        else:
            assert read_record(sock)[0] == 0, "its connection ends"
    served.counts("lingers_cut", 0 if fits else 1)
