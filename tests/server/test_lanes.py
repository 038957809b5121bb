"""Lanes: quick routes find a thread, however many slow requests wait, without anything being configured."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
from pathlib import Path

import pytest
from h2client import Client
from serving import HERE, PATIENCE, PYTHON, read_reply
from taughtlanes import (
    CROWD,
    FOR_EVER,
    LESSONS,
    SLOW,
    SLOW_THREADS,
    THREADS,
    Serve,
    answer,
    ask,
    asked,
    comes_to,
    crowd_of,
    inside,
    queued,
    taught,
)

#: So many names below a folder are told apart (`A_SHAPE` of crates/server/src/lanes/routes.rs).
NAMES = 128


@pytest.mark.parametrize("path", ["/report", "/never-seen-before"])
def test_quick_requests_are_answered_beside_more_slow_ones_than_there_are_threads(serve: Serve, path: str) -> None:
    """All threads but one are taken by the slow ones, known or not; the last plays what is quick."""
    served = taught(serve)
    crowd = crowd_of(served, path)
    for _ in range(100):
        assert inside(served) == SLOW_THREADS
    served.until(lambda: queued(served) == CROWD - SLOW_THREADS)
    served.until(lambda: f"slow: GET {path} (" in served.order("status")[1])
    assert f"1 of {THREADS} threads is kept for quick ones" in served.order("status")[1]
    # How many waited when that was logged is not known: it is said once for the same routes.
    served.says(f" for a thread; slow: GET {path} (")
    ask(served, "/gate?open")
    assert [answer(sock) for sock in crowd] == [(200, b"ok")] * CROWD
    served.until(lambda: queued(served) == 0)


def test_pages_find_a_thread_beside_more_reports_than_there_are_threads(serve: Serve) -> None:
    """Both are slow, and one takes many times as long as the other."""
    served = taught(serve)
    page = "/page?0.02"
    for _ in range(LESSONS):
        ask(served, "/year?1")
        for _ in range(LESSONS):
            ask(served, page)
    crowd = [asked(served, "/year") for _ in range(CROWD)]
    served.until(lambda: queued(served) > 0)
    for _ in range(20):
        ask(served, page)
        # One thread is kept for what is quick, and another one for pages.
        assert 0 < inside(served) < SLOW_THREADS
    served.until(lambda: " for those that take less than " in served.order("status")[1])
    ask(served, "/gate?open")
    assert [answer(sock) for sock in crowd] == [(200, b"ok")] * CROWD


def test_what_the_application_refuses_at_once_finds_a_thread_as_other_quick_requests_do(serve: Serve) -> None:
    """As a browser asks for `/favicon.ico`, and who looks something up that is not there."""
    served = taught(serve)
    crowd = [asked(served, "/report")]
    served.until(lambda: inside(served) == 1)
    for _ in range(LESSONS):
        assert answer(asked(served, "/nothing/here"))[0] == 404
    crowd += crowd_of(served, "/report")
    for _ in range(100):
        assert answer(asked(served, "/nothing/here"))[0] == 404
        assert inside(served) == SLOW_THREADS
    ask(served, "/gate?open")
    assert [answer(sock) for sock in crowd] == [(200, b"ok")] * len(crowd)


def test_slow_pages_of_many_people_leave_a_thread_to_their_quick_ones(serve: Serve) -> None:
    """More names than are told apart: what is behind them still is."""
    served = taught(serve)
    crowd = [asked(served, "/report")]
    served.until(lambda: inside(served) == 1)
    names = ["".join(letters) for letters in itertools.islice(itertools.product("abcdef", repeat=4), NAMES + 2)]
    for name in names:
        ask(served, f"/u/{name}/export?{SLOW / 4}")
    for _ in range(LESSONS):
        ask(served, f"/u/{names[-1]}/profile")
    crowd += crowd_of(served, "/u/somebody/export")
    for _ in range(100):
        ask(served, "/u/somebody/profile")
        assert inside(served) == SLOW_THREADS
    ask(served, "/gate?open")
    assert [answer(sock) for sock in crowd] == [(200, b"ok")] * len(crowd)


def test_a_slow_lane_that_is_full_refuses_slow_requests_and_no_others(serve: Serve) -> None:
    """The limit is a lane's: who is quick does not hear of it."""
    for limit in (1, 5):
        served = taught(serve, "--limit-queue", str(limit))
        crowd = crowd_of(served, "/report")
        comes_to(served, "requests_not_queued", CROWD - SLOW_THREADS - limit)
        assert inside(served) == SLOW_THREADS
        ask(served, "/gate?open")
        assert sorted(answer(sock)[0] for sock in crowd) == [200] * (SLOW_THREADS + limit) + [503] * (
            CROWD - SLOW_THREADS - limit
        )
        served.stop()


