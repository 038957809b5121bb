"""Every process that has served ends as a program of Python's does: threads, `atexit`, logging, children, in order."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import Serving, read_reply

Serve = Callable[..., Serving]
KINDS = {"threads": ("endings:application",), "asyncio": ("endings:asynchronous", "--loop", "asyncio")}
if importlib.util.find_spec("uvloop"):
    KINDS["uvloop"] = ("endings:asynchronous", "--loop", "uvloop")
if importlib.util.find_spec("gevent"):
    KINDS["gevent"] = ("endings:application", "--worker-class", "gevent")
#: What ends, one after the other, and before it what an event loop has.
ENDINGS = ["executor", "thread", "last callback", "first callback"]
LOOPS_ENDINGS = ["lifespan", "generator", "the loop's executor"]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def start(serve: Serve, kind: str, folder: Path, *options: str, **more: str) -> Serving:
    return serve(*KINDS[kind], *options, env={"ENDINGS": str(folder / "told"), **more})


def begin(server: Serving) -> tuple[int, int]:
    """Have the application start what is to end: its process, and a child of it."""
    with server.connect() as sock:
        sock.sendall(b"GET /begin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        _, _, text = read_reply(sock, bytearray())
    pid, child = text.split()
    return int(pid), int(child)


def told(folder: Path, pid: int) -> list[str]:
    """What has ended in a process, in its order."""
    lines = (folder / "told").read_text().splitlines() if (folder / "told").exists() else []
    return [text for number, _, text in (line.partition(" ") for line in lines) if int(number) == pid]


def check(server: Serving, folder: Path, kind: str, process: tuple[int, int]) -> None:
    """All has ended, in order, and nothing was lost."""
    pid, child = process
    found = told(folder, pid)
    loops = LOOPS_ENDINGS if kind in ("asyncio", "uvloop") else []
    # Two executors end when their work does.
    assert [one for one in found if one in loops and one != "the loop's executor"] == loops[:2], found
    others = [one for one in found if one not in loops]
    # gevent lets threads run, which are greenlets, before it ends executors.
    assert others == ENDINGS or (kind == "gevent" and sorted(others[:2]) + others[2:] == ENDINGS), found
    assert set(loops) <= set(found)
    assert (folder / "told.log").read_text() == "a line that is kept in memory\n"
    server.says("RuntimeError: raised at the end")
    server.says("printed and not flushed")
    assert not os.path.exists(f"/proc/{child}") or "Z" in Path(f"/proc/{child}/stat").read_text().rpartition(")")[2]


@pytest.mark.interpreters
@pytest.mark.parametrize("workers", ["1", "0"])
def test_a_stop_ends_everything_in_order(serve: Serve, kind: str, workers: str, tmp_path: Path) -> None:
    server = start(serve, kind, tmp_path, "--workers", workers)
    process = begin(server)
    assert server.stop(signal.SIGINT if workers == "0" else signal.SIGTERM) == 0
    check(server, tmp_path, kind, process)


@pytest.mark.parametrize("preload", ["--preload", "--no-preload"])
def test_a_reload_ends_everything_of_the_old_worker_in_order(
    serve: Serve, kind: str, preload: str, tmp_path: Path
) -> None:
    server = start(serve, kind, tmp_path, preload)
    process = begin(server)
    code, text = server.order("reload")
    assert code == 0, text
    server.until(lambda: "first callback" in told(tmp_path, process[0]) and not os.path.exists(f"/proc/{process[0]}"))
    check(server, tmp_path, kind, process)
    assert server.stop() == 0


def test_a_worker_that_is_replaced_ends_everything_in_order(serve: Serve, kind: str, tmp_path: Path) -> None:
    server = start(serve, kind, tmp_path, "--max-requests", "1")
    process = begin(server)
    server.until(lambda: "first callback" in told(tmp_path, process[0]) and not os.path.exists(f"/proc/{process[0]}"))
    check(server, tmp_path, kind, process)
    assert server.stop() == 0


@pytest.mark.parametrize(("kind", "workers"), [*((kind, "1") for kind in KINDS), ("threads", "0"), ("asyncio", "0")])
@pytest.mark.parametrize(
    ("stuck", "said"),
    [
        ("callback", "a callback of atexit goes on after"),
        ("thread", "threads go on after"),
        ("interpreter", "something holds its interpreter"),
    ],
)
def test_what_does_not_end_is_named_and_left_behind(
    serve: Serve, kind: str, workers: str, stuck: str, said: str, tmp_path: Path
) -> None:
    server = start(serve, kind, tmp_path, "--workers", workers, "--graceful-timeout", "1200ms", STUCK=stuck)
    _, child = begin(server)
    assert server.stop() == 1
    # What would have ended it, multiprocessing's callback, was not reached.
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    log = server.log()
    assert said in log, log
    if stuck == "callback":
        assert "endings.deadlock" in log and "LOCK.acquire(" in log, log
        assert "last callback" in (tmp_path / "told").read_text(), "those before it have run"
    if stuck == "thread":
        assert "'deadlocked'" in log, log
        assert kind == "gevent" or "LOCK.acquire(" in log, log
    assert "SIGKILL" not in log, "the supervisor did not have to"


def test_one_more_word_to_stop_makes_no_failure_of_an_end(serve: Serve, kind: str, tmp_path: Path) -> None:
    server = start(serve, kind, tmp_path, "--workers", "0", STUCK="for a while")
    pid, _ = begin(server)
    server.process.send_signal(signal.SIGTERM)
    server.until(lambda: "a long callback" in told(tmp_path, pid))
    for one in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
        server.process.send_signal(one)
    assert server.process.wait(30) == 0
    assert "first callback" in told(tmp_path, pid)
    assert "KeyboardInterrupt" not in server.log()


def test_a_callback_that_does_not_end_keeps_no_reload_from_its_end(serve: Serve, tmp_path: Path) -> None:
    server = start(serve, "threads", tmp_path, "--graceful-timeout", "500ms", STUCK="callback")
    old, _ = begin(server)
    code, text = server.order("reload")
    assert code == 0, text
    server.until(lambda: not os.path.exists(f"/proc/{old}"))
    assert begin(server)[0] != old
    assert server.stop() == 1
