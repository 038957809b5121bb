"""`forehand requests`: what is running, what was slow, what has failed; and the log's line of what was slow."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from forehand.supervisor.request_list import Shown
from serving import PYTHON, Serving, read_reply
from shared import settled, statistics, told

Serve = Callable[..., Serving]
APPS = Path(__file__).resolve().parent.parent / "apps"
GET = "GET {} HTTP/1.1\r\nHost: a\r\n\r\n"
DRIVERS = {"threads": ("phases:application",), "asyncio": ("phases:app", "--interface", "asgi")}
if importlib.util.find_spec("gevent"):
    DRIVERS["gevent"] = ("phases:application", "--worker-class", "gevent")


def view(server: Serving, path: str) -> int:
    with server.connect() as sock:
        sock.sendall(GET.format(path).encode())
        return read_reply(sock, bytearray())[0]


@pytest.mark.parametrize("driver", DRIVERS)
def test_what_is_inside_is_told_though_every_thread_is_stuck(serve: Serve, driver: str) -> None:
    threads = ("--threads", "2") if driver == "threads" else ()
    server = serve(*DRIVERS[driver], "--workers", "1", *threads)
    with server.connect() as one, server.connect() as other:
        for sock, path in ((one, "/sleep/60/one?token=secret"), (other, "/sleep/60/two")):
            sock.sendall(GET.format(path).encode())
        found = server.until(lambda: len(told(server, "--running")) == 2 and told(server, "--running"))
        assert [one["request"] for one in found] == ["GET /sleep/60/one", "GET /sleep/60/two"], (
            "without what may be secret"
        )
        assert all(one["state"] == "running" and 0 < one["seconds"] < 60 for one in found)
        shown = server.order("requests")[1]
        assert re.search(r"^worker 1 \(\d+\) +running +[\d.]+ s  GET /sleep/60/one$", shown, re.M), shown


def test_slow_ones_and_failures_are_told_apart_and_outlive_their_worker(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1", "--slow-request", "0.05")
    for path in ("/quick", "/sleep/0.1", "/fail", "/sleep/0.11"):
        view(server, path)
    settled(server, statistics(server), 4)
    slow = told(server, "--slow")
    assert [one["request"] for one in slow if "/sleep" in one["request"]] == ["GET /sleep/0.1", "GET /sleep/0.11"]
    assert all(one["phases"]["total"] >= 0.05 and one["status"] == 200 for one in slow), slow
    assert [(one["request"], one["status"]) for one in told(server, "--failed")] == [("GET /fail", 500)]
    assert [one["request"] for one in told(server, "--slow", "--last", "1")] == ["GET /sleep/0.11"]
    status, said = server.order("requests", "--last", "-3")
    assert status == 2 and "--last: '-3' is no number from 0 on" in said, said
    first = next(one for one in slow if one["request"] == "GET /sleep/0.1")
    assert first["phases"]["app"] >= 0.099 and first["phases"]["total"] < 5
    assert server.order("reload")[0] == 0
    server.until(lambda: len(server.status()["workers"]) == 1)
    assert {one["worker"] for one in told(server, "--slow")} == {0}
    assert "a former worker" in server.order("requests", "--slow")[1]


@pytest.mark.parametrize("driver", DRIVERS)
def test_where_little_goes_on_the_newest_are_shown_each_of_them(serve: Serve, driver: str) -> None:
    server = serve(*DRIVERS[driver], "--workers", "1")
    with server.connect() as sock:
        buffer = bytearray()
        for number in range(30):
            sock.sendall(GET.format(f"/quick/{number}").encode())
            assert read_reply(sock, buffer)[0] == 200
    settled(server, statistics(server), 30)
    assert [one["request"] for one in told(server, "--last", "30")] == [f"GET /quick/{number}" for number in range(30)]


def test_following_tells_each_once_and_ends_with_the_server(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1")
    view(server, "/fail")
    settled(server, statistics(server), 1)
    command = [PYTHON, "-m", "forehand", "requests", "--control", server.control, "--failed", "--follow", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        lines: Iterator[str] = iter(following.stdout)
        assert json.loads(next(lines))["number"] == 1
        view(server, "/quick")
        view(server, "/fail")
        assert json.loads(next(lines))["number"] == 3
        server.stop()
        assert list(lines) == []
        assert following.wait(20) == 0


def test_following_ends_with_its_reader_though_nothing_comes(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1")
    view(server, "/fail")
    settled(server, statistics(server), 1)
    command = [PYTHON, "-m", "forehand", "requests", "--control", server.control, "--failed", "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert "GET /fail" in following.stdout.readline()
        following.stdout.close()
        try:
            assert following.wait(20) == 0
        finally:
            following.kill()


def test_following_what_runs_tells_each_once(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1")
    command = [PYTHON, "-m", "forehand", "requests", "--control", server.control, "--running", "--follow", "--json"]
    with server.connect() as one, server.connect() as other:
        one.sendall(GET.format("/sleep/60/one").encode())
        server.until(lambda: told(server, "--running"))
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
            assert following.stdout is not None
            assert json.loads(following.stdout.readline())["request"] == "GET /sleep/60/one"
            other.sendall(GET.format("/sleep/60/two").encode())
            assert json.loads(following.stdout.readline())["request"] == "GET /sleep/60/two"
            server.order("stop", "--now")
            assert following.stdout.read() == ""
            assert following.wait(20) == 0


def test_a_slow_request_is_logged_with_where_its_time_went_and_where_its_thread_stood(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1", "--slow-request", "0.4")
    assert view(server, "/sleep/0.3") == 200
    assert view(server, "/sleep/1.3?token=secret") == 200
    server.says("slow request: GET /sleep/1.3")
    lines = re.findall(r"slow request: .*", server.log())
    slow = [one["request"] for one in told(server) if one["phases"]["total"] >= 0.4]
    assert [line.partition(",")[0] for line in lines] == [f"slow request: {request}" for request in slow]
    found = re.fullmatch(
        r"slow request: GET /sleep/1\.3, 200 after ([\d.]+) s \(.*application [\d.]+, "
        r"0\.\d\d of it on a processor[^)]*\): "
        r"(\d) of \2 looks found its thread at \S+/phases\.py:(\d+) in application",
        lines[-1],
    )
    assert found is not None and float(found[1]) >= 1.3, lines
    source = (APPS / "phases.py").read_text().splitlines()
    assert source[int(found[3]) - 1].strip() == "time.sleep(float(rest[0]))"
    assert 1 <= int(found[2]) <= 8


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_slow_request_is_listed_with_where_it_was_found_also_when_its_worker_is_gone(
    serve: Serve, driver: str
) -> None:
    server = serve(*DRIVERS[driver], "--workers", "1", "--slow-request", "0.2")
    assert view(server, "/quick") == view(server, "/sleep/1.3") == 200
    server.says("slow request: GET /sleep/1.3")
    logged = re.findall(r"slow request: GET /sleep/1\.3, .*\): (\d of .* looks found its .*)", server.log())
    found = {one["request"]: one["where"] for one in told(server)}
    assert [found["GET /sleep/1.3"]] == logged and found["GET /quick"] == ""
    line = re.search(r"phases\.py:(\d+) in app", logged[0])
    assert line is not None, logged
    assert "sleep(float(rest[0]))" in (APPS / "phases.py").read_text().splitlines()[int(line[1]) - 1]
    for _ in range(2):
        lines = server.order("requests", "--slow")[1].splitlines()
        first = next(number for number, line in enumerate(lines) if "GET /sleep/1.3" in line)
        assert lines[first + 1] == f"    {logged[0]}", lines
        assert server.order("reload")[0] == 0
        server.until(lambda: {one["worker"] for one in told(server, "--slow")} == {0})


def test_who_is_to_look_has_nothing_to_import_for_which_a_call_that_keeps_the_interpreter_would_end(
    serve: Serve,
) -> None:
    server = serve("phases:application", "--workers", "1")
    # Workers begin to serve a moment before they look.
    server.until(lambda: view(server, "/imported/forehand/slow") == 200)
    assert view(server, "/imported/forehand/no_such_module") == 404


def test_of_slow_requests_that_run_at_the_same_time_each_is_logged_with_its_line(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1", "--threads", "8", "--slow-request", "0.2")
    with ExitStack() as held:
        for number in range(5):
            sock = held.enter_context(server.connect())
            sock.sendall(GET.format(f"/sleep/0.{6 + number % 3}/{number}").encode())
        for number in range(5):
            server.says(f"slow request: GET /sleep/0.{6 + number % 3}/{number}, 200 after ")
    for line in re.findall(r"slow request: .*", server.log()):
        assert re.search(r": (\d) of \1 looks found its thread at \S+/phases\.py:\d+ in application$", line), line


@pytest.mark.parametrize("driver", [driver for driver in DRIVERS if driver != "threads"])
def test_under_an_event_loop_a_slow_request_is_logged_as_well(serve: Serve, driver: str) -> None:
    """With where its task or greenlet has waited."""
    server = serve(*DRIVERS[driver], "--workers", "1", "--slow-request", "0.2")
    assert view(server, "/sleep/1.3") == 200
    server.says("slow request: GET /sleep/1.3, 200 after ")
    line = next(line for line in server.log().splitlines() if "slow request: GET /sleep/1.3" in line)
    what = {"asyncio": "task", "gevent": "greenlet"}[driver]
    found = re.search(rf": (\d) of \1 looks found its {what} at \S+/phases\.py:(\d+) in (app|application)", line)
    assert found is not None and 1 <= int(found[1]) <= 8, line
    source = (APPS / "phases.py").read_text().splitlines()
    assert "sleep(float(rest[0]))" in source[int(found[2]) - 1], line


@pytest.mark.parametrize("driver", [driver for driver in DRIVERS if driver != "threads"])
def test_what_blocks_an_event_loop_for_long_is_in_the_line_of_its_request(serve: Serve, driver: str) -> None:
    server = serve(*DRIVERS[driver], "--workers", "1", "--slow-request", "0.4")
    what = {"asyncio": "task", "gevent": "greenlet"}[driver]
    told = rf"slow request: GET /burn/1, .*: (\d) of \1 looks found its {what} at \S+/phases\.py:\d+ in burn\n"

    def found() -> bool:
        # Where the machine has no processor for it, nobody is said to have blocked it.
        assert view(server, "/burn/1") == 200
        return re.search(told, server.log()) is not None

    server.until(found)


def test_a_stream_is_slow_until_its_first_part_and_no_longer(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1", "--slow-request", "1")
    assert view(server, "/stream/0.1/11") == 200
    assert view(server, "/stream/1.1/1") == 200
    server.says("slow request: GET /stream/1.1/1")
    assert "GET /stream/0.1/11" not in server.log()


def test_an_empty_list_says_what_it_is_of(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1")
    for words, said in (
        ((), "no request has come yet\n"),
        (("--running",), "no request is inside\n"),
        (("--slow",), "no request was slow: none that is kept took as long as the server's --slow-request\n"),
        (("--failed",), "no request that is kept has failed\n"),
        (("--json",), ""),
    ):
        assert server.order("requests", *words) == (0, said)


def test_more_than_can_be_named_are_told_by_their_number(serve: Serve) -> None:
    server = serve("phases:app", "--interface", "asgi", "--workers", "1")
    with ExitStack() as held:

        def begin(count: int) -> None:
            for _ in range(count):
                held.enter_context(server.connect()).sendall(GET.format("/sleep/600").encode())

        def inside() -> int:
            found: int = statistics(server).totals()["inside"]
            return found

        begin(256)
        server.until(lambda: inside() == 256)
        lines = server.order("requests", "--running")[1].splitlines()
        assert len(lines) == 256 and not [line for line in lines if "more" in line]
        begin(3)
        server.until(lambda: inside() == 259)
        lines = server.order("requests", "--running")[1].splitlines()
        said = "3 more are inside that cannot be named: of a worker no more than 256 are at a time"
        assert len(lines) == 257 and said in lines
        assert len(told(server, "--running")) == 256, "a program gets objects alone"


def test_zero_is_never_slow(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1", "--slow-request", "0")
    assert view(server, "/sleep/0.2") == 200
    settled(server, statistics(server), 1)
    assert told(server, "--slow") == []
    assert server.stop() == 0
    assert "slow request" not in server.log()


@pytest.mark.parametrize("driver", DRIVERS)
def test_how_long_is_slow_depends_on_the_path(serve: Serve, driver: str) -> None:
    """The longest prefix decides, as the application sees the path; of what is never slow nothing is told."""
    pairs = "/sleep/=0,/sleep/0.2=100ms,/sleep/0.25=30s"
    server = serve(*DRIVERS[driver], "--workers", "1", "--slow-request", "50ms", "--slow-requests", pairs)
    for path in ("/sleep/0.2", "/%73leep/0.20", "/sleep/0.25", "/sleep/0.3", "/sleep/0.12"):
        assert view(server, path) == 200
    settled(server, statistics(server), 5)
    slow = [one["request"] for one in told(server, "--slow")]
    assert slow == ["GET /sleep/0.2", "GET /%73leep/0.20"], "the recorder"
    assert [one["phases"]["total"] >= 0.1 for one in told(server, "--slow")] == [True, True]
    assert server.stop() == 0
    lines = re.findall(r"slow request: (.*?),.*", server.log())
    assert lines == slow, "the log"


def test_where_nothing_else_is_slow_what_is_said_of_a_path_is_looked_at_all_the_same(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1", "--slow-request", "0", "--slow-requests", "/sleep=0.2")
    assert view(server, "/sleep/1.3") == 200
    assert view(server, "/stream/0.3/1") == 200
    server.says("slow request: GET /sleep/1.3")
    assert re.search(r"slow request: GET /sleep/1\.3, .*: (\d) of \1 looks found its thread at ", server.log())
    assert "GET /stream" not in server.log()


def test_a_reload_brings_other_times_from_which_on_paths_are_slow(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "forehand.toml"
    file.write_text('[slow_requests]\n"/sleep" = 0\n"/stream" = "100ms"\n')
    server = serve("phases:application", "--workers", "1", "--config", str(file))
    paths = ("/sleep/0.2", "/stream/0.2/1")
    for path in paths:
        assert view(server, path) == 200
    server.says("slow request: GET /stream/0.2/1")
    file.write_text('[slow_requests]\n"/sleep" = 0.1\n"/" = "1h"\n')
    assert server.order("reload")[0] == 0
    for path in paths:
        assert view(server, path) == 200
    server.says("slow request: GET /sleep/0.2,")
    assert server.stop() == 0
    assert re.findall(r"slow request: GET (\S+),", server.log()) == ["/stream/0.2/1", "/sleep/0.2"]


def test_what_is_followed_is_remembered_while_the_server_keeps_it() -> None:
    def rows(first: int, last: int) -> list[Any]:
        return [{"ended": float(number), "number": number, "request": "GET /"} for number in range(first, last)]

    shown = Shown(rows(0, 5))
    for first in range(0, 1000, 3):
        assert shown.new(rows(first, first + 8)) == rows(first + 5, first + 8)
    assert shown.new(rows(0, 1)) == rows(0, 1), "what is kept no more is forgotten"
    assert shown.new([]) == []
    assert shown.new(rows(0, 1)) == [], "what was told by nobody for a moment is not shown twice"
