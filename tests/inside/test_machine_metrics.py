"""What `/metrics` says of the machine: who waits to be accepted, and what the control group has and is kept from."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from serving import PATIENCE, PYTHON, Serving, read_reply
from shared import Samples, Watched

Serve = Callable[..., Serving]
REQUEST = b"GET /quick HTTP/1.1\r\nHost: a\r\n\r\n"
WAITING, LIMIT = "forehand_listen_backlog", "forehand_listen_backlog_limit"
OVERFLOWS = "forehand_listen_overflows_total"
STALLED = "forehand_pressure_stalled_seconds_total"
MOST = 300 << 20
#: Of each tenth of a second, in microseconds: less than who burns gets there, however many others do so as well.
QUOTA = 2_000
UNBOUNDED = {"cpu.cfs_quota_us": "-1", "cpu.max": "max"}


def by_label(samples: Samples, name: str, label: str = "address") -> dict[str, float]:
    return {dict(labels)[label]: value for (known, labels), value in samples.items() if known == name}


def stop(server: Serving) -> int:
    """The only worker stands still from now on; which it is."""
    pid: int = server.status()["workers"][0]["pid"]
    os.kill(pid, signal.SIGSTOP)
    server.until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("T"))
    return pid


def test_who_waits_for_a_stopped_worker_is_told_by_address_and_nobody_is_once_it_goes_on(
    serve: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "a b.sock"
    watched = Watched(
        serve, tmp_path, "--workers", "1", "--backlog", "9", "--bind", "127.0.0.1:0", "--bind", f"unix:{path}"
    )
    server = watched.server
    inet, unix = f"127.0.0.1:{server.port}", f"unix:{path}"
    assert by_label(watched.samples(), WAITING) == {inet: 0, unix: 0}
    assert by_label(watched.samples(), LIMIT) == {inet: 9, unix: 9}
    pid = stop(server)
    with ExitStack() as clients:
        clients.callback(os.kill, pid, signal.SIGCONT)
        waiting = [clients.enter_context(server.connect()) for _ in range(5)]
        for _ in range(3):
            waiting.append(clients.enter_context(socket.socket(socket.AF_UNIX)))
            waiting[-1].settimeout(PATIENCE)
            waiting[-1].connect(str(path))
        for client in waiting:
            client.sendall(REQUEST)
        # With --defer-accept one of TCP waits there once its request has come.
        server.until(lambda: by_label(watched.samples(), WAITING) == {inet: 5, unix: 3})
        os.kill(pid, signal.SIGCONT)
        assert {read_reply(client, bytearray())[0] for client in waiting} == {200}
        assert by_label(watched.samples(), WAITING) == {inet: 0, unix: 0}


def test_addresses_are_named_as_they_are_written_whatever_is_spoken_there(serve: Serve, tmp_path: Path) -> None:
    kinds = [f"fastcgi:unix:{tmp_path}/f.sock", "h2c://127.0.0.1:0", f"http://unix:{tmp_path}/p.sock?proxy=v2"]
    options = [word for kind in kinds for word in ("--bind", kind)]
    watched = Watched(serve, tmp_path, "--workers", "1", "--bind", "localhost:0", *options)
    urls = [url for url in watched.server.urls if "unix:" not in url]
    expected = {url.partition("://")[2] for url in urls} | {f"unix:{tmp_path}/{name}.sock" for name in "fp"}
    assert set(by_label(watched.samples(), WAITING)) == expected and len(expected) >= 4


def test_the_limit_is_no_more_than_what_the_system_grants(serve: Serve, tmp_path: Path) -> None:
    most = int(Path("/proc/sys/net/core/somaxconn").read_text())
    watched = Watched(serve, tmp_path, "--workers", "1", "--backlog", str(most + 1))
    assert list(by_label(watched.samples(), LIMIT).values()) == [most]


def test_who_finds_no_place_in_the_queue_is_counted(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", "--backlog", "1", "--no-defer-accept")
    server = watched.server
    before = watched.samples()[(OVERFLOWS, frozenset())]
    pid = stop(server)
    with ExitStack() as clients:
        clients.callback(os.kill, pid, signal.SIGCONT)
        for _ in range(4):
            client = clients.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex((server.host, server.port))
        server.until(lambda: watched.samples()[(OVERFLOWS, frozenset())] > before)
        found = watched.samples()
        assert f"{server.url}: 2 connections wait for a worker to accept" in server.order("status")[1]
        # One more than its limit.
        assert (list(by_label(found, WAITING).values()), list(by_label(found, LIMIT).values())) == ([2], [1])


def quota(groups: list[Path]) -> Path:
    """The file that says how long processes of these groups may run."""
    return next(group / file for group in groups for file in UNBOUNDED if (group / file).exists())


@pytest.fixture
def groups() -> Iterator[list[Path]]:
    """Control groups of this test's own that bound memory and may bound processors, in either version."""
    mount, name = Path("/sys/fs/cgroup"), f"forehand-test-{os.getpid()}"
    wanted = {mount / "memory" / name: "memory.limit_in_bytes", mount / "cpu" / name: ""}
    if (mount / "cgroup.controllers").exists():
        wanted = {mount / name: "memory.max"}
    made: list[Path] = []
    try:
        for folder, file in wanted.items():
            folder.mkdir()
            made.append(folder)
            if file:
                (folder / file).write_text(str(MOST))
        quota(made)
    except (OSError, StopIteration) as error:
        for folder in made:
            folder.rmdir()
        pytest.skip(f"no control group can be made here: {error}")
    yield made
    end = time.monotonic() + PATIENCE
    for folder in made:
        while (folder / "cgroup.procs").read_text() and time.monotonic() < end:
            time.sleep(0.02)
        folder.rmdir()


