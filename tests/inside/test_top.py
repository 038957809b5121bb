"""`forehand top`: as text, for programs, and as a screen that is driven by keys."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from forehand.top import command, numbers
from forehand.top.words import folded, number, percent, printable, span
from serving import PATIENCE, PYTHON, Serving
from shared import GET, settled, statistics

Serve = Callable[..., Serving]


def ask(server: Serving, path: str) -> None:
    """One request, and its whole reply."""
    server.raw(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())


@pytest.fixture(scope="module")
def planted() -> Iterator[Serving]:
    """One thread stays inside, one request waits; some were slow, some have failed."""
    # Only those that sleep are slow, whatever else the machine does.
    slow = ("--slow-request", "0.1", "--slow-requests", "/quick=0,/fail=0")
    server = Serving("phases:application", "--workers", "1", "--threads", "2", *slow)
    for path in ["/quick"] * 4 + ["/sleep/0.12/1"] * 3 + ["/fail/[bold]x"] * 2:
        ask(server, path)
    settled(server, statistics(server), 9)
    with server.connect() as stuck:
        stuck.sendall(GET.format("/sleep/600/stuck", "a", "").encode())
        server.until(lambda: server.status()["workers"][0]["busy"] == 1)
        yield server
    server.kill()


class Load:
    """A client that asks again and again while a test looks."""

    def __init__(self, server: Serving, path: str) -> None:
        code = (
            "import socket, sys\n"
            "host, port, path = sys.argv[1:]\n"
            "sock = socket.create_connection((host, int(port)))\n"
            "while True:\n"
            "    sock.sendall(f'GET {path} HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n'.encode())\n"
            "    if not sock.recv(65536): break\n"
        )
        self.process = subprocess.Popen([PYTHON, "-c", code, server.host, str(server.port), path])

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)


def test_once_is_plain_text_of_what_has_come_between_two_looks(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1", "--threads", "2")
    for path in ["/sleep/0.3/1"] * 2 + ["/fail/[bold]x"]:
        ask(server, path)
    with server.connect() as stuck, Load(server, "/sleep/0.01/7"):
        stuck.sendall(GET.format("/sleep/600/stuck", "a", "").encode())
        server.until(lambda: "GET /sleep/0.01/*" in statistics(server).totals()["routes"])
        status, text = server.order("top", "--once", "--interval", "1", timeout=3 * PATIENCE)
    assert status == 0, text
    lines = text.splitlines()
    assert lines[0].startswith("phases:application: serving for ") and "1 of 1 workers" in lines[0]
    assert re.match(r"[\d,.]+ req/s  failed 0/s  inside [12]  queued \d  p50 ", lines[1]), lines[1]
    table = next(line for line in lines if line.startswith("GET /sleep/0.01/*"))
    assert table.split()[2] == "100%", "of what has come since, and not since the start"
    assert any(line.endswith("GET /sleep/600/stuck") for line in lines)
    assert any("500" in line and "GET /fail/[bold]x" in line for line in lines)
    assert max(map(len, lines)) <= 120 and "\x1b" not in text


def test_json_is_for_programs(planted: Serving) -> None:
    status, text = planted.order("top", "--json", "--interval", "0.1")
    assert status == 0, text
    found: dict[str, Any] = json.loads(text)
    assert found["status"]["pid"] == planted.pid and found["requests"] >= 9
    assert [one["request"] for one in found["running"]][:1] == ["GET /sleep/600/stuck"]
    assert found["seconds"] >= 0.1 and found["quantiles"].keys() == {"p50", "p95", "p99"}


def test_what_is_wrong_is_said_first(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1", "--threads", "1", "--queue-timeout", "0.3")
    with server.connect() as stuck:
        stuck.sendall(GET.format("/sleep/600", "a", "").encode())
        server.until(lambda: server.status()["workers"][0]["busy"] == 1)
        words = [PYTHON, "-m", "forehand", "top", "--json", "--interval", "1", "--control", server.control]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as looking:
            # Whenever it looks, some are refused between its two looks.
            while looking.poll() is None:
                ask(server, "/quick")
            assert looking.stdout is not None
            found = json.loads(looking.stdout.read())
    assert any("refused or cut" in line and line.endswith("--queue-timeout") for line in found["wrong"]), found["wrong"]


def test_without_a_server_it_says_so(tmp_path: Path) -> None:
    for flags in ((), ("--once",), ("--json",)):
        words = [PYTHON, "-m", "forehand", "top", *flags, "--control", str(tmp_path / "none.sock")]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert (done.returncode, done.stdout) == (5, "")
        assert done.stderr.startswith("forehand: no server answers at ") and "Traceback" not in done.stderr


def test_the_screen_needs_a_terminal(planted: Serving) -> None:
    pytest.importorskip("textual")
    status, text = planted.order("top")
    assert status == 2 and "forehand top takes a terminal" in text and "--once" in text


def test_an_interval_that_is_none_is_refused() -> None:
    parser = argparse.ArgumentParser()
    command.add_flags(parser)
    for good in ("0.1", "2", "3600"):
        assert parser.parse_args(["--interval", good]).interval == float(good)
    for bad in ("0.09", "3600.1", "-1", "x"):
        with pytest.raises(SystemExit):
            parser.parse_args([f"--interval={bad}"])


def test_a_distribution_between_two_looks_is_that_of_what_came_between() -> None:
    buckets = [(0.001, 90), (0.01, 9), (0.1, 1)]
    assert [numbers.quantile(buckets, share) for share in (0.5, 0.9, 0.95, 0.99, 1)] == pytest.approx(
        [0.00098, 0.00098, 0.0098, 0.0098, 0.098]
    )
    assert numbers.quantile([(0.001, 0)], 0.5) is None
    old = {"a": (10, 0, 1.0, 0.5), "b": (5, 1, 5.0, None)}
    new = {"a": (14, 0, 1.4, 0.7), "b": (5, 1, 5.0, None), "c": (2, 2, 0.6, None)}
    found = {one.name: one for one in numbers.routes(new, old, 2.0)}
    assert list(found) == ["c", "a"], "the one with most thread time first, and none without a request"
    assert (found["c"].share, found["a"].share) == pytest.approx((0.6, 0.4))
    assert (found["a"].mean, found["a"].cpu, found["a"].per_second) == pytest.approx((0.1, 0.5, 2.0))
    assert (found["c"].cpu, found["c"].failed) == (None, 2)


def test_numbers_are_short_and_texts_harmless() -> None:
    assert [span(one) for one in (None, 2e-6, 0.0123, 1.5, 600, 9000)] == [
        "-",
        "2 us",
        "12.3 ms",
        "1.5 s",
        "10 min",
        "2.5 h",
    ]
    assert [number(one) for one in (0, 0.123, 7, 12345.6)] == ["0", "0.12", "7", "12,346"]
    assert [percent(one) for one in (None, 0, 0.004, 0.5, 1)] == ["-", "0%", "0.4%", "50%", "100%"]
    assert printable("a\x1b[31m\x9b1mü") == "a\ufffd[31m\ufffd1mü"


def driven(server: Serving, steps: Callable[[Any, Any], Any]) -> None:
    """The screen, 80 by 24, driven as by a keyboard."""
    pytest.importorskip("textual")
    from forehand.top.screen import Top

    async def run() -> None:
        app = Top(server.control, 0.2, numbers.look(server.control))
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            await steps(app, pilot)

    asyncio.run(asyncio.wait_for(run(), 3 * PATIENCE))


def cells(app: Any) -> list[list[str]]:
    from textual.widgets import DataTable

    table = app.query_one(DataTable)
    return [[str(cell) for cell in table.get_row_at(row)] for row in range(table.row_count)]


async def shows(app: Any, pilot: Any, what: Callable[[list[list[str]]], bool]) -> list[list[str]]:
    """The table, once it is so."""
    end = time.monotonic() + PATIENCE
    while not what(cells(app)):
        assert time.monotonic() < end, cells(app)
        await pilot.pause(0.02)
    return cells(app)


def test_keys_choose_views_sort_pause_and_end(planted: Serving) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        await pilot.press("2")
        workers = await shows(app, pilot, lambda rows: bool(rows) and len(rows[0]) == 9)
        assert workers[0][:5] == ["1", str(planted.status()["workers"][0]["pid"]), "ready", "1", "2"]
        await pilot.press("3")
        await shows(app, pilot, lambda rows: rows[0][2] == "GET /sleep/600/stuck")
        await pilot.press("4")
        ended = await shows(app, pilot, lambda rows: len(rows) == 5)
        # What looks like markup is text.
        assert [row[4] for row in ended].count("GET /fail/[bold]x") == 2
        assert [row[3] for row in ended if row[4] == "GET /sleep/0.12/1"] == ["off"] * 3
        for _ in range(3):
            await pilot.press("s")
        sorted_by = [row[2] for row in await shows(app, pilot, lambda rows: len(rows) == 5)]
        assert sorted_by == sorted(sorted_by)
        await pilot.press("r")
        assert [row[2] for row in cells(app)] == sorted(sorted_by, reverse=True)
        await pilot.press("space")
        assert app.paused
        await pilot.press("space", "question_mark")
        assert "the other way round" in str(app.screen.query_one("Static").render())
        await pilot.press("x")
        await pilot.press("tab")
        assert app.view.name == "limits"
        await pilot.press("q")

    driven(planted, steps)


def test_what_a_view_shows_is_whole_as_soon_as_it_is_chosen(planted: Serving) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        from textual.widgets import DataTable

        await pilot.press("space")
        for key, whole in (("2", str(planted.status()["workers"][0]["pid"])), ("4", "GET /fail/[bold]x")):
            await pilot.press(key)
            await shows(app, pilot, lambda rows, text=whole: any(text in row for row in rows))
            # No further look comes that would draw it anew.
            await pilot.pause()
            table = app.query_one(DataTable)
            lines = [table.render_line(row).text for row in range(1, 1 + table.row_count)]
            assert any(whole in line for line in lines), lines

    driven(planted, steps)


@pytest.mark.parametrize("key", ["x", "space", "tab", "question_mark", "3"])
def test_any_key_closes_the_help_and_does_nothing_else(planted: Serving, key: str) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        under = app.screen
        await pilot.press("question_mark")
        assert app.screen is not under
        await pilot.press(key)
        await pilot.pause()
        assert app.screen is under and not app.paused and app.view.name == "routes"

    driven(planted, steps)


def test_a_line_is_cut_where_two_spaces_are() -> None:
    line = "72 req/s  p50 50.5 ms  p99 50.5 ms"
    assert folded(line, 34) == [line]
    assert folded(line, 33) == ["72 req/s  p50 50.5 ms", "p99 50.5 ms"]
    assert folded(line, 12) == ["72 req/s", "p50 50.5 ms", "p99 50.5 ms"]
    assert folded(line, 5) == ["72 req/s", "p50 50.5 ms", "p99 50.5 ms"]


def test_routes_by_what_uses_the_threads_fill_the_first_view(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1")

    async def steps(app: Any, pilot: Any) -> None:
        with Load(server, "/sleep/0.02/7"):
            rows = await shows(app, pilot, lambda rows: bool(rows) and rows[0][0] == "GET /sleep/0.02/*")
        assert rows[0][1] == "100%"

    driven(server, steps)


def test_who_ends_it_while_it_looks_at_the_server_sees_no_mistake(planted: Serving) -> None:
    apps = []

    async def steps(app: Any, pilot: Any) -> None:
        apps.append(app)
        await pilot.press("q")

    driven(planted, steps)
    # What the thread that looks hands over when the screen is gone.
    apps[0]._take(numbers.look(planted.control), "")


def test_a_server_that_ends_is_told_and_the_screen_stays(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1")

    async def steps(app: Any, pilot: Any) -> None:
        server.stop()
        end = time.monotonic() + PATIENCE
        while "no answer since" not in str(app.query_one("#wrong").render()):
            assert time.monotonic() < end, "it does not say that the server is gone"
            await pilot.pause(0.02)
        await pilot.press("q")

    driven(server, steps)


@pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux here")
def test_a_terminal_of_80_by_24_has_it_all(planted: Serving) -> None:
    pytest.importorskip("textual")
    name = f"forehand-{os.getpid()}"
    tmux = ["tmux", "-f", "/dev/null", "-L", name]

    def screen() -> str:
        return subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True).stdout

    words = [PYTHON, "-m", "forehand", "top", "--interval", "0.3", "--control", planted.control]
    subprocess.run(
        [*tmux, "new-session", "-d", "-x", "80", "-y", "24", *words], check=True, env={**os.environ, "LANG": "C.UTF-8"}
    )
    try:
        planted.until(lambda: "phases:application: serving" in screen())
        # The keys stand in the last line.
        planted.until(lambda: "q Quit" in screen())
        text = screen()
        assert "1 Routes" in text and "5 Limits" in text and len(text.splitlines()) == 24, text
        subprocess.run([*tmux, "send-keys", "3"], check=True)
        planted.until(lambda: "GET /sleep/600/stuck" in screen())
        subprocess.run([*tmux, "send-keys", "q"], check=True)
        gone = [*tmux, "has-session"]
        planted.until(lambda: subprocess.run(gone, capture_output=True, check=False).returncode != 0)
    finally:
        subprocess.run([*tmux, "kill-server"], capture_output=True, check=False)