def test_who_has_waited_too_long_in_the_slow_lane_is_told_so(serve: Serve) -> None:
    """Nobody need come or go for it."""
    served = taught(serve, "--queue-timeout", "4s")
    (worker,) = served.workers
    crowd = [served.connect() for _ in range(CROWD)]
    # All at once: where some come much later it is clear by then that they would wait for too long.
    os.kill(worker, signal.SIGSTOP)
    for sock in crowd:
        sock.sendall(b"GET /report HTTP/1.1\r\nHost: a\r\n\r\n")
    os.kill(worker, signal.SIGCONT)
    comes_to(served, "requests_waited_too_long", CROWD - SLOW_THREADS)
    assert inside(served) == SLOW_THREADS
    ask(served, "/gate?open")
    assert sorted(answer(sock)[0] for sock in crowd) == [200] * SLOW_THREADS + [503] * (CROWD - SLOW_THREADS)


def test_a_quick_reply_does_not_wait_for_a_slow_request_of_its_connection(serve: Serve) -> None:
    """What is pipelined behind it waits in the slow lane, and it has gone out."""
    served = taught(serve)
    crowd = crowd_of(served, "/report")
    with asked(served, "/inside", "/report") as sock:
        buffer = bytearray()
        assert read_reply(sock, buffer)[2] == str(SLOW_THREADS).encode()
        ask(served, "/gate?open")
        assert read_reply(sock, buffer)[0] == 200
    assert {answer(other)[0] for other in crowd} == {200}


@pytest.mark.parametrize("trusted", ["127.0.0.1", "192.0.2.1"])
def test_streams_of_one_connection_wait_in_lanes_as_others_do(serve: Serve, trusted: str) -> None:
    """A quick one is answered beside them where their client speaks for others, and others' in any case."""
    binds = ("--bind", "127.0.0.1:0", "--bind", "h2c://127.0.0.1:0")
    served = taught(serve, *binds, "--forwarded-allow-ips", trusted)
    with Client(int(served.urls[1].rpartition(":")[2])) as client:
        streams = [client.ask("/report") for _ in range(CROWD)]
        client.flush()
        served.until(lambda: inside(served) >= SLOW_THREADS)
        other = asked(served, "/report")
        for _ in range(20):
            assert inside(served) == SLOW_THREADS
        if trusted == "127.0.0.1":
            assert client.get("/inside") == str(SLOW_THREADS).encode()
        ask(served, "/gate?open")
        assert list(client.replies(streams).values()) == [b"ok"] * CROWD
        assert answer(other) == (200, b"ok")
        assert client.get("/inside") == b"0"
    served.until(lambda: queued(served) == 0)


def test_whoever_waits_in_a_lane_is_answered_before_a_graceful_end(serve: Serve, tmp_path: Path) -> None:
    """A request that was read is worked on, whichever lane it is in."""
    served = taught(serve)
    go = tmp_path / "go"
    crowd = crowd_of(served, f"/report?{go}")
    served.until(lambda: queued(served) == CROWD - SLOW_THREADS)
    served.process.send_signal(signal.SIGTERM)
    served.until(lambda: served.status()["phase"] == "stopping")
    go.touch()
    assert {answer(sock)[0] for sock in crowd} == {200}
    assert served.process.wait(PATIENCE) == 0


