"""The first crowd of slow requests in a worker's life leaves a thread to quick ones, whoever came before it.

The views of taughtlanes.py, which wait for a file: nothing here depends on how fast a machine is.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from serving import Serving
from taughtlanes import (
    CROWD,
    FOR_EVER,
    SLOW_THREADS,
    THREADS,
    Serve,
    answer,
    ask,
    asked,
    inside,
    queued,
)

#: How often quick requests are asked for, before others and while they wait: one of them that has to wait for a
#: processor does not make their route a slow one.
ASKED = 20


def began(serve: Serve, workers: int = 1) -> Serving:
    """A server that nobody has asked anything."""
    served: Serving = serve("lanes:application", "--workers", str(workers), "--threads", str(THREADS), *FOR_EVER)
    return served


def ready(served: Serving) -> list[int]:
    """Workers that serve; none while others are still there."""
    workers = served.status()["workers"]
    return [worker["pid"] for worker in workers] if {worker["state"] for worker in workers} == {"ready"} else []


def is_quick(served: Serving) -> None:
    """Quick requests come one at a time: nothing is measured, and all is quick."""
    for _ in range(ASKED):
        ask(served, "/inside")


def goes_on(served: Serving) -> None:
    """Quick requests are answered, though all others wait."""
    for _ in range(ASKED):
        assert inside(served) <= SLOW_THREADS
    served.until(lambda: inside(served) == SLOW_THREADS)


@pytest.mark.parametrize("workers", [0, 1], ids=["without statistics", "with statistics"])
@pytest.mark.parametrize("before", ["quick requests", "nothing"])
def test_the_first_crowd_leaves_a_thread(serve: Serve, tmp_path: Path, before: str, workers: int) -> None:
    """It is there at once, and all of it waits for a file."""
    served, go = began(serve, workers), tmp_path / "go"
    if before == "quick requests":
        is_quick(served)
    crowd = [asked(served, f"/report?{go}") for _ in range(CROWD)]
    goes_on(served)
    go.touch()
    assert [answer(sock) for sock in crowd] == [(200, b"ok")] * CROWD


@pytest.mark.parametrize("since", ["before", "a reload", "a crash"])
def test_as_many_slow_requests_as_there_are_threads_leave_one_where_quick_ones_were_known(
    serve: Serve, tmp_path: Path, since: str
) -> None:
    """To the worker itself, or to those before it: it has not been asked for anything quick."""
    served, go = began(serve), tmp_path / "go"
    is_quick(served)
    (pid,) = ready(served)
    if since == "a reload":
        assert served.order("reload")[0] == 0
    elif since == "a crash":
        os.kill(pid, signal.SIGKILL)
    if since != "before":
        served.until(lambda: len(pids := ready(served)) == 1 and pids != [pid])
    crowd = [asked(served, f"/report?{go}") for _ in range(THREADS)]
    served.until(lambda: (queued(served), served.status()["workers"][0]["busy"]) == (1, SLOW_THREADS))
    goes_on(served)
    go.touch()
    assert [answer(sock) for sock in crowd] == [(200, b"ok")] * THREADS


def test_as_many_slow_requests_as_there_are_threads_have_all_of_them_where_nothing_else_came(
    serve: Serve, tmp_path: Path
) -> None:
    """Nobody else waits, and nobody who is quick was ever there."""
    served, go = began(serve), tmp_path / "go"
    crowd = [asked(served, f"/report?{go}") for _ in range(THREADS)]
    served.until(lambda: served.status()["workers"][0]["busy"] == THREADS)
    go.touch()
    assert [answer(sock) for sock in crowd] == [(200, b"ok")] * THREADS
