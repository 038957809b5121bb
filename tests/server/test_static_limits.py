"""What files of `--static` may hold in a worker: each bound below, at and above itself, counted by the server."""

from __future__ import annotations

import contextlib
import http.client
import mmap
import os
import select
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forehand
import pytest
from serving import PATIENCE, read_reply
from staticfiles import drop, forget, pages_in_memory, put

#: What is known of a file counts as so much beside its bytes (crates/server/src/files/shelf.rs).
PAGE = 512


def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("404 Not Found", [])
    return []


class Counted:
    """A server in this process whose counters can be read."""

    def __init__(self, folder: Path, **limits: int):
        # What is known is believed for longer than a test takes, so that nothing is looked at twice.
        options: Any = {"static": f"/s={folder}", "static_recheck": 600, **limits}
        self.server = forehand.Server(application, **options).start()
        self.client = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)

    def get(self, path: str) -> bytes:
        self.client.request("GET", f"/s/{path}")
        reply = self.client.getresponse()
        assert reply.status == 200
        return reply.read()

    def count(self, name: str) -> int:
        life: Any = self.server._life
        return int(life.server.counters()[name])

    def descriptors(self, folder: Path) -> int:
        """How many of the folder's files are open."""
        names = []
        for entry in Path("/proc/self/fd").iterdir():
            try:
                names.append(os.readlink(entry))
            except OSError:
                continue  # closed meanwhile
        return sum(name.startswith(f"{folder}/") for name in names)


@pytest.fixture
def started() -> Iterator[list[Counted]]:
    """Servers that are ended with the test."""
    all_of_them: list[Counted] = []
    yield all_of_them
    for counted in all_of_them:
        counted.client.close()
        counted.server.stop()


@pytest.mark.parametrize(("limit", "large"), [(999, 3), (1000, 0), (1001, 0)])
def test_files_up_to_a_size_are_sent_from_memory(
    tmp_path: Path, started: list[Counted], limit: int, large: int
) -> None:
    put(tmp_path / "a", b"x" * 1000)
    counted = Counted(tmp_path, limit_static_file_bytes=limit)
    started.append(counted)
    for _ in range(3):
        assert counted.get("a") == b"x" * 1000
    assert (counted.count("static_replies"), counted.count("static_large_replies")) == (3, large)
    assert counted.descriptors(tmp_path) == (1 if large else 0)


@pytest.mark.parametrize(
    ("limit", "evicted"), [(2 * (1000 + PAGE) - 1, 1), (2 * (1000 + PAGE), 0), (2 * (1000 + PAGE) + 1, 0)]
)
def test_files_in_memory_make_room_for_one_another(
    tmp_path: Path, started: list[Counted], limit: int, evicted: int
) -> None:
    for name in "ab":
        put(tmp_path / name, name.encode() * 1000)
    counted = Counted(tmp_path, limit_static_memory_bytes=limit)
    started.append(counted)
    for name in "ab":
        assert counted.get(name) == name.encode() * 1000
    assert counted.count("static_evicted") == evicted
    assert counted.count("static_large_replies") == 0


def test_what_does_not_fit_at_all_is_sent_from_its_file(tmp_path: Path, started: list[Counted]) -> None:
    put(tmp_path / "a", b"a" * 1000)
    counted = Counted(tmp_path, limit_static_memory_bytes=1000)
    started.append(counted)
    for _ in range(2):
        assert counted.get("a") == b"a" * 1000
    assert counted.count("static_large_replies") == 2


@pytest.mark.parametrize(("files", "closed"), [(3, 0), (4, 0), (5, 1)])
def test_so_many_files_stay_open(tmp_path: Path, started: list[Counted], files: int, closed: int) -> None:
    counted = Counted(tmp_path, limit_static_descriptors=4, limit_static_file_bytes=10)
    started.append(counted)
    for number in range(files):
        put(tmp_path / str(number), b"%d" % number * 11)
        assert counted.get(str(number)) == b"%d" % number * 11
    assert counted.count("static_descriptors_closed") == closed
    assert counted.descriptors(tmp_path) == files - closed


def test_a_file_is_compared_with_the_disk_once_in_a_while(tmp_path: Path, started: list[Counted]) -> None:
    put(tmp_path / "a", b"a")
    for recheck, looks in [(600, 0), (0, 9)]:
        counted = Counted(tmp_path, static_recheck=recheck)
        started.append(counted)
        for _ in range(10):
            counted.get("a")
        assert counted.count("static_rechecks") == looks


