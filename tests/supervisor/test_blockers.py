"""Who blocks a worker's loop again and again has it alone: all others leave it, and stay away."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Callable

import pytest
from asking import some_with_each  # type: ignore[import-not-found]
from serving import Serving, read_all, read_reply

#: Loops, of which one step holds up all others.
DRIVERS = {"asyncio": ("moved:asgi", "--loop", "asyncio")}
for name, options in (
    ("uvloop", ("moved:asgi", "--loop", "uvloop")),
    ("gevent", ("moved:wsgi", "--worker-class", "gevent")),
):
    if importlib.util.find_spec(name):
        DRIVERS[name] = options
#: So many others there are, some with each of two workers.
KEPT = 8
#: So often the loop is blocked.
ROUNDS = 12


def ask(sock: socket.socket, path: str = "/") -> None:
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())


def answer(sock: socket.socket) -> int:
    """The worker that answers, over a connection that stays open."""
    status, fields, body = read_reply(sock, bytearray())
    assert status == 200 and fields.get("connection") != "close"
    return int(body)


def workers_of(kept: list[socket.socket]) -> set[int]:
    for sock in kept:
        ask(sock)
    return {answer(sock) for sock in kept}


def block_anew(server: Serving) -> int:
    """The worker whose loop is blocked by a client that comes with a connection for each request."""
    with server.connect() as sock:
        sock.sendall(b"GET /busy HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        return int(read_all(sock).rpartition(b"\r\n\r\n")[2])


@pytest.mark.parametrize("driver", DRIVERS)
def test_who_blocks_a_loop_stays_with_it_and_all_others_leave_it_once(
    serve: Callable[..., Serving], driver: str
) -> None:
    server = serve(*DRIVERS[driver], "--workers", "2")
    kept = list(some_with_each(server, KEPT))
    blocking = kept.pop()
    ask(blocking)
    blocked = answer(blocking)

    def block() -> set[int]:
        ask(blocking, "/busy")
        assert answer(blocking) == blocked, "it is no better off elsewhere, and those who are there would be worse"
        return workers_of(kept)

    rounds = [block() for _ in range(ROUNDS)]
    server.until(lambda: blocked not in block())
    moved = server.counters()["connections_handed_over"]
    # Twice there and back at the most, where a busy machine has let it rest for as long as takes.
    assert 1 <= moved <= 4 * KEPT, rounds
    for sock in (*kept, blocking):
        sock.close()


@pytest.mark.parametrize("driver", DRIVERS)
def test_who_blocks_loops_with_new_connections_comes_to_the_one_that_others_have_left(
    serve: Callable[..., Serving], driver: str
) -> None:
    server = serve(*DRIVERS[driver], "--workers", "2")
    kept = list(some_with_each(server, KEPT))

    def are_apart() -> bool:
        blocked = {block_anew(server) for _ in range(4)}
        return len(blocked) == 1 and not blocked & workers_of(kept)

    server.until(are_apart)

    def nobody_moves() -> bool:
        moved = server.counters()["connections_handed_over"]
        more = list(some_with_each(server, KEPT))
        for _ in range(3):
            workers_of(more)
        for sock in more:
            sock.close()
        return server.counters()["connections_handed_over"] == moved

    # Also newcomers with the worker that was blocked, once it is not any more.
    server.until(nobody_moves)
    for sock in kept:
        sock.close()
