"""Threads that compute without end: those who come with short requests meanwhile take turns with them, which are
short where one or two of them do that.

How fast a machine is does not matter: a short request follows the other until turns are as long as they shall be.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import pytest
from serving import PATIENCE, Serving, read_reply

Serve = Callable[..., Serving]
#: What turns take, in seconds (crates/bridge/src/ffi/switch_interval.rs).
USUAL, SHORT = 0.0005, 0.00005


def asked(served: Serving, path: str) -> socket.socket:
    sock = served.connect()
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    return sock


def turns_become(served: Serving, seconds: float) -> None:
    """Short requests follow one another on one connection until turns are so long, as nearly all of a hundred find."""
    end, seen = time.monotonic() + PATIENCE, []
    with served.connect() as sock:
        received = bytearray()
        while seen.count(seconds) < 90:
            assert time.monotonic() < end, f"turns of {seen} s"
            sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            seen = [*seen[-99:], round(float(read_reply(sock, received)[2]), 6)]


@pytest.mark.parametrize("threads", [1, 2])
def test_turns_are_short_while_one_thread_burns_or_two_do_and_usual_when_they_have_ended(
    serve: Serve, threads: int
) -> None:
    served = serve("short_turns:application", "--workers", "1", "--threads", "8")
    turns_become(served, USUAL)
    burning = [asked(served, "/burn") for _ in range(threads)]
    served.until(lambda: served.status()["workers"][0]["busy"] == threads)
    turns_become(served, SHORT)
    with asked(served, "/enough") as sock:
        assert read_reply(sock, bytearray())[0] == 200
    for sock in burning:
        with sock:
            assert read_reply(sock, bytearray())[0] == 200
    turns_become(served, USUAL)
