"""What is kept for slow readers has a bound in each worker: the limit kept_bytes."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable

import pytest
from serving import PATIENCE, Serving, read_reply
from test_unread_replies import DRIVERS, ask, assert_others_are_served, is_cut, page
from torment.looking import holding

SIZE = 8_000_000


def is_whole(sock: socket.socket, size: int = SIZE) -> bool:
    """True where the reply comes to its end as it should."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    return read_reply(sock, bytearray())[2] == page(size)


@pytest.mark.parametrize(("limit", "waits"), [(SIZE - 1, True), (SIZE, False), (SIZE + 1, False)])
def test_a_thread_waits_for_its_reader_while_too_much_is_kept(
    serve: Callable[..., Serving], limit: int, waits: bool
) -> None:
    server = serve("pages:wsgi", "--threads", "1", "--limit-kept-bytes", str(limit))
    with ask(server, f"/{SIZE}") as slow, server.connect() as other:
        select.select([slow], [], [], PATIENCE)
        other.sendall(b"GET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
        # One that is free answers within a millisecond.
        assert (select.select([other], [], [], 0.5 if waits else PATIENCE)[0] == []) == waits
        assert is_whole(slow)
        assert read_reply(other, bytearray())[2] == page(2)
    server.counts("kept_waits", int(waits))


EVENTED = [name for name in DRIVERS if name != "threads"]


@pytest.mark.parametrize("driver", EVENTED)
@pytest.mark.parametrize(("limit", "cut"), [(2 * SIZE - 1, True), (2 * SIZE, False), (2 * SIZE + 1, False)])
def test_where_nothing_can_wait_the_one_that_takes_least_is_reset(
    serve: Callable[..., Serving], driver: str, limit: int, cut: bool
) -> None:
    server = serve(*DRIVERS[driver], "--limit-kept-bytes", str(limit))
    with ask(server, f"/{SIZE}") as first:
        select.select([first], [], [], PATIENCE)
        with ask(server, f"/{SIZE}") as second:
            select.select([second], [], [], PATIENCE)
            if cut:
                assert is_cut(first)
            else:
                assert is_whole(first)
            assert is_whole(second)
        assert_others_are_served(server)
    server.counts("kept_resets", int(cut))


@pytest.mark.parametrize("driver", DRIVERS)
def test_one_reply_is_served_whatever_its_size(serve: Callable[..., Serving], driver: str) -> None:
    server = serve(*DRIVERS[driver], "--limit-kept-bytes", "1000")
    with ask(server, f"/{SIZE}") as slow:
        assert_others_are_served(server)
        assert is_whole(slow)


def resident(server: Serving) -> int:
    """Bytes of memory of the worker that are no code."""
    found = holding((server.workers or [server.pid])[0])
    assert found
    return found.anonymous_kib * 1024


@pytest.mark.parametrize("driver", DRIVERS)
def test_ten_times_the_limit_is_not_held(serve: Callable[..., Serving], driver: str) -> None:
    limit, threads = 4 * SIZE, 2
    more = ("--threads", str(threads), "--queue-timeout", "1m") if driver == "threads" else ()
    server = serve(*DRIVERS[driver], "--limit-kept-bytes", str(limit), *more)
    with ask(server, f"/{SIZE}") as first:
        assert is_whole(first)
    before = resident(server)
    socks = [ask(server, f"/{SIZE}") for _ in range(40)]
    try:
        for sock in socks[:4]:
            select.select([sock], [], [], PATIENCE)
        if driver != "threads":
            # With threads nobody is served before one of them reads, which is the bound.
            assert_others_are_served(server)
        # The limit, one for each thread, as many that the allocator has not given back, and one that is being made.
        assert resident(server) - before <= limit + 2 * (threads + 1) * SIZE
    finally:
        for sock in socks:
            sock.close()
    assert_others_are_served(server)
