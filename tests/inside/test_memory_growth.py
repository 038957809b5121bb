"""Which route makes workers grow: `forehand_route_memory_growth_bytes`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import Serving, read_reply
from shared import Watched, applications, settled, statistics

Serve = Callable[..., Serving]
DRIVERS = applications("inner")
ROUNDS, CLIENTS = 100, 4
#: What `/leak/2` keeps, in bytes: two objects of 10,000 bytes, and what holds them.
KEPT = 20_000
PATHS = ("/leak/2", "/one", "/two", "/three", "/four")


def growth(watched: Watched) -> dict[str, float]:
    """Bytes by route."""
    samples = watched.samples().items()
    return {dict(labels)["route"]: value for (name, labels), value in samples if name.endswith("memory_growth_bytes")}


def ask(server: Serving, rounds: int) -> None:
    """Every path, so often, on one connection."""
    with server.connect() as sock:
        buffer = bytearray()
        for path in PATHS * rounds:
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            assert read_reply(sock, buffer)[0] == 200


@pytest.mark.parametrize("driver", DRIVERS)
def test_the_route_that_leaks_has_nearly_all_of_the_growth(serve: Serve, tmp_path: Path, driver: str) -> None:
    target, *options = DRIVERS[driver]
    watched = Watched(serve, tmp_path, "--workers", "1", *options, target=target)
    # What an interpreter fetches once comes with the first requests.
    ask(watched.server, 10)
    settled(watched.server, statistics(watched.server), 10 * len(PATHS))
    before = growth(watched)
    clients = [threading.Thread(target=ask, args=(watched.server, ROUNDS)) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    settled(watched.server, statistics(watched.server), (10 + ROUNDS * CLIENTS) * len(PATHS))
    after = growth(watched)
    grown = {route: value - before.get(route, 0) for route, value in after.items()}
    leaking = grown.pop("GET /leak/*")
    others = sum(max(value, 0) for value in grown.values())
    assert leaking >= 0.8 * (leaking + others), (leaking, grown)
    # Those that were looked at stand for all: their mean is what each has kept.
    assert 0.5 <= leaking / (ROUNDS * CLIENTS * KEPT) <= 2, leaking


def test_who_is_not_alone_is_not_blamed(serve: Serve, tmp_path: Path) -> None:
    """A request that is inside for long sees the growth of all others: it is none of its own."""
    watched = Watched(serve, tmp_path, "--workers", "1", "--threads", "4", target="inner:application")
    ask(watched.server, 10)
    with watched.server.connect() as long:
        for _ in range(2):
            long.sendall(b"GET /sleep/0.5 HTTP/1.1\r\nHost: a\r\n\r\n")
            ask(watched.server, 20)
            assert read_reply(long, bytearray())[0] == 200
    settled(watched.server, statistics(watched.server), 2 + 50 * len(PATHS))
    assert growth(watched).get("GET /sleep/0.5", 0) < KEPT, growth(watched)