def disk_threads() -> int:
    """How many threads of this process are for the disk."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        try:
            names.append((task / "comm").read_text().strip())
        except OSError:
            continue  # ended meanwhile
    return names.count("forehand-disk")


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_so_many_threads_wait_for_the_disk(tmp_path: Path, started: list[Counted], threads: int) -> None:
    end = time.monotonic() + PATIENCE
    while disk_threads() > 0:
        assert time.monotonic() < end, "the threads of the servers before end with them"
        time.sleep(0.01)
    counted = Counted(tmp_path, limit_disk_threads=threads)
    started.append(counted)
    for number in range(30):
        put(tmp_path / str(number), b"%d" % number)
    # Names that nobody has looked for: the kernel cannot say that there are no compressed forms of these files.
    ask_at_once(counted, range(30))
    assert 1 <= disk_threads() <= threads
    assert counted.count("cold_reads") > 0


def ask_at_once(counted: Counted, names: range) -> None:
    """Asks for files that hold their names, each over a connection of its own."""
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(socket.create_connection(("127.0.0.1", counted.server.port))) for _ in names]
        for number, sock in zip(names, crowd, strict=True):
            sock.sendall(b"GET /s/%d HTTP/1.1\r\nHost: a\r\n\r\n" % number)
        for number, sock in zip(names, crowd, strict=True):
            assert read_reply(sock, bytearray())[2] == b"%d" % number


@pytest.mark.parametrize(("threads", "waits"), [(1, True), (30, False)])
def test_what_waits_for_a_thread_of_the_disk_is_counted(
    tmp_path: Path, started: list[Counted], threads: int, waits: bool
) -> None:
    counted = Counted(tmp_path, limit_disk_threads=threads)
    started.append(counted)
    end = time.monotonic() + PATIENCE
    for first in range(0, 3000, 30):
        names = range(first, first + 30)
        for number in names:
            put(tmp_path / str(number), b"%d" % number)
        ask_at_once(counted, names)
        if counted.count("disk_waits") or not waits:
            break
        assert time.monotonic() < end, "30 files at once, and one thread has always been free"
    assert bool(counted.count("disk_waits")) == waits


def test_what_the_kernel_does_not_have_is_read_by_other_threads(tmp_path: Path, started: list[Counted]) -> None:
    size = 3_000_000
    put(tmp_path / "a", b"a" * size)
    counted = Counted(tmp_path)
    started.append(counted)
    counted.get("a")
    before = counted.count("cold_reads")
    forget(tmp_path / "a")
    assert counted.get("a") == b"a" * size
    assert counted.count("cold_reads") > before


def test_what_the_kernel_drops_while_its_reader_waits_is_read_again(tmp_path: Path, started: list[Counted]) -> None:
    # As much as is read at a time.
    content = os.urandom(1 << 20)
    put(tmp_path / "a", content)
    counted = Counted(tmp_path)
    started.append(counted)
    # Where somebody holds most of it at that moment, it is dropped anew.
    for _ in range(8):
        kept, again = kept_and_read_again(counted, tmp_path / "a", content)
        if kept < len(content) // 2:
            assert again, "most of it was dropped, and nobody has read it"
            return
    pytest.fail("the kernel has kept it each time")


def kept_and_read_again(counted: Counted, path: Path, content: bytes) -> tuple[int, bool]:
    """A reply is whole whose file is dropped while its client is slow: bytes that the kernel has kept, and whether the
    file was read once more."""
    with socket.socket() as slow:
        slow.settimeout(PATIENCE)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", counted.server.port))
        slow.sendall(b"HEAD /s/a HTTP/1.1\r\nHost: a\r\n\r\n")
        assert read_reply(slow, bytearray(), head=True)[0] == 200
        with other_end(slow) as server:
            # What is on its way stays in memory: that is little.
            server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
            before = counted.count("cold_reads")
            forget(path)
            slow.sendall(b"GET /s/a HTTP/1.1\r\nHost: a\r\n\r\n")
            got = bytearray()
            # The head is there before any of the file is.
            while not got.partition(b"\r\n\r\n")[2]:
                got += slow.recv(1000)
            # A call that sends reads what is dropped under it: none is under way where there is no room.
            wait_until_full(server)
        drop(path)
        kept = pages_in_memory(path) * mmap.PAGESIZE
        reply = read_reply(slow, got)
    assert reply[2] == content
    return kept, counted.count("cold_reads") > before + 1


def wait_until_full(sock: socket.socket) -> None:
    """A socket has no room, and has had none for as long as a peer may take to say that it has received something."""
    end, full_since = time.monotonic() + PATIENCE, time.monotonic()
    while time.monotonic() - full_since < 0.05:
        if select.select([], [sock], [], 0)[1]:
            full_since = time.monotonic()
        assert time.monotonic() < end, "there is room for more, and nobody sends it"
        time.sleep(0.002)


def other_end(client: socket.socket) -> socket.socket:
    """The socket by which this process, which is the server, has accepted a client."""
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if not os.readlink(entry).startswith("socket:"):
                continue
            sock = socket.socket(fileno=os.dup(int(entry.name)))
        except OSError:
            continue  # closed meanwhile
        with contextlib.suppress(OSError):
            if sock.getpeername() == client.getsockname():
                return sock
        sock.close()
    raise AssertionError("nobody has accepted it")