def test_with_three_threads_nothing_is_kept(serve: Serve, tmp_path: Path) -> None:
    """All three are taken by what came first."""
    served = serve("lanes:application", "--workers", "1", "--threads", "3", *FOR_EVER)
    for _ in range(LESSONS):
        ask(served, f"/report?{SLOW}")
        ask(served, "/inside")
    go = tmp_path / "go"
    crowd = [asked(served, f"/report?{go}") for _ in range(4)]
    served.until(lambda: served.status()["workers"][0]["busy"] == 3)
    go.touch()
    assert {answer(sock)[0] for sock in crowd} == {200}


def test_a_route_that_is_said_to_be_slow_leaves_a_thread_from_the_first_request_on(serve: Serve) -> None:
    """Two threads are enough for that, and nothing has to be learnt."""
    served = serve("lanes:application", "--workers", "1", "--threads", "2", "--lanes", "/report=slow", *FOR_EVER)
    crowd = [asked(served, "/report/yearly") for _ in range(4)]
    served.until(lambda: inside(served) == 1)
    served.until(lambda: queued(served) == 3)
    assert inside(served) == 1
    ask(served, "/gate?open")
    assert {answer(sock)[0] for sock in crowd} == {200}


@pytest.mark.parametrize("threads", [2, 3, THREADS])
def test_a_route_that_is_said_to_be_quick_keeps_a_thread_from_the_first_request_on(serve: Serve, threads: int) -> None:
    """Of as few threads as there are, and though nobody knows yet that the others are slow."""
    said = ("--threads", str(threads), "--lanes", "/gate=quick,/inside=quick")
    served = serve("lanes:application", "--workers", "1", *said, *FOR_EVER)
    crowd = [asked(served, "/report/yearly") for _ in range(threads + 2)]
    served.until(lambda: inside(served) == threads - 1)
    served.until(lambda: queued(served) == 3)
    assert inside(served) == threads - 1
    served.until(lambda: f"1 of {threads} threads is kept for quick ones" in served.order("status")[1])
    words = (
        f"{threads - 1} of {threads} threads of every worker are taken, 1 is kept for quicker requests, and 3 requests "
    )
    served.until(lambda: words in served.order("status")[1])
    ask(served, "/gate?open")
    assert {answer(sock)[0] for sock in crowd} == {200}


def test_a_route_has_no_more_requests_inside_than_its_limit_says(serve: Serve, tmp_path: Path) -> None:
    """Others of its kind wait, and nobody else."""
    (tmp_path / "forehand.toml").write_text('[route_limits]\n"/report" = 2\n"/report/tiny" = 1\n')
    config = ("--config", str(tmp_path / "forehand.toml"))
    served = serve("lanes:application", *config, "--workers", "1", "--threads", str(THREADS), *FOR_EVER)
    ask(served, "/gate?shut")
    crowd = [asked(served, path) for path in (*["/report"] * 5, *["/report/tiny"] * 3, *["/other"] * 3)]
    served.until(lambda: inside(served) == 2 + 1 + 3)
    served.until(lambda: queued(served) == 3 + 2)
    assert inside(served) == 6
    ask(served, "/gate?open")
    assert {answer(sock)[0] for sock in crowd} == {200}


