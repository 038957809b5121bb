"""Clients that take turns (`--fair-by`) where slow requests are not told from quick ones: in the one queue.

Views wait for a file; how fast a machine is does not matter.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import Serving, read_reply

Serve = Callable[..., Serving]
#: Clients have one of 256 shares by chance: of four hardly three have the same one as another client.
MODEST = 4


def of(served: Serving, client: str, path: str) -> socket.socket:
    """A client's request, on its way."""
    sock = served.connect()
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nX-Client: {client}\r\n\r\n".encode())
    return sock


def statuses(crowd: list[socket.socket]) -> list[int]:
    """Of the only reply of each connection."""
    found = []
    for sock in crowd:
        with sock:
            found.append(read_reply(sock, bytearray())[0])
    return found


def taken(serve: Serve, threads: int, go: Path, *options: str) -> tuple[Serving, list[socket.socket]]:
    """A server all of whose threads are inside: one is done when `go` is there, the others when another file is."""
    said = ("--workers", "1", "--threads", str(threads), "--queue-timeout", "0s", "--newest-first-after", "0s")
    served = serve("lanes:application", *said, "--fair-by", "header:X-Client", *options)
    files = [go, *[go.with_suffix(".later")] * (threads - 1)]
    held = [of(served, "first", f"/held?{file}") for file in files]
    served.until(lambda: served.status()["workers"][0]["busy"] == threads)
    return served, held


def waiting(served: Serving, count: int) -> None:
    served.until(lambda: served.status()["workers"][0]["queued"] == count)


@pytest.mark.parametrize("threads", [1, 2])
def test_who_asks_for_most_waits_behind_itself_and_not_before_everybody(
    serve: Serve, tmp_path: Path, threads: int
) -> None:
    go = tmp_path / "go"
    served, held = taken(serve, threads, go)
    crowd = []
    for number in range(8):
        crowd.append(of(served, "greedy", f"/a/greedy{number}?{go}"))
        waiting(served, len(crowd))
    for number in range(MODEST):
        crowd.append(of(served, f"modest {number}", f"/a/modest{number}?{go}"))
        waiting(served, len(crowd))
    go.touch()
    assert statuses(crowd) == [200] * len(crowd)
    with of(served, "first", "/begun") as sock:
        begun = [name for name in read_reply(sock, bytearray())[2].decode().split() if name != "held"]
    first = [name for name in begun[: 1 + MODEST] if name.startswith("modest")]
    assert len(first) >= MODEST - 2, begun
    assert [name for name in begun if name.startswith("greedy")] == [f"greedy{number}" for number in range(8)]
    go.with_suffix(".later").touch()
    assert statuses(held) == [200] * threads


@pytest.mark.parametrize("threads", [1, 2])
def test_who_has_most_that_wait_makes_room_for_everybody_else(serve: Serve, tmp_path: Path, threads: int) -> None:
    go, limit = tmp_path / "go", 6
    served, held = taken(serve, threads, go, "--limit-queue", str(limit))
    greedy = [of(served, "greedy", f"/a?{go}") for _ in range(limit)]
    waiting(served, limit)
    modest = [of(served, f"modest {number}", f"/a?{go}") for number in range(MODEST)]
    served.counts("requests_not_queued", MODEST)
    go.touch()
    answered = statuses(modest).count(200)
    assert answered >= MODEST - 2
    assert statuses(greedy).count(503) == answered
    go.with_suffix(".later").touch()
    assert statuses(held) == [200] * threads
