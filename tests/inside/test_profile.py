"""`forehand profile`: what burns is named under its route, nobody waits for who looks, and the graph opens anywhere."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from forehand.inside import asking, flame, profile
from serving import PATIENCE, PYTHON, Serving, read_reply
from shared import INNER, applications, statistics

Serve = Callable[..., Serving]
APPS = Path(__file__).resolve().parent.parent / "apps"
GET = "GET {} HTTP/1.1\r\nHost: a\r\n\r\n"
DRIVERS = applications("inner")
#: So many looks say where the time goes, and a worker that shares its processor with many others is looked at for so
#: long, in seconds: at first, and for twice as long each time that it has had fewer.
ENOUGH = 10
LONG = 1.5


@contextmanager
def asked(server: Serving, *paths: str, may_be_cut: bool = False) -> Iterator[list[int]]:
    """These are asked for, each on a connection of its own and again and again; the statuses of all replies. Where that
    may be cut, another one takes its place."""
    statuses: list[int] = []
    ended = threading.Event()

    def ask(path: str) -> None:
        with server.connect() as sock:
            buffer = bytearray()
            while not ended.is_set():
                sock.sendall(GET.format(path).encode())
                statuses.append(read_reply(sock, buffer)[0])

    def ask_again(path: str) -> None:
        while not ended.is_set():
            with contextlib.suppress(ConnectionError, AssertionError):
                ask(path)

    clients = [threading.Thread(target=ask_again if may_be_cut else ask, args=(path,)) for path in paths]
    for client in clients:
        client.start()
    try:
        server.until(lambda: statuses)
        yield statuses
    finally:
        ended.set()
        for client in clients:
            client.join(PATIENCE)
        assert not any(client.is_alive() for client in clients), "a request was not answered"
        assert set(statuses) == {200}


def profiled(server: Serving, *flags: str, seconds: float = LONG) -> tuple[int, str]:
    """Exit status and words of `forehand profile` that has looked often enough."""
    while True:
        status, said = server.order("profile", "--seconds", str(seconds), *flags, timeout=90)
        looks = [int(count) for count in re.findall(r"^worker \d+ \(\d+\): (\d+) looks", said, re.M)]
        nothing = status == 4 and "no request was seen" in said
        if min(looks, default=0 if nothing else ENOUGH) >= ENOUGH or seconds > PATIENCE:
            return status, said
        seconds *= 2


def collapsed(server: Serving, folder: Path, *flags: str, seconds: float = LONG) -> dict[str, int]:
    """Stacks and their milliseconds."""
    path = folder / "profile.txt"
    status, said = profiled(server, "-f", "collapsed", "-o", str(path), *flags, seconds=seconds)
    assert status == 0, said
    assert f"written to {path}" in said
    pairs = (line.rpartition(" ") for line in path.read_text().splitlines())
    return {stack: int(milliseconds) for stack, _, milliseconds in pairs}


def most(stacks: dict[str, int]) -> tuple[str, str]:
    """The function that took most by itself, and the route that most of it was for. On a busy machine a look takes too
    long to say for which request a stack was; of those nothing is said here, unless there are no others."""
    functions: Counter[str] = Counter()
    routes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for stack, milliseconds in stacks.items():
        route, *_, last = stack.split(";")
        function = last.partition(" ")[0]
        functions[function] += milliseconds
        routes[function][route] += milliseconds
    [(function, _)] = functions.most_common(1)
    known = Counter({route: sum_ for route, sum_ in routes[function].items() if route != flame.NO_ROUTE})
    return (known or routes[function]).most_common(1)[0][0], function


@pytest.mark.parametrize("driver", DRIVERS)
def test_what_burns_is_at_the_top_and_under_its_route(serve: Serve, tmp_path: Path, driver: str) -> None:
    server = serve(*DRIVERS[driver], "--workers", "1")
    with asked(server, "/burn/0.2", "/quick"):
        stacks = collapsed(server, tmp_path)
    assert most(stacks) == ("GET /burn/0.2", "burner"), stacks
    assert not any("burner (" in stack for stack in stacks if stack.startswith("GET /quick")), stacks


def test_no_right_to_look_into_processes_is_needed(serve: Serve, tmp_path: Path) -> None:
    server = serve("undumpable:application", "--workers", "1")
    with asked(server, "/burn/0.2"):
        stacks = collapsed(server, tmp_path, seconds=0.5)
    assert most(stacks) == ("GET /burn/0.2", "burner"), stacks


def test_one_route_is_seen_alone_and_one_that_nobody_asked_for_is_an_error(serve: Serve, tmp_path: Path) -> None:
    server = serve("inner:application", "--workers", "1")
    with asked(server, "/burn/0.1", "/other/0.1"):
        stacks = collapsed(server, tmp_path, "--route", "GET /other/0.1")
        assert {stack.partition(";")[0] for stack in stacks} == {"GET /other/0.1"}
        assert most(stacks)[1] == "other_burner"
        assert {stack.partition(";")[0] for stack in collapsed(server, tmp_path, "-r", "/other/0.1")} == {
            "GET /other/0.1"
        }
        status, said = profiled(server, "--route", "GET /none")
    assert status == 4 and "no request of GET /none was seen" in said and "GET /burn/0.1" in said, said


def test_who_waits_is_seen_inside_a_request_and_not_among_those_that_use_a_processor(
    serve: Serve, tmp_path: Path
) -> None:
    server = serve("inner:application", "--workers", "1")
    with server.connect() as sock:
        sock.sendall(GET.format("/sleep/60").encode())
        shared = statistics(server)
        server.until(lambda: shared.totals()["inside"] == 1)
        assert most(collapsed(server, tmp_path, seconds=0.5)) == ("GET /sleep/*", "sleeper")
        status, said = server.order("profile", "--cpu", "--seconds", "0.5", timeout=90)
    old = tuple(map(int, server.status()["python"].split(".")[:2])) < (3, 11)
    assert status == 4 and ("before Python 3.11" if old else "nothing else ran") in said, said


@pytest.mark.skipif("gevent" not in DRIVERS, reason="gevent is not installed")
def test_what_a_greenlet_does_after_it_has_waited_is_under_its_route(serve: Serve, tmp_path: Path) -> None:
    server = serve(*DRIVERS["gevent"], "--workers", "1")
    with asked(server, "/late/0.2", "/late/0.2", "/quick"):
        stacks = collapsed(server, tmp_path)
    assert most(stacks) == ("GET /late/0.2", "burner"), stacks
    assert not any("burner (" in stack for stack in stacks if stack.startswith("GET /quick")), stacks


@pytest.mark.skipif("gevent" not in DRIVERS, reason="gevent is not installed")
def test_greenlets_that_wait_are_not_shown(serve: Serve, tmp_path: Path) -> None:
    server = serve(*DRIVERS["gevent"], "--workers", "1")
    with server.connect() as sock:
        sock.sendall(GET.format("/sleep/60").encode())
        shared = statistics(server)
        server.until(lambda: shared.totals()["inside"] == 1)
        to = ("--output", str(tmp_path / "graph.html"))
        status, said = server.order("profile", "--seconds", "0.5", *to, timeout=90)
    assert status == 4 and "no request was seen, and nothing else ran" in said, said


def test_what_burns_in_a_thread_that_the_application_has_started_is_at_the_top_without_a_route(
    serve: Serve, tmp_path: Path
) -> None:
    server = serve(*DRIVERS["asyncio"], "--workers", "1")
    if tuple(map(int, server.status()["python"].split(".")[:2])) < (3, 11):
        pytest.skip("threads that run are not told apart before Python 3.11")
    with asked(server, "/child/burn/0.2"):
        stacks = collapsed(server, tmp_path)
    assert most(stacks) == (flame.NO_ROUTE, "burner"), stacks


def test_what_keeps_the_interpreter_in_c_is_found_at_its_line(serve: Serve, tmp_path: Path) -> None:
    server = serve("inner:application", "--workers", "1")
    with asked(server, "/sort/0.5"):
        stacks = collapsed(server, tmp_path, seconds=3)
    inside = {stack: took for stack, took in stacks.items() if "sorter (" in stack}
    top = max(inside, key=lambda stack: inside[stack])
    found = re.search(r"sorter \(inner\.py:(\d+)\)$", top)
    assert found and "sorted(numbers" in INNER[int(found[1]) - 1], stacks


def test_all_workers_are_added_up_and_one_can_be_chosen(serve: Serve, tmp_path: Path) -> None:
    server = serve("inner:application", "--workers", "2")
    with asked(server, "/burn/0.1", "/burn/0.1", "/burn/0.1", "/burn/0.1"):
        flags = ("-o", str(tmp_path / "graph.html"))
        said = profiled(server, *flags)[1]
        assert re.findall(r"^worker (\d) \(\d+\): \d+ looks", said, re.M) == ["1", "2"], said
        said = profiled(server, *flags, "--worker", "2")[1]
    assert re.findall(r"^worker (\d) \(\d+\): \d+ looks", said, re.M) == ["2"], said


def test_a_worker_that_ends_meanwhile_is_named_and_what_others_have_is_shown(serve: Serve, tmp_path: Path) -> None:
    server = serve("inner:application", "--workers", "2")
    # Long enough that one can be ended meanwhile on a busy machine.
    command = [PYTHON, "-m", "forehand", "profile", "--control", server.control, "--seconds", "5",
               "--output", str(tmp_path / "graph.html")]  # fmt: skip
    # Whichever is ended may have been the one that was asked: clients go from one to the other.
    with asked(server, "/burn/0.1", may_be_cut=True):
        one = server.status()["workers"][0]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as looking:
            server.until(lambda: profiling_threads(one["pid"]))
            os.kill(one["pid"], signal.SIGKILL)
            said = looking.communicate(timeout=90)[0]
    assert looking.returncode == 0, said
    assert f"worker {one['worker']} ({one['pid']}) has ended meanwhile" in said, said


def test_what_cannot_be_done_is_said(serve: Serve, tmp_path: Path) -> None:
    server = serve("inner:application", "--workers", "1")
    for flags, exits, words in (
        (("--worker", "9"), 2, "there is no worker 9 that serves: those that do are 1"),
        (("--seconds", "0"), 2, "--seconds: 0 is not from 0.1 to 3600"),
        (("--rate", "1001"), 2, "--rate: 1001 is not from 1 to 1000"),
        (("--seconds", "0.1"), 4, "no request was seen"),
    ):
        status, said = server.order("profile", *flags, timeout=90)
        assert status == exits and words in said, said
    with asked(server, "/burn/0.1"):
        to = str(tmp_path / "none" / "graph.html")
        status, said = server.order("profile", "--seconds", "0.5", "--output", to, timeout=90)
        assert status == 6 and f"{to} cannot be written" in said, said
    nonsense = asking.ask(server.control, "profile", 1, "for a while")
    server.until(lambda: nonsense.lines() is None)
    os.close(nonsense.fd)
    server.says("profile came to nothing: could not convert string to float")
    server.stop()
    status, said = server.order("profile")
    assert status == 5 and f"no server answers at {server.control}" in said, said


def profiling_threads(pid: int) -> list[str]:
    names = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        # Threads end while they are looked at.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            names.append(task.joinpath("comm").read_text().strip())
    return [name for name in names if name == "forehand-prof"]


def test_a_second_one_has_to_wait_and_one_that_nobody_reads_ends(serve: Serve, tmp_path: Path) -> None:
    server = serve("inner:application", "--workers", "1")
    worker = server.status()["workers"][0]["pid"]
    command = [PYTHON, "-m", "forehand", "profile", "--control", server.control, "--seconds", "600"]
    with asked(server, "/burn/0.1"):
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as first:
            server.until(lambda: profiling_threads(worker))
            status, said = server.order("profile", "--seconds", "0.1")
            assert status == 4 and "a profile of this worker is under way" in said, said
            first.send_signal(signal.SIGINT)
            assert first.wait(PATIENCE) == 130
        server.until(lambda: not profiling_threads(worker))
        assert collapsed(server, tmp_path)


@pytest.mark.skipif(shutil.which("py-spy", path=str(Path(PYTHON).parent)) is None, reason="py-spy is not installed")
def test_py_spy_beside_it_sees_the_same(serve: Serve, tmp_path: Path) -> None:
    server = serve("inner:application", "--workers", "1")
    worker = server.status()["workers"][0]["pid"]
    out = tmp_path / "other.txt"
    other = [str(Path(PYTHON).parent / "py-spy"), "record", "--pid", str(worker), "--format", "raw", "--nonblocking"]
    with asked(server, "/burn/0.5"):
        done = subprocess.run(
            [*other, "--duration", "2", "--output", str(out)], capture_output=True, text=True, timeout=90, check=False
        )
        if done.returncode and "ermission" in done.stderr:
            pytest.skip("this machine lets no process look into another")
        assert done.returncode == 0, done.stderr
        ours = collapsed(server, tmp_path, "--route", "GET /burn/0.5", seconds=2)
    counted = [line.rpartition(" ") for line in out.read_text().splitlines()]
    assert re.search(r"burner \(inner\.py:\d+\)$", max(counted, key=lambda row: int(row[2]))[0]), counted
    assert most(ours)[1] == "burner"


def samples() -> list[flame.Sample]:
    frame = flame.Frame("view</script><b>", "a;b.py", 3, "/x/a;b.py")
    inner = flame.Frame("query", "db.py", 7, "/x/db.py")
    return [
        flame.Sample("GET /a", (frame, inner), 3.0),
        flame.Sample("GET /a", (frame,), 0.5),
        flame.Sample(flame.NO_ROUTE, (), 0.5),
    ]


def test_shares_that_rest_on_few_looks_are_doubted() -> None:
    once = flame.Sample("GET /", (), 0.01)
    assert profile._doubts([once])[0].startswith("only 1 look has found anything that ran: take no share for exact")
    assert profile._doubts([once, once])[0].startswith("only 2 looks have")
    assert profile._doubts([once._replace(looks=profile.ENOUGH)]) == []


def test_each_format_has_all_of_the_time() -> None:
    given = samples()
    facts = ["worker 1 (2): 3 looks"]
    text = flame.collapsed(given, "t", facts)
    assert text.splitlines() == [
        "(no known request);(the server) 500",
        "GET /a;view</script><b> (a,b.py:3) 500",
        "GET /a;view</script><b> (a,b.py:3);query (db.py:7) 3000",
    ]
    scope = json.loads(flame.speedscope(given, "t", facts))
    assert [one["name"] for one in scope["profiles"]] == ["all", "GET /a", "(no known request)"]
    assert [sum(one["weights"]) for one in scope["profiles"]] == [4.0, 3.5, 0.5]
    assert all(len(one["samples"]) == len(one["weights"]) for one in scope["profiles"])
    used = {number for one in scope["profiles"] for stack in one["samples"] for number in stack}
    assert used == set(range(len(scope["shared"]["frames"])))
    picture = ElementTree.fromstring(flame.svg(given, "t & u", facts))
    titles = [one.text for one in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert titles[:3] == ["t & u", "all: 4.00 s, 100.0%", "GET /a: 3.50 s, 87.5%"]
    assert flame.by_function(given)[0] == ("query (db.py:7)", 3.0, 3.0)


def test_a_page_is_one_file_that_can_be_used_with_a_keyboard_and_asks_nobody(tmp_path: Path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api")
    page_file = tmp_path / "graph.html"
    page_file.write_text(flame.page(samples(), "shop & <co>", ["worker 1 (2): 3 looks"]), encoding="utf-8")
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = next((path for name in names if (path := shutil.which(name))), None)
    if chromium is None:
        pytest.skip("no chromium here")
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page: Any = browser.new_page()
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: wrong.append(request.url) if request.url[:5] != "file:" else None)
        page.goto(page_file.as_uri())
        boxes = page.locator("#graph button")
        assert boxes.all_inner_texts() == [
            "all", "GET /a", "view</script><b> (a;b.py:3)", "query (db.py:7)", "(no known request)", "(the server)",
        ]  # fmt: skip
        assert page.title() == "shop & <co>"
        boxes.nth(2).focus()
        page.keyboard.press("Enter")
        assert boxes.all_inner_texts() == ["all", "GET /a", "view</script><b> (a;b.py:3)", "query (db.py:7)"]
        assert "75.0 % of all, 85.7 % of what is shown" in boxes.nth(3).get_attribute("title")
        page.keyboard.press("Escape")
        page.fill("#find", "QUERY")
        assert page.inner_text("#share") == "75.0 % of all time is in or above what was found"
        assert page.locator("#graph button.found").all_inner_texts() == ["query (db.py:7)"]
        assert wrong == []
        browser.close()


def test_requests_of_a_told_route_are_one_though_each_has_a_path_of_its_own(serve: Serve, tmp_path: Path) -> None:
    server = serve("told_routes:application", "--workers", "1", "--status-bind", "127.0.0.1:0")
    ended = threading.Event()

    def ask() -> None:
        with server.connect() as sock:
            buffer, number = bytearray(), 0
            while not ended.is_set():
                number += 1
                sock.sendall(GET.format(f"/people/p-{number}/x").encode())
                assert read_reply(sock, buffer)[0] == 200

    client = threading.Thread(target=ask)
    client.start()
    try:
        server.until(lambda: "GET /people/<name>/x" in statistics(server).totals()["routes"])
        status, said = profiled(server, "--route", "GET /people/<name>/x", "-o", str(tmp_path / "graph.html"))
    finally:
        ended.set()
        client.join(PATIENCE)
    assert status == 0, said
    assert "GET /people/<name>/x" in said and "/people/p-" not in said, said
