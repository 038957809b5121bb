"""Many requests at the same moment are no reason for Python's collector to begin."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from serving import Serving, read_reply

CLIENTS, ROUNDS = 64, 40


def test_requests_that_come_together_do_not_begin_a_collection(serve: Callable[..., Serving], loop: str) -> None:
    """It begins at 700 objects more than before: a framework has some hundreds, and a request that waits has ten."""
    served = serve("asgi_collected:app", "--workers", "1", "--loop", loop)
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(served.connect()) for _ in range(CLIENTS)]
        begun, counted = 0, []
        for number in range(ROUNDS):
            for sock in socks:
                path = b"/" if sock is not socks[0] else b"/wait"
                sock.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: a\r\n\r\n")
            counted = [int(read_reply(sock, bytearray())[2]) for sock in socks]
            begun = begun if number else max(counted)
        assert max(counted) - begun < ROUNDS / 4
