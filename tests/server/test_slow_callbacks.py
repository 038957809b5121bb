"""Who holds up an event loop is named in the log: which request, where in the code, how long."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import PATIENCE, Serving, read_reply
from test_order_of_replies import DRIVERS, get  # type: ignore[import-not-found]

LOOPS = [name for name in ("asyncio", "uvloop", "gevent") if name in DRIVERS]
LINE = re.compile(r"warning: (.+) held the event loop for ([\d.]+) s( so far)? at (\S+):(\d+) in (\S+?)[:,]")


@pytest.fixture(params=LOOPS)
def start(request: pytest.FixtureRequest, serve: Callable[..., Serving]) -> Callable[..., Serving]:
    return lambda *options: serve(*DRIVERS[request.param], *options)


def ask(server: Serving, *paths: str) -> None:
    with server.connect() as sock:
        buffer = bytearray()
        for path in paths:
            sock.sendall(get(path))
            assert read_reply(sock, buffer)[0] == 200


def named(server: Serving, count: int, *paths: str) -> list[tuple[str, ...]]:
    """What is named, once it is so many: asked for again where a busy machine has let the watchdog look too late."""

    def asked() -> bool:
        ask(server, *paths, "/quick")
        return len(LINE.findall(server.log())) >= count

    server.until(asked)
    ask(server, "/quick")
    return LINE.findall(server.log())


@pytest.mark.parametrize("kind", ["block", "burn", "compute"])
def test_a_view_is_named_with_its_place_and_time(start: Callable[..., Serving], kind: str) -> None:
    """At its end; before it only where a busy machine makes it last for ten times the bound, which is 0.1 s."""
    server = start()

    def for_as_long() -> bool:
        """The time in which the watchdog itself had no processor does not count: then it is asked for once more."""
        lines = named(server, 1, f"/{kind}/0.4")
        for what, seconds, so_far, file, _, function in lines:
            assert what == f"GET /{kind}/0.4"
            assert not so_far or float(seconds) >= 1
            assert file.endswith("pipelines.py") and function == kind
            assert float(seconds) < PATIENCE
        return any(float(line[1]) > 0.25 for line in lines)

    server.until(for_as_long)
    # Also where it was named before its end.
    server.until(lambda: server.counters()["loop_blocked_ms"] >= 250)


def test_status_tells_for_how_long_a_loop_was_held_up(start: Callable[..., Serving]) -> None:
    server = start()
    words = re.compile(r"worker 1, \d+ s ago: its event loop was held up for (\S+) s \(the log says by what\)")

    def for_as_long() -> bool:
        named(server, 1, "/block/0.4")
        # The worker tells of it when the loop goes on, which the client may hear of first.
        found = server.until(lambda: words.search(server.order("status")[1]))
        assert float(found[1]) < PATIENCE
        return float(found[1]) > 0.25

    server.until(for_as_long)


def test_a_loop_that_is_held_up_most_of_the_time_is_what_status_says_first(start: Callable[..., Serving]) -> None:
    """With the line that does it, for whoever is called at night."""
    server = start()
    assert json.loads(server.order("status", "--json")[1])["situation"] == []
    words = re.compile(
        r"(the event loop|gevent's hub) of worker 1 was held up for (\d+\.\d) of the last 10 s, most recently by GET "
        r"/block/0\.5 at \S+pipelines\.py:\d+ in block: nothing else of that worker runs meanwhile"
    )
    told: list[re.Match[str]] = []

    def is_told() -> bool:
        told[:] = [
            found
            for line in json.loads(server.order("status", "--json")[1])["situation"]
            for found in words.finditer(line)
        ]
        return bool(told)

    with server.connect() as sock:
        # One after the other for as long as that is looked at, however busy the machine is elsewhere.
        sock.sendall(get("/block/0.5") * 100)
        server.until(is_told)
        assert 3 <= float(told[0][2]) <= 10
        server.until(lambda: words.search(server.order("status")[1].partition("look at this:")[2]))
        [worker] = server.status()["workers"]
        assert worker["loop_blocked"]["by"].startswith("GET /block/0.5 at ")


def test_status_counts_the_tasks_of_a_loop_and_says_of_none_how_many_there_may_be(
    serve: Callable[..., Serving],
) -> None:
    server = serve(*DRIVERS["asyncio"])
    row = re.compile(r"^ +1 +\d+ +1 ready .* (\d+/\d+|\d+ tasks?) +0 ", re.MULTILINE)
    found = row.search(server.order("status")[1])
    assert found and found[1] == "0 tasks", server.order("status")[1]


def test_a_place_is_named_once_and_others_besides(start: Callable[..., Serving]) -> None:
    server = start()
    assert {line[5] for line in named(server, 2, "/block/0.2", "/burn/0.2", "/block/0.2")} == {"block", "burn"}
    assert len(LINE.findall(server.log())) == 2


def test_what_is_below_the_bound_is_not_named(start: Callable[..., Serving]) -> None:
    """A tenth below it, far above it: looks are 10 ms apart. What a busy machine makes last longer than the bound is
    rightly named: then it is tried again, by a server that has named nothing."""

    def asked() -> tuple[Serving, float]:
        server = start("--slow-callback-duration", "400ms")
        began = time.monotonic()
        ask(server, "/block/0.36")
        return server, time.monotonic() - began

    server = next(server for server, took in (asked() for _ in range(20)) if took < 0.4)
    assert [line[5] for line in named(server, 1, "/burn/0.8")] == ["burn"]


def test_zero_names_nothing(start: Callable[..., Serving]) -> None:
    server = start("--slow-callback-duration", "0")
    ask(server, "/block/0.5")
    assert server.stop() == 0
    assert "held the event loop" not in server.log()


@pytest.mark.parametrize(("limit", "wanted"), [(2, 2), (3, 3), (4, 3)])
def test_so_many_places_are_named_and_no_more(serve: Callable[..., Serving], limit: int, wanted: int) -> None:
    """Of three."""
    server = serve(*DRIVERS["asyncio"], "--limit-slow-callback-places", str(limit))
    lines = named(server, wanted, "/block/0.2", "/burn/0.2", "/compute/0.2")
    assert len(lines) == len({line[3:5] for line in lines}) == wanted

    def all_are_counted() -> bool:
        # A place is counted each time, and asked for again on a busy machine; one that is not named, behind its reply.
        counted = server.counters()
        return counted["slow_callbacks"] >= 3 and (counted["slow_callbacks_unnamed"] > 0) == (wanted < 3)

    server.until(all_are_counted)


def test_what_runs_beside_requests_is_named_too(start: Callable[..., Serving]) -> None:
    server = start()
    [(what, _, _, file, _, function)] = named(server, 1, "/spawned/block/0.5")
    assert what in ("the task night shift (aside)", "a greenlet of the application's")
    assert file.endswith("pipelines.py") and function == "block"


@pytest.mark.parametrize("loop", [name for name in LOOPS if name != "gevent"])
def test_a_request_s_own_task_is_named_by_its_request(serve: Callable[..., Serving], loop: str) -> None:
    server = serve(*DRIVERS[loop])
    assert [line[0] for line in named(server, 1, "/child/block/0.4")] == ["GET /child/block/0.4"]


def test_what_does_not_end_is_named_before_its_end(start: Callable[..., Serving]) -> None:
    server = start("--slow-callback-duration", "50ms")
    with server.connect() as sock:
        sock.sendall(get("/block/2"))
        server.until(lambda: LINE.findall(server.log()))
        [(what, seconds, so_far, *_)] = LINE.findall(server.log())
        assert what == "GET /block/2" and so_far and float(seconds) < 2
        assert read_reply(sock, bytearray())[0] == 200
    assert len(named(server, 1)) == 1


def test_a_loop_that_waits_is_not_blocked(start: Callable[..., Serving]) -> None:
    """An idle worker, one with requests that wait, one that is stopped as a whole: none of them is. On a busy machine a
    loop that wants to run and gets no processor for half of the bound may be named, and is tried again."""

    def named() -> tuple[bool, float]:
        server = start("--slow-callback-duration", "50ms")
        before = kept_waiting(server)
        ask(server, "/quick")
        with server.connect() as sock:
            sock.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12")
            ask(server, *["/quick"] * 3)
            stop_and_go(server)
            sock.sendall(b"345")
            assert read_reply(sock, bytearray())[::2] == (200, b"/ 12345")
        waited = kept_waiting(server) - before
        assert server.stop() == 0
        return "held the event loop" in server.log(), waited

    for _ in range(20):
        was_named, waited = named()
        if not was_named:
            return
        assert waited > 0.025, f"it is named, and the machine has kept it waiting for {waited:.3f} s in all"
    pytest.fail("this machine lets no loop run for long enough to tell")


def kept_waiting(server: Serving) -> float:
    """For how many seconds the loop's thread has wanted to run, and had no processor. A thread that is stopped wants
    nothing."""
    pid = (server.workers or [server.pid])[0]
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


def stop_and_go(server: Serving) -> None:
    for pid in server.workers or [server.pid]:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.4)
        os.kill(pid, signal.SIGCONT)


def test_nobody_looks_at_a_worker_that_does_nothing(start: Callable[..., Serving]) -> None:
    """None of its threads is woken, though fifty connections are open."""
    server = start()
    socks = [server.connect() for _ in range(50)]
    for sock in socks:
        sock.sendall(get("/quick"))
        assert read_reply(sock, bytearray())[0] == 200
    last = [0]

    def rests() -> bool:
        threading.Event().wait(0.3)
        tasks = Path(f"/proc/{(server.workers or [server.pid])[0]}/task").iterdir()
        lines = [line for task in tasks for line in (task / "status").read_text().splitlines()]
        last.append(sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt")))
        return last[-1] - last[-2] <= 1

    server.until(rests)
    for sock in socks:
        sock.close()


def test_a_stop_in_the_middle_of_it_is_in_order(start: Callable[..., Serving]) -> None:
    server = start()
    with server.connect() as sock:
        sock.sendall(get("/compute/1"))
        server.until(lambda: "Ctrl-C" in server.log())
        server.process.terminate()
        assert read_reply(sock, bytearray())[0] == 200
    assert server.process.wait(PATIENCE) == 0, server.log()
