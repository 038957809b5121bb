"""Whatever is killed at whatever moment: the server comes back to what it was told to be."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import HERE, PATIENCE, PYTHON, Serving, read_reply

pytestmark = pytest.mark.apart

Shop = Callable[..., Path]
Serve = Callable[..., Serving]


def children(pid: int) -> list[int]:
    """All processes below a process."""
    try:
        found = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [one for child in found for one in (child, *children(child))]


def answers(server: Serving) -> bool:
    try:
        with server.connect(5) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            return read_reply(sock, bytearray())[0] == 200
    except (OSError, AssertionError):
        return False  # it had landed on a worker that was killed


@pytest.mark.parametrize("seed", [int(word) for word in os.environ.get("CHAOS_SEEDS", "1,2,3").split(",")])
@pytest.mark.parametrize("preload", ["--preload", "--no-preload"])
def test_after_a_storm_of_kills_reloads_and_upgrades_it_serves_as_before(
    serve: Serve, shop: Shop, seed: int, preload: str
) -> None:
    dice = random.Random(seed)
    server = serve("shop", "--workers", "3", preload, "--graceful-timeout", "2s", cwd=shop())
    for _ in range(25):
        move = dice.choice(["kill", "kill", "kill", "HUP", "USR2", "TTIN", "TTOU", "ask"])
        below = children(server.pid)
        if move == "kill" and below:
            try:
                os.kill(dice.choice(below), signal.SIGKILL)
            except ProcessLookupError:
                pass  # it had ended by itself
        elif move == "ask":
            server.order("stacks")
        elif move != "kill":
            os.kill(server.pid, getattr(signal, f"SIG{move}"))
        time.sleep(dice.random() * 0.15)
    code, text = server.until(lambda: done(server.order("workers", "3")), patience=40)
    assert code == 0, text

    def settled() -> bool:
        workers = server.status()["workers"]
        ready = [worker for worker in workers if worker["state"] == "ready"]
        return len(workers) == len(ready) == 3 and len({worker["generation"] for worker in ready}) == 1

    server.until(settled, patience=60)
    server.until(lambda: answers(server))

    # The processes are those that are told of, and a template process: nobody was forgotten.
    # A reload that was asked for in the storm may begin only now, and replace them.
    def untold() -> set[int]:
        return set(children(server.pid)) - {worker["pid"] for worker in server.status()["workers"]}

    server.until(lambda: len(untold()) <= (preload == "--preload"))
    assert server.stop() == 0
    assert server.process.returncode == 0


def done(answer: tuple[int, str]) -> tuple[int, str] | None:
    """An order's answer, once the server is there to give it: an upgrade takes a moment."""
    return answer if answer[0] == 0 else None


def test_a_preloaded_worker_that_dies_at_birth_is_replaced(serve: Serve) -> None:
    program = (PYTHON, str(HERE / "apps/dies_at_birth.py"))
    server = serve("dies_at_birth:application", "--preload", program=program)
    assert server.order("workers", "2")[0] == 0

    def ready() -> list[int]:
        return [worker["worker"] for worker in server.status()["workers"] if worker["state"] == "ready"]

    server.until(lambda: ready() == [1, 3])
    assert "worker 2 was ended by signal 9" in server.log()


def test_nobody_is_left_behind_when_everything_is_killed_at_once(serve: Serve, shop: Shop) -> None:
    server = serve("shop", "--workers", "3", "--preload", cwd=shop())
    # The process between the template and a worker ends in its own time.
    below = server.until(lambda: len(found := children(server.pid)) == 4 and found)
    for pid in (server.pid, *below[:2]):
        os.kill(pid, signal.SIGKILL)
    server.until(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() and running(pid) for pid in below), patience=5)


def running(pid: int) -> bool:
    """It exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_crash_loop_ends_when_its_cause_does(serve: Serve, shop: Shop, tmp_path: Path) -> None:
    extra = "if os.path.exists('poison'): os.kill(os.getpid(), 9)"
    server = serve("shop", cwd=shop(extra=extra))
    (tmp_path / "poison").touch()
    os.kill(server.workers[0], signal.SIGKILL)
    server.until(lambda: "in a row have died soon after their start" in server.log())
    (tmp_path / "poison").unlink()
    server.until(lambda: answers(server))


def test_a_full_disk_for_the_error_log_stops_nothing(shop: Shop) -> None:
    command = [sys.executable, "-m", "forehand", "shop", "--bind", "127.0.0.1:0", "--log-file", "/dev/full"]
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [*command, "--ready-fd", str(writer)], cwd=shop(), pass_fds=[writer], stderr=subprocess.DEVNULL
    )
    os.close(writer)
    try:
        with os.fdopen(reader) as ready:
            assert "listeners" in ready.readline()
        process.send_signal(signal.SIGHUP)
        process.terminate()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
