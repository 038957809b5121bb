"""The process that answers `--status-bind`: a small program of its own, and what answers where it was not built."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from forehand.supervisor import panel
from serving import Serving
from shared import Watched, descriptors, process, woken

Serve = Callable[..., Serving]
#: What it may take, in KiB: its own pages, and its share of those that it has with others (proc(5), Pss).
MOST_KIB = 3 * 1024
built = pytest.mark.skipif(not any(map(os.path.exists, panel.PROGRAMS)), reason="make build builds forehand-status")


@built
def test_it_takes_three_mebibytes_at_most(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "2")
    for _ in range(3):
        assert {watched.ask(path)[0] for path in ("/metrics", "/", "/status.json", "/livez?verbose")} == {200}
    pid, _ = process(watched.server)
    told = Path(f"/proc/{pid}/smaps_rollup").read_text()
    kib = next(int(line.split()[1]) for line in told.splitlines() if line.startswith("Pss:"))
    assert kib <= MOST_KIB, Path(f"/proc/{pid}/smaps").read_text()


@built
def test_a_scrape_wakes_it_a_few_times_and_then_nobody_goes_on_looking(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1")
    pid, _ = process(watched.server)

    def asleep() -> bool:
        before = woken(pid)
        time.sleep(0.1)
        return woken(pid) == before

    watched.server.until(asleep)
    counts = []
    for _ in range(10):
        before = woken(pid)
        assert watched.ask("/metrics")[0] == 200
        watched.server.until(asleep)
        counts.append(woken(pid) - before)
    # A connection, a request, the watchdog's looks at it, its end.
    assert sorted(counts)[len(counts) // 2] <= 16, counts


@built
def test_it_has_no_interpreter_and_nothing_that_is_not_its_own(serve: Serve, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a long secret\n")
    watched = Watched(serve, tmp_path, "--workers", "1", "--status-token-file", str(token))
    assert watched.ask("/livez")[0] == 200
    pid, words = process(watched.server)
    assert "python" not in Path(f"/proc/{pid}/maps").read_text()
    assert Path(f"/proc/{pid}/comm").read_text() == "forehand-status\n"
    assert words[0] == "forehand: phases:application, status" and "secret" not in "".join(words)
    assert b"secret" not in Path(f"/proc/{pid}/environ").read_bytes()

    def sockets() -> int:
        return sum("socket:" in link for _, link in descriptors(pid))

    # Its listener, once the connection that has asked is gone, and none of the server's.
    watched.server.until(lambda: sockets() == 1)


def text(place: Path) -> None:
    place.write_text("no program\n")


def other(place: Path) -> None:
    shutil.copy2(str(shutil.which("false")), place)


#: What stands where the program is looked for, and what the log says of it.
INSTEAD: dict[str, tuple[Callable[[Path], None], str]] = {
    "nothing": (lambda place: None, "forehand-status was not built with the module"),
    "no program": (text, "bin/forehand-status cannot be run: Permission denied"),
    "one that ends": (other, "forehand-status has ended with status 1"),
}


@pytest.mark.parametrize("instead", INSTEAD)
def test_where_the_program_cannot_be_begun_a_forked_process_answers(serve: Serve, tmp_path: Path, instead: str) -> None:
    put, said = INSTEAD[instead]
    shutil.copytree(
        panel.PACKAGE, tmp_path / "forehand", symlinks=True, copy_function=os.symlink,
        ignore=shutil.ignore_patterns("__pycache__", "bin"),
    )  # fmt: skip
    (tmp_path / "forehand/bin").mkdir()
    put(tmp_path / "forehand/bin/forehand-status")
    watched = Watched(serve, tmp_path, "--workers", "1", env={"PYTHONPATH": str(tmp_path)})
    assert [watched.ask(page)[0] for page in ("/livez", "/metrics", "/readyz")] == [200, 200, 200]
    pid, _ = process(watched.server)
    assert "python" in Path(f"/proc/{pid}/maps").read_text()
    watched.server.says(f"{said}; a process forked off the supervisor answers")


@pytest.mark.parametrize(
    "sent", [b"GET /livez HT", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100], ids=["heads", "replies"]
)
def test_who_says_or_reads_little_by_little_keeps_nobody_out(serve: Serve, tmp_path: Path, sent: bytes) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1")
    with ExitStack() as crowd:
        # Many times as many as there is room for: to wait until each of them runs out of time would take too long.
        for _ in range(400):
            sock = crowd.enter_context(socket.socket(socket.AF_UNIX))
            sock.connect(watched.path)
            sock.setblocking(False)
            with suppress(BlockingIOError):
                sock.send(sent)
        assert watched.ask("/livez")[0] == 200