def test_what_the_control_group_may_have_is_told_and_what_it_was_kept_from(
    groups: list[Path], serve: Serve, tmp_path: Path
) -> None:
    inside = " && ".join(f"echo $$ > {group}/cgroup.procs" for group in groups)
    if subprocess.run(["sh", "-c", inside], capture_output=True, check=False).returncode:
        pytest.skip("no process can be put into a control group here")
    program = ("sh", "-c", f'{inside} && exec "$0" "$@"', PYTHON, "-m", "forehand")
    watched = Watched(serve, tmp_path, "--workers", "1", program=program)

    def told(name: str) -> float:
        return watched.samples()[(f"forehand_cgroup_{name}", frozenset())]

    assert told("memory_limit_bytes") == MOST
    assert 4 << 20 < told("memory_bytes") < MOST
    before = told("cpu_throttled_periods_total"), told("cpu_throttled_seconds_total")
    bound = quota(groups)
    bound.write_text(str(QUOTA))
    try:
        # It burns as long again if it was not kept from a processor, as the machine had none to give.
        watched.server.until(
            lambda: watched.view("/burn/0.02") == 200 and told("cpu_throttled_periods_total") > before[0]
        )
    finally:
        bound.write_text(UNBOUNDED[bound.name])
    assert 0 < told("cpu_throttled_seconds_total") - before[1] < 60


def test_how_long_processes_had_to_wait_is_told_in_seconds(serve: Serve, tmp_path: Path) -> None:
    if not Path("/proc/pressure/cpu").exists():
        pytest.skip("this kernel does not tell of pressure")
    watched = Watched(serve, tmp_path, "--workers", "1")
    found = {
        (dict(labels)["resource"], dict(labels)["kind"]): value
        for (name, labels), value in watched.samples().items()
        if name == STALLED
    }
    assert {("cpu", "some"), ("io", "some"), ("io", "full"), ("memory", "some"), ("memory", "full")} <= set(found)
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    assert all(0 <= value <= uptime for value in found.values()), found
