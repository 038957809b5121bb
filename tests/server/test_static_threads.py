"""Which thread asks the disk for files of `--static`: one of those that are for it, never the one that has the loop.

Every system call about the folder is looked at, as strace shows them. Whoever has the loop asks only what the kernel
answers from memory or not at all.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from h2client import Client
from serving import PATIENCE, Serving
from staticfiles import DRIVERS, LARGE, THEN, ask, forget, put, replace

Serve = Callable[..., Serving]

#: What the kernel answers from memory: names that it knows, what is known of an open file, pages that it has.
AT_ONCE = re.compile(
    r"openat2\(.*\bRESOLVE_CACHED\b"
    r"|statx\(\d+<[^>]*>, \"\", [A-Z_|]*AT_EMPTY_PATH"
    r"|(fstat|close)\(\d+<"
    r"|newfstatat\(\d+<[^>]*>, \"\", .*AT_EMPTY_PATH"
    r"|preadv2\(.*\bRWF_NOWAIT\)"
    r"|cachestat\("
    # Asked for what such reads have shown to be there.
    r"|sendfile\("
)

#: A question whether bytes are in memory, bytes that a thread for the disk has read, and bytes that were sent.
ASKED = re.compile(r"preadv2\(.*, (\d+), RWF_NOWAIT\) += (\d+)$")
READ = re.compile(r"pread64\(.*, (\d+)\) += (\d+)$")
SENT = re.compile(r"sendfile\(.*, \[(\d+)\] +=> \[\d+\], \d+\) += (\d+)$")
PAGE_BYTES = os.sysconf("SC_PAGESIZE")


class Watched:
    """The system calls of a server about a folder, by the names of its threads."""

    def __init__(self, server: Serving, folder: Path, log: Path) -> None:
        self.folder, self.log = folder, log
        pid = server.workers[0] if server.workers else server.pid
        calls = "trace=%file,%desc"
        command = ["strace", "-f", "--decode-pids=comm", "-y", "-qq", "-o", str(log), "-e", calls, "-p", str(pid)]
        self.tracer = subprocess.Popen(command, stderr=subprocess.PIPE)

        def attached() -> bool:
            tasks = list(Path(f"/proc/{pid}/task").iterdir())
            return self.tracer.poll() is not None or all(
                "TracerPid:\t0" not in (task / "status").read_text() for task in tasks
            )

        server.until(attached)
        if self.tracer.poll() is not None:
            assert self.tracer.stderr
            pytest.skip(f"strace cannot look at another process here: {self.tracer.stderr.read().decode().strip()}")

    def calls(self) -> list[tuple[str, str]]:
        """Names of threads and what they have called."""
        if self.tracer.poll() is None:
            self.tracer.send_signal(signal.SIGINT)
        self.tracer.communicate(timeout=PATIENCE)
        return self.seen()

    def seen(self) -> list[tuple[str, str]]:
        """The same, of what strace has written by now."""
        begun: dict[str, str] = {}
        found = []
        for line in self.log.read_text(errors="replace").splitlines():
            thread, _, call = line.partition("> ")
            if call.endswith("<unfinished ...>"):
                begun[thread] = call.removesuffix("<unfinished ...>")
                continue
            if call.startswith("<... "):
                call = begun.pop(thread, "") + call.partition(" resumed>")[2]
            if str(self.folder) in call:
                found.append((thread.partition("<")[2], call))
        return found


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
@pytest.mark.parametrize("driver", DRIVERS)
def test_only_threads_for_the_disk_wait_for_it(serve: Serve, tmp_path: Path, driver: str) -> None:
    folder = tmp_path / "files"
    fresh = [f"fresh{number}.txt" for number in range(4)]
    for name in fresh:
        put(folder / name, name.encode())
    for name in ("cold.txt", "cold.bin", "page/index.html"):
        put(folder / name, LARGE if name == "cold.bin" else b"cold")
        forget(folder / name)
    options = ("--static", f"/s={folder};index=index.html", "--static-recheck", "20ms")
    server = serve(*DRIVERS[driver], *options)
    watched = Watched(server, folder, tmp_path / "calls")
    for name in (*fresh, *fresh):
        assert ask(server, f"/s/{name}")[2] == name.encode()
    assert ask(server, "/s/cold.txt")[2] == b"cold"
    assert ask(server, "/s/cold.bin")[2] == LARGE
    forget(folder / "cold.bin")
    assert ask(server, "/s/cold.bin", "Range: bytes=500000-")[2] == LARGE[500_000:]
    assert ask(server, "/s/page/")[2] == b"cold"
    assert [ask(server, f"/s/{path}")[0] for path in ("none", "page", "none/at/all")] == [404, 301, 404]
    replace(folder / fresh[0], b"another", THEN + 60)
    server.until(lambda: ask(server, f"/s/{fresh[0]}")[2] == b"another")
    calls = watched.calls()
    others = [call for thread, call in calls if thread != "forehand-disk"]
    assert [call for call in others if not AT_ONCE.match(call)] == []
    assert any("RESOLVE_CACHED" in call for call in others), "whoever has the loop looks first"
    for name in (*fresh, "cold.txt", "cold.bin", "page/index.html"):
        waited = [call for thread, call in calls if thread == "forehand-disk" and f'"{name}"' in call]
        # That it has no compressed forms is nothing that the kernel knows of a name which nobody has asked for.
        assert any(call.startswith("openat2(") for call in waited), f"the first request for {name} waits for the disk"


def pages(found: re.Match[str]) -> set[int]:
    """Which pages of a file a call was about."""
    offset, count = map(int, found.groups())
    return set(range(offset // PAGE_BYTES, -(-(offset + count) // PAGE_BYTES)))


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
@pytest.mark.parametrize("driver", DRIVERS)
def test_of_each_page_is_known_that_it_is_in_memory_when_it_is_sent(serve: Serve, tmp_path: Path, driver: str) -> None:
    folder = tmp_path / "files"
    put(folder / "a.bin", LARGE)
    server = serve(*DRIVERS[driver], "--static", f"/s={folder}")
    watched = Watched(server, folder, tmp_path / "calls")
    for line in ("A: b", "Range: bytes=5000-", "A: b"):
        assert ask(server, "/s/a.bin", line)[2] in (LARGE, LARGE[5000:])
        forget(folder / "a.bin")
    # A client has what a call sends before that call has returned.
    whole = 3 * len(LARGE) - 5000
    server.until(lambda: sum(int(found[2]) for _, call in watched.seen() if (found := SENT.match(call))) >= whole)
    known: set[int] = set()
    sent = 0
    for thread, call in watched.calls():
        if (found := ASKED.match(call)) or (thread == "forehand-disk" and (found := READ.match(call))):
            known |= pages(found)
        elif found := SENT.match(call):
            assert pages(found) <= known, f"{call}: nobody knew of {sorted(pages(found) - known)}"
            # The kernel may drop what it has at any time.
            known.clear()
            sent += int(found[2])
    assert sent == whole


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
@pytest.mark.parametrize("driver", DRIVERS)
def test_only_threads_for_the_disk_wait_for_what_is_sent_on_streams(serve: Serve, tmp_path: Path, driver: str) -> None:
    folder, names = tmp_path / "files", ("cold.bin", "other.bin")
    for name in names:
        put(folder / name, LARGE)
    server = serve(*DRIVERS[driver], "--static", f"/s={folder}")
    watched = Watched(server, folder, tmp_path / "calls")

    def waited(name: str) -> bool:
        return any(thread == "forehand-disk" and "pread64(" in call and name in call for thread, call in watched.seen())

    # The kernel begins to read what it is asked for without waiting, and has it at once if whoever asks is interrupted.
    for _ in range(10):
        for name in names:
            forget(folder / name)
        with Client(server.port, window=2**24) as client:
            # The second one is not held up by the first, of which nothing may come at first.
            client.machine.increment_flow_control_window(2**20)
            streams = [client.ask(f"/s/{name}") for name in names]
            client.flush()
            assert set(client.replies(streams).values()) == {LARGE}
        if all(map(waited, names)):
            break
    others = [call for thread, call in watched.calls() if thread != "forehand-disk"]
    assert [call for call in others if not AT_ONCE.match(call)] == []
    for name in names:
        assert any("preadv2(" in call and name in call for call in others), "what is there is read by whoever frames it"
        assert waited(name)
