"""A worker that the kernel ends because memory is short: told apart from one that somebody has killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from forehand.supervisor import oom, statistics
from serving import PATIENCE, PYTHON, Serving

Serve = Callable[..., Serving]
MIB = 1 << 20
LITTLE = 150 * MIB
GET = "GET {} HTTP/1.1\r\nHost: a\r\n\r\n"
EVENTS = "low 0\nhigh 12\nmax 7\noom 3\noom_kill 2\noom_group_kill 9\n"
CONTROL = "oom_kill_disable 0\nunder_oom 1\noom_kill 5\n"


@pytest.mark.parametrize(
    ("text", "count"),
    [(EVENTS, 2), (CONTROL, 5), ("nr_free_pages 10\noom_kill 7\npgfault 9\n", 7), ("low 0\nhigh 0\n", None),
     ("oom_kill \n", None), ("oom_kill none\n", None), ("", None)],
)  # fmt: skip
def test_each_file_that_counts_kills_is_read(text: str, count: int | None) -> None:
    assert oom.kills(text) == count


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0::/system.slice/shop.service\n", ("/system.slice/shop.service", None)),
        ("9:name=systemd:/\n5:cpu,memory:/docker/4f\n0::/\n", ("/", "/docker/4f")),
        ("4:memoryless:/no\n", (None, None)),
        ("", (None, None)),
    ],
)
def test_a_process_s_groups_are_known_by_what_the_kernel_lists(text: str, found: tuple[str, str]) -> None:
    assert oom.groups(text) == found


def laid(root: Path, files: dict[str, str]) -> oom.OomKiller:
    """One that finds these files."""
    for name, text in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return oom.OomKiller(str(root))


SECOND = {"proc/self/cgroup": "0::/shop\n", "sys/fs/cgroup/shop/memory.events": "oom_kill 2\n"}
FIRST = {"proc/self/cgroup": "4:memory:/a/b\n0::/\n", "sys/fs/cgroup/memory/a/b/memory.oom_control": "oom_kill 2\n"}
#: A container without a name space for groups: the path is the host's, and the root that is mounted is its own.
INNER = {"proc/self/cgroup": "0::/docker/4f\n", "sys/fs/cgroup/memory.events": "oom_kill 2\n"}
MACHINE = {"proc/self/cgroup": "0::/\n", "proc/vmstat": "pgfault 1\noom_kill 2\n"}


@pytest.mark.parametrize("files", [SECOND, FIRST, INNER, MACHINE], ids=["v2", "v1", "container", "no group"])
def test_a_kill_that_was_counted_is_told_of_one_process(tmp_path: Path, files: dict[str, str]) -> None:
    killer = laid(tmp_path, files)
    file = list(files)[-1]
    assert killer.has_killed(0) is False, "those before it began are somebody else's"
    (tmp_path / file).write_text(files[file].replace("oom_kill 2", "oom_kill 4"))
    assert [killer.has_killed(1), killer.has_killed(1), killer.has_killed(1)] == [True, True, False]


def test_a_kill_that_nobody_has_died_of_is_forgotten(tmp_path: Path) -> None:
    killer = laid(tmp_path, SECOND)
    events = tmp_path / list(SECOND)[-1]
    events.write_text("oom_kill 3\n")
    assert killer.look(10)
    assert killer.has_killed(10 + oom.FORGOTTEN_AFTER) is True, "its process may take a while to end"
    events.write_text("oom_kill 4\n")
    assert killer.look(100)
    assert killer.has_killed(100 + oom.FORGOTTEN_AFTER + 1) is False


def test_where_nothing_is_counted_nobody_says(tmp_path: Path) -> None:
    assert laid(tmp_path, {}).has_killed(0) is None


def test_the_smallest_limit_of_all_groups_around_it_counts(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/pods/shop\n",
        "sys/fs/cgroup/pods/shop/memory.events": "oom_kill 0\n",
        "sys/fs/cgroup/pods/shop/memory.max": "max\n",
        "sys/fs/cgroup/pods/memory.events": "oom_kill 0\n",
        "sys/fs/cgroup/pods/memory.max": f"{300 * MIB}\n",
    }
    assert laid(tmp_path, files).allowed() == 300 * MIB
    assert oom.limit(["9223372036854771712\n", "max\n"]) == 0, "v1 says a number where there is no limit"


@pytest.mark.parametrize(
    ("killed", "words", "reason"),
    [
        (True, "was ended by the OOM killer (it has held up to 130 MiB, its control group may hold 64 MiB)", "oom"),
        (None, "was ended by signal 9 (SIGKILL) from somebody, maybe the OOM killer (it has held up to 130 MiB)",
         "signal:SIGKILL"),
        (False, "was ended by signal 9 (SIGKILL) from somebody, not the OOM killer", "signal:SIGKILL"),
    ],
)  # fmt: skip
def test_what_is_known_is_said_and_no_more(killed: bool | None, words: str, reason: str) -> None:
    said = oom.told(killed, 130 * 1024, 64 * MIB)
    assert said == words
    assert statistics.reason(said, "") == reason


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group with little memory, below the one that the tests are in."""
    killer = oom.OomKiller()
    if not killer.folder:
        pytest.skip("no control group that counts kills is seen here")
    folder = Path(killer.folder) / f"forehand-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        limits = [folder / name for name in ("memory.max", "memory.limit_in_bytes") if (folder / name).exists()]
        if not limits:
            pytest.skip("control groups have no memory of their own here")
        limits[0].write_text(str(LITTLE))
        yield folder
    finally:
        end = time.monotonic() + PATIENCE
        while (folder / "cgroup.procs").read_text() and time.monotonic() < end:
            time.sleep(0.02)
        folder.rmdir()


