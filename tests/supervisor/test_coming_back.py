"""Clients leave a worker that is held up, and come back to it when that is over."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import Serving, read_reply

#: One request of a client of these, and another one holds the interpreter up, or the event loop, or gevent's hub.
DRIVERS = {"threads": ("moved:wsgi", "--threads", "8"), "asyncio": ("moved:asgi", "--loop", "asyncio")}
if importlib.util.find_spec("gevent"):
    DRIVERS["gevent"] = ("moved:wsgi", "--worker-class", "gevent")
#: So many are kept: some with each of two workers.
KEPT = 8


def asked(server: Serving, path: str) -> socket.socket:
    """A connection on which a request is on its way."""
    sock = server.connect()
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    return sock


def answered_by(sock: socket.socket) -> int:
    """The worker that answers the request of a connection, which stays open."""
    status, fields, body = read_reply(sock, bytearray())
    assert status == 200 and fields.get("connection") != "close"
    return int(body)


def workers_of(kept: list[socket.socket]) -> list[int]:
    """Who answers each of them now."""
    for sock in kept:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    return [answered_by(sock) for sock in kept]


def none_under_way(server: Serving) -> int:
    """How many have gone from one worker to another, once all have arrived."""
    counted = server.counters()
    arrived = counted["connections_taken_over"]
    return arrived if arrived == counted["connections_handed_over"] else 0


@pytest.mark.parametrize("driver", DRIVERS)
def test_clients_leave_a_worker_that_is_held_up_and_come_back_when_that_is_over(
    serve: Callable[..., Serving], driver: str, tmp_path: Path
) -> None:
    server = serve(*DRIVERS[driver], "--workers", "2")
    kept: list[socket.socket] = []

    def some_with_each() -> bool:
        # Asked while others are busy, so that both workers take some.
        more = [asked(server, "/sleep?0.3") for _ in range(KEPT)]
        kept.extend(more)
        return len({answered_by(sock) for sock in more}) == 2

    server.until(some_with_each)
    over = tmp_path / "over"
    burning = asked(server, f"/burn?{over}")
    server.until(lambda: len(set(workers_of(kept))) == 1)
    [sound] = set(workers_of(kept))
    over.touch()
    assert answered_by(burning) != sound
    server.until(lambda: len(set(workers_of(kept))) == 2)
    moved = server.until(lambda: none_under_way(server))
    assert moved >= 2, "one there and one back"
    for sock in (*kept, burning):
        sock.close()