def test_requests_above_the_limit_of_their_route_are_not_said_to_wait_for_a_thread(serve: Serve) -> None:
    """More threads would not help them, and who is called at night is not told to try that."""
    served = serve("lanes:application", "--threads", str(THREADS), "--route-limits", "/report=2", *FOR_EVER)
    crowd = [asked(served, "/report") for _ in range(6)]
    words = "4 requests wait for others below the same path to end (--route-limits): /report=2 (4)"
    served.until(lambda: words in served.order("status")[1])
    worker = served.status()["workers"][0]
    assert (worker["queued"], worker["limited"], worker["busy"]) == (4, 4, 2)
    served.says(" for others below the same path to end (--route-limits): /report=2 (")
    assert "for a thread" not in served.log() + served.order("status")[1]
    ask(served, "/gate?open")
    assert [answer(sock) for sock in crowd] == [(200, b"ok")] * 6
    served.until(lambda: queued(served) == 0)


def test_nobody_gets_around_a_limit_or_a_deadline_by_writing_the_path_in_another_way(serve: Serve) -> None:
    """The application is asked for the same."""
    said = (
        "--route-limits",
        "/rep%6Frt=1",
        "--request-timeout",
        "0",
        "--request-timeouts",
        "/r%65port/late=0.2s",
        *FOR_EVER,
    )
    served = serve("lanes:application", "--workers", "1", "--threads", str(THREADS), *said)
    first = asked(served, "/report")
    served.until(lambda: served.status()["workers"][0]["busy"] == 1)
    crowd = [asked(served, path) for path in ("/%72eport", "/report%2F1", "//report")]
    served.until(lambda: served.status()["workers"][0]["limited"] == 2)
    served.until(lambda: served.status()["workers"][0]["busy"] == 2)
    assert answer(asked(served, "/repor%74/late"))[0] == 504
    ask(served, "/gate?open")
    assert [answer(sock) for sock in (first, *crowd)] == [(200, b"ok")] * 4


def test_a_connection_that_asks_for_more_waits_behind_others_of_a_limited_route(serve: Serve, tmp_path: Path) -> None:
    """Its next request comes when the limit is not reached, and others have come before it."""
    go = tmp_path / "go"
    said = ("--route-limits", "/report=1", "--newest-first-after", "0s", *FOR_EVER)
    served = serve("lanes:application", "--workers", "1", "--threads", str(THREADS), *said)
    crowd = [asked(served, *[f"/report/{number}?{go}" for number in (0, 4, 5)])]
    served.until(lambda: served.status()["workers"][0]["busy"] == 1)
    for number in (1, 2, 3):
        crowd.append(asked(served, f"/report/{number}?{go}"))
        served.until(lambda number=number: queued(served) == number)
    go.touch()
    buffer = bytearray()
    assert [read_reply(crowd[0], buffer)[0] for _ in range(3)] == [200] * 3
    assert {answer(sock)[0] for sock in crowd[1:]} == {200}
    assert ask(served, "/begun").decode() == "0 1 2 3 4 5"