def enter(group: Path) -> tuple[str, ...]:
    """What runs a server in that group, or skips the test."""
    inside = f"echo $$ > {group}/cgroup.procs"
    if subprocess.run(["sh", "-c", inside], capture_output=True, check=False).returncode:
        pytest.skip(f"no process can be put into {group}")
    return ("sh", "-c", f'{inside} && exec "$0" "$@"', PYTHON, "-m", "forehand")


@pytest.mark.parametrize("preload", [(), ("--preload",)], ids=["", "preloaded"])
def test_a_worker_that_takes_too_much_memory_is_told_with_what_it_held_and_worked_on(
    group: Path, serve: Serve, preload: tuple[str, ...]
) -> None:
    server = serve("hungry:application", "--workers", "1", "--threads", "2", *preload, program=enter(group))
    with server.connect() as waits, server.connect() as eats:
        waits.sendall(GET.format("/wait").encode())
        server.until(lambda: server.status()["workers"][0]["busy"] == 1)
        eats.sendall(GET.format("/eat").encode())
        server.says("it is replaced at once")
    line = next(line for line in server.log().splitlines() if "while it worked on" in line)
    found = re.search(
        r"worker 1 \(process \d+\) was ended by the OOM killer \(it has held up to (\d+) MiB, its control group may "
        r"hold 150 MiB\) while it worked on: GET /wait for [\d.]+ m?s · GET /eat for [\d.]+ m?s",
        line,
    )
    assert found is not None, line
    assert 50 < int(found[1]) < 300, "what it shares with others is counted there, and not in the group"
    server.until(lambda: [one["state"] for one in server.status()["workers"]] == ["ready"])
    said = server.order("status")[1]
    assert "look at this:\n  - worker 1 (process" in said and "was ended by the OOM killer (it has held" in said, said


def test_one_that_somebody_has_killed_is_not_the_oom_killer_s(serve: Serve) -> None:
    server = serve("hungry:application", "--workers", "1", "--threads", "2")
    if oom.OomKiller().has_killed(0) is None:
        pytest.skip("this kernel does not count whom its OOM killer has ended")
    with server.connect() as waits:
        waits.sendall(GET.format("/wait").encode())
        server.until(lambda: server.status()["workers"][0]["busy"] == 1)
        os.kill(server.status()["workers"][0]["pid"], signal.SIGKILL)
        server.says("was ended by signal 9 (SIGKILL) from somebody, not the OOM killer while it worked on: GET /wait")
    said = server.order("status")[1]
    assert "was ended by signal 9 (SIGKILL) from somebody, not the OOM killer" in said, said
    assert "while it worked on GET /wait for " in said, said
    assert "while it worked on GET /wait for " in server.order("top", "--once", "--interval", "0.1")[1]


def test_one_that_this_server_has_killed_is_told_with_the_reason(serve: Serve) -> None:
    server = serve("hungry:application", "--workers", "1", "--threads", "2", "--graceful-timeout", "0.2")
    with server.connect() as waits:
        waits.sendall(GET.format("/wait").encode())
        server.until(lambda: server.status()["workers"][0]["busy"] == 1)
        # It hears nothing more.
        os.kill(server.status()["workers"][0]["pid"], signal.SIGSTOP)
        server.process.send_signal(signal.SIGHUP)
        found = server.until(lambda: server.status()["deaths"], 3 * PATIENCE)
    assert [one["how"] for one in found] == [
        "was killed: it had not ended 0.2 s after it was told to (--graceful-timeout)"
    ]
    assert found[0]["inside"][0].startswith("GET /wait for "), found
