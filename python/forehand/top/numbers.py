"""Looks at a running server, and what has come between two of them.

Knows: the control socket's status, and the shared statistics. Does not know: how they are shown. No worker is asked: it
answers though all of them are stuck.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass, field
from typing import Any

from forehand.inside import asking
from forehand.supervisor import request_list

#: A supervisor answers at once, or on a machine that has much to do within some seconds.
PATIENCE, AGAIN = 10.0, 0.05
Row = dict[str, Any]


@dataclass(frozen=True)
class Look:
    """A server at one moment. `at`: seconds of a clock that never jumps."""

    at: float
    wall: float
    status: dict[str, Any]
    totals: dict[str, Any]
    #: Requests that are inside, the oldest first, and those that have ended and were kept, the newest first.
    running: list[Row]
    ended: list[Row]


@dataclass(frozen=True)
class Route:
    """What a route has had between two looks. `share`: of all thread time; seconds are those of a mean request."""

    name: str
    requests: int
    per_second: float
    share: float
    mean: float
    #: Of that, the share on a processor; None: it is not known.
    cpu: float | None
    failed: int


@dataclass(frozen=True)
class Between:
    """What has come between two looks, in seconds and a second."""

    seconds: float
    per_second: float
    failed_per_second: float
    #: Half, 95 and 99 of a hundred requests took at most so long; None: there were none.
    quantiles: tuple[float | None, float | None, float | None]
    #: The one with most thread time first.
    routes: list[Route] = field(default_factory=list)
    #: Counters of limits and of all else that has grown.
    counted: dict[str, int] = field(default_factory=dict)


def look(path: str) -> Look:
    """The server at a control socket, now. Raises Problem where none answers."""
    status = _status(path)
    statistics, workers = request_list.opened(path)
    inside = request_list.running(statistics, workers)
    return Look(
        at=time.monotonic(),
        wall=time.time(),
        status=status,
        totals=statistics.totals(),
        running=sorted(inside, key=lambda one: -one["seconds"]),
        ended=request_list.kept(statistics, workers)[::-1],
    )


def _status(path: str) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(PATIENCE)
        try:
            _connect(sock, path)
            sock.sendall(b"status\n")
            with sock.makefile("r", encoding="utf-8") as lines:
                line = lines.readline()
            if not line:
                raise ConnectionResetError("it ended meanwhile")
        except (OSError, ValueError) as error:
            raise asking.unanswered(path, error) from None
    return asking.answer(path, line)


def _connect(sock: socket.socket, path: str) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return sock.connect(path)
        except BlockingIOError:
            # As many as may wait for its supervisor do.
            if time.monotonic() > end:
                raise
            time.sleep(AGAIN)


def between(now: Look, then: Look) -> Between:
    """What has come since an earlier look at the same server."""
    took = max(now.at - then.at, 1e-3)
    new, old = now.totals, then.totals
    before = dict(old["buckets"])
    buckets = [(end, count - before.get(end, 0)) for end, count in new["buckets"]]
    counted = {name: count - old["counters"].get(name, 0) for name, count in new["counters"].items()}
    return Between(
        seconds=took,
        per_second=(new["requests"] - old["requests"]) / took,
        failed_per_second=(new["failed"] - old["failed"]) / took,
        quantiles=(quantile(buckets, 0.5), quantile(buckets, 0.95), quantile(buckets, 0.99)),
        routes=routes(new["routes"], old["routes"], took),
        counted={name: count for name, count in counted.items() if count > 0},
    )


def quantile(buckets: list[tuple[float, int]], share: float) -> float | None:
    """The time that this share took at most, of buckets by their longest times. They are sixteenths of doublings: their
    middle is 0.98 of their end."""
    left = share * sum(count for _, count in buckets)
    for end, count in buckets:
        left -= count
        if count > 0 and left <= 0:
            return end * 0.98
    return None


Counted = dict[str, tuple[int, int, float, float | None]]


def routes(new: Counted, old: Counted, took: float) -> list[Route]:
    """By their share of thread time, of (requests, errors, seconds, seconds on a processor) by name."""
    grown = []
    for name, (requests, failed, seconds, cpu) in new.items():
        was = old.get(name, (0, 0, 0.0, None))
        if requests > was[0]:
            used = None if cpu is None else max(0.0, cpu - (was[3] or 0.0))
            grown.append((name, requests - was[0], failed - was[1], max(0.0, seconds - was[2]), used))
    whole = sum(one[3] for one in grown)
    found = [
        Route(
            name=name,
            requests=requests,
            per_second=requests / took,
            share=seconds / whole if whole else 0.0,
            mean=seconds / requests,
            cpu=None if used is None or not seconds else min(1.0, used / seconds),
            failed=failed,
        )
        for name, requests, failed, seconds, used in grown
    ]
    return sorted(found, key=lambda one: (-one.share, -one.requests, one.name))