def test_a_quick_route_with_a_limit_goes_on_beside_any_number_of_slow_requests(serve: Serve, tmp_path: Path) -> None:
    """One that has waited for another of its route has the thread that is kept, as it would have had at once."""
    go = tmp_path / "go"
    served = taught(serve, "--route-limits", "/quick=1", "--lanes", "/quick=quick,/gate=quick,/inside=quick")
    crowd = crowd_of(served, "/report")
    first, second = asked(served, f"/quick?{go}"), asked(served, f"/quick?{go}")
    served.until(lambda: served.status()["workers"][0]["busy"] == THREADS)
    served.until(lambda: queued(served) == CROWD - SLOW_THREADS + 1)
    go.touch()
    assert [answer(sock) for sock in (first, second)] == [(200, b"ok")] * 2
    ask(served, "/gate?open")
    assert {answer(sock)[0] for sock in crowd} == {200}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--threads", "some"), "--threads: 'some' is not a whole number or 'auto'"),
        (("--threads-max", "40"), "threads_max is about --threads auto"),
        (("--lanes", "/a=fast"), "--lanes: '/a=fast' is not /PREFIX=slow or /PREFIX=quick"),
        (("--lanes", "a=slow"), "--lanes: 'a=slow' is not /PREFIX=slow or /PREFIX=quick"),
        (("--lanes", "/a=slow,/a=quick"), "--lanes: '/a' is there twice"),
        (("--lanes", "/a?x=1=slow"), "--lanes: '/a?x=1=slow' fits no path because of '?': name the beginning of paths"),
        (("--route-limits", "/a/*=4"), "--route-limits: '/a/*=4' fits no path because of '*'"),
        (("--priorities", "/caf\u00e9=low"), "because of '\u00e9': name the beginning of paths, percent-encoded"),
        (("--priorities", "/a=urgent"), "--priorities: '/a=urgent' is not /PREFIX=high"),
        (("--fair-by", "cookie"), "--fair-by: 'cookie' is neither client nor header:NAME"),
        (("--fair-by", "header:"), "--fair-by: 'header:' is neither client nor header:NAME"),
        (("--fair-by", "header:\u00e9"), "--fair-by: 'header:\u00e9' is neither client nor header:NAME"),
        (("--fair-by", "header:X Key"), "--fair-by: 'header:X Key' is neither client nor header:NAME"),
        (("--fair-by", "header:X_Key"), "would share one turn: write header:X-Key"),
        (("--route-limits", "/a=\u0663"), "--route-limits: '/a=\u0663' is not /PREFIX=N"),
        (("--route-limits", "/a=2,/%61=3"), "--route-limits: '/%61' is the same path as '/a', encoded in another way"),
        (("--lanes", "/a%2f=slow,/a%2F=quick"), "'/a%2F' is the same path as '/a%2f'"),
        (("--route-limits", "/a=0"), "--route-limits: '/a=0' is not /PREFIX=N"),
        (("--route-limits", "/a=1025"), "--route-limits: '/a=1025' is not /PREFIX=N"),
        (("--lanes", "/a=slow", "--worker-class", "gevent"), "lanes is about threads"),
        (("--route-limits", "/a=4", "--interface", "asgi"), "route_limits is about threads"),
    ],
)
def test_what_cannot_be_meant_of_routes_is_told(options: tuple[str, ...], words: str) -> None:
    """With the option's name and what is allowed."""
    command = [PYTHON, "-m", "forehand", "lanes:application", "--check", *options]
    done = subprocess.run(command, cwd=HERE / "apps", capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2 and words in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--threads", "1", "--lanes", "/a=slow"), "lanes: without effect with one thread"),
        (("--threads", "8", "--route-limits", "/a=7,/b=8"), "route_limits: /b=8 is without effect, as a worker has 8"),
        (("--threads", "3", "--fair-by", "client"), ""),
        (("--fair-by", "header:X_Key", "--http-relax", "underscore-names"), ""),
        (("--threads", "4", "--fair-by", "client", "--route-limits", "/a=3", "--lanes", "/a=slow"), ""),
    ],
)
def test_what_has_no_effect_with_so_many_threads_is_told_and_is_no_mistake(
    options: tuple[str, ...], words: str
) -> None:
    """A file may be for several servers, some of which have fewer threads."""
    command = [PYTHON, "-m", "forehand", "lanes:application", "--check", *options]
    done = subprocess.run(command, cwd=HERE / "apps", capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert [line for line in lines if "warning" in line] == lines and len(lines) == (1 if words else 0), done.stderr
    assert words in done.stderr


def test_an_asgi_application_has_all_named_that_is_about_threads(serve: Serve) -> None:
    """Only the application tells that it is one: it is no mistake of the command line."""
    served = serve("moved:asgi", "--workers", "1", "--priorities", "/a=low", "--fair-by", "client")
    served.says("its requests run in an event loop: priorities, fair_by. ")
    command = [PYTHON, "-m", "forehand", "moved:asgi", "--check", "--priorities", "/a=low", "--fair-by", "client"]
    done = subprocess.run(command, cwd=HERE / "apps", capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0 and "its requests run in an event loop: priorities, fair_by. " in done.stderr, (
        done.stderr
    )
