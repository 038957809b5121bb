"""The condition that workers are in, in metrics: what their interpreters collect, for how long their loops were held
up, who waits, and for how long."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from serving import PATIENCE, Serving, read_reply
from shared import GET, Watched, applications

Serve = Callable[..., Serving]
COLLECTING = applications("collecting")
LOOPS = {name: flags for name, flags in applications("pipelines").items() if name != "threads"}
STEP = "forehand_loop_longest_step_seconds"
#: Nobody is told that it has waited too long.
FOR_EVER = ("--queue-timeout", "0s")
#: How requests of `/work` wait, where one of them is inside.
LANES = {
    "quick": ("--threads", "1"),
    "slow": ("--threads", "2", "--lanes", "/work=slow"),
    "limited": ("--threads", "4", "--route-limits", "/work=1"),
}


def read(watched: Watched, name: str) -> dict[str, float]:
    """The samples of a name, by the values of their labels."""
    found = [(sorted(labels), number) for (known, labels), number in watched.samples().items() if known == name]
    return {" ".join(value for _, value in labels): number for labels, number in found}


def collections(watched: Watched) -> list[int]:
    found = read(watched, "cpython_gc_collections_total")
    assert list(found) == ["0", "1", "2"]
    pauses = read(watched, "forehand_gc_pause_seconds_count")[""]
    assert pauses == sum(found.values()), "there is a pause of each"
    return [int(count) for count in found.values()]


def heard(watched: Watched, path: str) -> list[int]:
    """What the application says to that."""
    with watched.server.connect() as sock:
        sock.sendall(GET.format(path, "a", "").encode())
        status, _, text = read_reply(sock, bytearray())
    assert status == 200
    return [int(count) for count in text.split()]


@pytest.mark.parametrize("driver", COLLECTING)
def test_collections_are_counted_with_their_pauses_also_when_their_worker_was_killed(
    serve: Serve, tmp_path: Path, driver: str
) -> None:
    target, *options = COLLECTING[driver]
    watched = Watched(serve, tmp_path, "--workers", "1", *options, target=target)
    heard(watched, "/quiet")
    before, paused = collections(watched), read(watched, "forehand_gc_pause_seconds_sum")[""]
    heard(watched, "/collect/7")
    counted = collections(watched)
    assert counted == [before[0], before[1], before[2] + 7]
    assert 0 < read(watched, "forehand_gc_pause_seconds_sum")[""] - paused < PATIENCE
    [pid] = watched.server.workers
    os.kill(pid, signal.SIGKILL)

    def is_another() -> bool:
        workers = watched.server.status()["workers"]
        return [one["state"] for one in workers if one["pid"] != pid] == ["ready"]

    watched.server.until(is_another)
    heard(watched, "/quiet")
    after = collections(watched)
    assert all(now >= was for now, was in zip(after, counted, strict=True)), (counted, after)
    heard(watched, "/collect/3")
    assert collections(watched)[2] == after[2] + 3


def test_what_many_threads_collect_is_what_the_application_has_heard_of(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", "--threads", "6", target="collecting:application")
    first = heard(watched, "/quiet")
    before = collections(watched)
    crowd = [threading.Thread(target=heard, args=(watched, path)) for path in ["/litter", "/collect/20"] * 3]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join(PATIENCE)
    last = heard(watched, "/quiet")
    counted = [now - was for now, was in zip(collections(watched), before, strict=True)]
    assert counted == [now - was for now, was in zip(last, first, strict=True)]
    # Who asks for one while another is under way gets none.
    assert sum(counted) > 0


def test_a_child_of_the_application_counts_nothing_and_nor_does_who_is_asked_for_no_more(
    serve: Serve, tmp_path: Path
) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", target="collecting:application")
    heard(watched, "/quiet")
    before = collections(watched)
    heard(watched, "/fork")
    assert collections(watched) == before
    heard(watched, "/clear/3")
    assert collections(watched) == before
    heard(watched, "/collect/3")
    assert collections(watched) == before


@contextmanager
def waiting(watched: Watched, gate: Path, count: int) -> Iterator[float]:
    """So many requests of which one is inside; when the first of the others was sent."""
    path = f"/work?{gate}"
    with watched.server.connect() as first:
        first.sendall(GET.format(path, "a", "").encode())
        watched.server.until(lambda: watched.server.status()["workers"][0]["busy"] == 1)
        others = [watched.server.connect() for _ in range(count - 1)]
        try:
            since = time.monotonic()
            for sock in others:
                sock.sendall(GET.format(path, "a", "").encode())
            yield since
            gate.touch()
            for sock in (first, *others):
                assert read_reply(sock, bytearray())[0] == 200
        finally:
            for sock in others:
                sock.close()


@pytest.mark.parametrize("lane", LANES)
def test_a_queue_that_is_stuck_shows_its_lane_and_for_how_long_its_oldest_waits(
    serve: Serve, tmp_path: Path, lane: str
) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", *FOR_EVER, *LANES[lane], target="lanes:application")
    nobody = dict.fromkeys(("quick", "unknown", "slow", "limited"), 0)

    def oldest() -> float:
        return read(watched, "forehand_queue_oldest_seconds")[""]

    def lanes() -> dict[str, float]:
        return read(watched, "forehand_lane_queue_length")

    assert (oldest(), lanes()) == (0, nobody)
    with waiting(watched, tmp_path / "gate", 4) as since:
        watched.server.until(lambda: lanes() == {**nobody, lane: 3})
        watched.server.until(lambda: oldest() > 0.4)
        # The clocks of both are coarse by some milliseconds.
        assert oldest() <= time.monotonic() - since + 0.02
        [worker] = json.loads(watched.ask("/status.json")[1])["workers"]
        assert worker["lanes"] == {**nobody, lane: 3} and worker["queue_oldest"] > 0.4
    watched.server.until(lambda: (oldest(), lanes()) == (0, nobody))


@pytest.mark.parametrize("driver", LOOPS)
def test_a_loop_that_was_held_up_shows_for_how_long(serve: Serve, tmp_path: Path, driver: str) -> None:
    target, *options = LOOPS[driver]
    watched = Watched(serve, tmp_path, "--workers", "1", *options, target=target)
    [pid] = watched.server.workers
    # Its watchdog begins beside it.
    watched.server.until(lambda: read(watched, STEP) == {f"{pid} 1": 0})

    def held(seconds: float) -> bool:
        """Whether it was told, after one more: a busy machine may have had the watchdog look too late."""
        watched.view(f"/block/{seconds}")
        return read(watched, STEP)[f"{pid} 1"] > seconds - 0.15

    watched.server.until(lambda: held(0.3))
    watched.server.until(lambda: held(0.6))
    longest = read(watched, STEP)[f"{pid} 1"]
    assert longest < PATIENCE
    watched.view("/block/0.2")
    assert read(watched, STEP)[f"{pid} 1"] >= longest, "it is the longest, and not the last"
    [worker] = json.loads(watched.ask("/status.json")[1])["workers"]
    assert worker["loop_longest_step"] >= longest


@pytest.mark.parametrize("options", [("pipelines:application",), ("pipelines:app", "--slow-callback-duration", "0")])
def test_where_nobody_watches_a_loop_nothing_is_said_of_it(
    serve: Serve, tmp_path: Path, options: tuple[str, ...]
) -> None:
    target, *more = options
    watched = Watched(serve, tmp_path, "--workers", "1", *more, target=target)
    watched.view("/block/0.2")
    assert read(watched, STEP) == {}
