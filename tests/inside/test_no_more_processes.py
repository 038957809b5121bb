"""A system that lets nobody start a process, or a thread, for a while: a limit that is reached, as containers have."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests
from serving import PATIENCE, PYTHON, Serving
from shared import Watched

Serve = Callable[..., Serving]
#: All of the server's interpreters begin with it.
FAILS = f"""
import os, posix


def failing(fork):
    def now():
        if os.path.exists({{path!r}}):
            raise BlockingIOError({errno.EAGAIN}, os.strerror({errno.EAGAIN}))
        return fork()

    return now


os.fork = posix.fork = failing(os.fork)
"""


def status_process(server: Serving) -> int:
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    found = (int(pid) for pid in children if b", status" in Path(f"/proc/{pid}/cmdline").read_bytes())
    return next(found, 0)


@pytest.mark.parametrize("preload", ["--preload", "--no-preload"])
def test_the_server_goes_on_and_starts_them_when_it_can(serve: Serve, tmp_path: Path, preload: str) -> None:
    none = tmp_path / "none"
    (tmp_path / "sitecustomize.py").write_text(FAILS.format(path=str(none)))
    env = {"PYTHONPATH": str(tmp_path)}
    watched = Watched(lambda *given: serve(*given, env=env), tmp_path, "--workers", "2", preload)
    server = watched.server
    assert watched.view("/quick") == 200
    none.touch()
    for order in ("reload", "upgrade"):
        status, said = server.order(order)
        assert status != 0 and "no process can be started" in said, said
    os.kill(status_process(server), signal.SIGKILL)
    server.says("no process can be started for --status-bind and --statsd-host: Resource temporarily unavailable")
    first = server.status()["workers"][0]["pid"]
    os.kill(first, signal.SIGKILL)
    server.says(
        "could not be started" if preload == "--no-preload" else "no process can be started: Resource temporarily"
    )
    assert requests.get(f"{server.url}/quick", timeout=20).status_code == 200
    none.unlink()
    server.until(lambda: sum(one["state"] == "ready" for one in server.status()["workers"]) == 2)
    server.until(lambda: server.order("reload")[0] == 0)
    server.until(lambda: status_process(server))
    server.until(lambda: watched.ask("/livez")[0] == 200)
    assert watched.view("/quick") == 200
    assert server.stop() == 0
    assert "Traceback" not in server.log(), server.log()


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group that counts processes and threads, below the one that the tests are in."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    places = {kind: place for _, kind, place in (line.split(":", 2) for line in lines)}
    kind = "pids" if "pids" in places else ""
    folder = Path("/sys/fs/cgroup") / kind / places.get(kind, "/").strip("/") / f"forehand-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        if not (folder / "pids.max").exists():
            pytest.skip("control groups do not count processes here")
        yield folder
    finally:
        end = time.monotonic() + PATIENCE
        while (folder / "cgroup.procs").read_text() and time.monotonic() < end:
            time.sleep(0.02)
        folder.rmdir()


def test_a_worker_without_more_threads_serves_with_those_it_has_and_says_so_once(group: Path, serve: Serve) -> None:
    inside = f"echo $$ > {group}/cgroup.procs"
    if subprocess.run(["sh", "-c", inside], capture_output=True, check=False).returncode:
        pytest.skip(f"no process can be put into {group}")
    program = ("sh", "-c", f'{inside} && exec "$0" "$@"', PYTHON, "-m", "forehand")
    server = serve("phases:application", "--workers", "1", "--threads", "6", program=program)
    statuses: list[int] = []

    def crowd() -> None:
        def ask() -> None:
            statuses.append(requests.get(f"{server.url}/sleep/0.3", timeout=PATIENCE).status_code)

        clients = [threading.Thread(target=ask) for _ in range(6)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()

    (group / "pids.max").write_text((group / "pids.current").read_text())
    crowd()
    assert statuses == [200] * 6
    assert server.status()["workers"][0]["threads"] == 6, "so many there may be"
    # The log's thread could not be started, either: its lines have waited.
    (group / "pids.max").write_text("max")
    server.until(lambda: (crowd(), "cannot start another thread: " in server.log())[1])
    assert set(statuses) == {200}
    assert server.log().count("cannot start another thread: ") == 1, server.log()
    assert "going on with 2" in server.log()
    assert server.stop() == 0
