"""Files and everybody else: slow readers, whoever keeps the interpreter, files that are not in memory."""

from __future__ import annotations

import os
import random
import select
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import PATIENCE, Serving, read_reply
from staticfiles import DRIVERS, LARGE, ask, put

BIG = random.Random(7).randbytes(1_000_000) * 10


@pytest.fixture(params=DRIVERS)
def server(request: pytest.FixtureRequest, serve: Callable[..., Serving], tmp_path: Path) -> Serving:
    """A server of a folder with small and large files."""
    put(tmp_path / "files/big.bin", BIG)
    put(tmp_path / "files/large.bin", LARGE)
    put(tmp_path / "files/small.txt", b"small")
    return serve(*DRIVERS[request.param], "--static", f"/s={tmp_path / 'files'}")


def resident(pid: int) -> int:
    """Bytes of memory that are a process's own."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Private_Dirty:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no such line")


def worker(server: Serving) -> int:
    return server.workers[0] if server.workers else server.pid


def slow(server: Serving, path: str) -> socket.socket:
    """Somebody with a small window who asks and does not read."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(PATIENCE)
    sock.connect(("127.0.0.1", server.port))
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    return sock


def test_slow_readers_of_a_large_file_cost_next_to_nothing(server: Serving) -> None:
    ask(server, "/s/big.bin")
    ask(server, "/2")
    before = resident(worker(server))
    readers = [slow(server, "/s/big.bin") for _ in range(200)]
    try:
        for sock in readers:
            assert sock.recv(1) == b"H"
        # Their connections and what is queued, and no file: 200 times ten megabytes.
        assert resident(worker(server)) - before < 2 << 20
        names = [os.readlink(entry) for entry in Path(f"/proc/{worker(server)}/fd").iterdir() if entry.exists()]
        assert sum(name.endswith("big.bin") for name in names) <= 1
        for _ in range(20):
            assert len(ask(server, "/2")[2]) == 2
            assert ask(server, "/s/small.txt")[2] == b"small"
        head, got = readers[0].recv(65536), b""
        got = head.partition(b"\r\n\r\n")[2]
        readers[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        while len(got) < len(BIG):
            got += readers[0].recv(1 << 20)
        assert got == BIG
    finally:
        for sock in readers:
            sock.close()


def queued(server: Serving, sock: socket.socket) -> int:
    """Bytes that the kernel holds for somebody at the server's side of a connection (proc(5), `tx_queue`)."""
    ends = (f":{server.port:04X}", f":{sock.getsockname()[1]:04X}")
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]):
            return int(fields[4].partition(":")[0], 16)
    raise AssertionError("no such connection")


def when_still(server: Serving, sock: socket.socket, at_least: int) -> int:
    """The same when it is so much and grows no more, though the server is done with somebody else's request."""
    before, now, end = -1, queued(server, sock), time.monotonic() + PATIENCE
    while now < at_least or now != before:
        assert time.monotonic() < end, f"the kernel takes {now} bytes and no more"
        assert len(ask(server, "/2")[2]) == 2
        before, now = now, queued(server, sock)
    return now


def test_the_kernel_takes_little_of_a_large_file_for_who_does_not_read_it(server: Serving) -> None:
    sock = slow(server, "/s/big.bin")
    # Less than twice what a visit sends; without a bound it is three megabytes.
    assert when_still(server, sock, 64 << 10) <= 2 * (256 << 10)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    assert read_reply(sock, bytearray())[2] == BIG
    # What the application sends on the same connection is taken as before, so that nobody waits with it.
    sock.sendall(b"GET /4000000 HTTP/1.1\r\nHost: a\r\n\r\n")
    assert when_still(server, sock, 1 << 20)
    sock.close()


def test_files_that_are_not_in_memory_are_sent_whole(server: Serving, tmp_path: Path) -> None:
    with server.connect() as sock:
        for _ in range(3):
            for name in ("small.txt", "large.bin", "big.bin"):
                file = os.open(tmp_path / "files" / name, os.O_RDONLY)
                os.fsync(file)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(file)
            assert ask(server, "/s/big.bin", sock=sock)[2] == BIG
            assert ask(server, "/s/large.bin", sock=sock)[2] == LARGE
            assert ask(server, "/s/large.bin", "Range: bytes=600000-", sock=sock)[2] == LARGE[600000:]
            assert ask(server, "/s/small.txt", sock=sock)[2] == b"small"


def test_who_takes_nothing_of_a_file_is_given_up(serve: Callable[..., Serving], tmp_path: Path) -> None:
    put(tmp_path / "big.bin", BIG)
    for driver in DRIVERS.values():
        server = serve(*driver, "--static", f"/s={tmp_path}", "--write-timeout", "1s")
        with slow(server, "/s/big.bin") as sock:
            readable = select.poll()
            readable.register(sock, select.POLLHUP | select.POLLERR)
            assert readable.poll(PATIENCE * 1000), "it is reset though nobody reads"
            with pytest.raises(ConnectionResetError):
                while sock.recv(1 << 20):
                    pass


KEEPS = """
import ctypes, time
hold = ctypes.PyDLL(None).usleep
def application(environ, start_response):
    if environ["PATH_INFO"] == "/hold":
        # As an extension does that calculates for long: nobody else has the interpreter meanwhile.
        hold(int(environ["QUERY_STRING"]))
    start_response("200 OK", [("Content-Length", "0")])
    return []
"""


def test_files_are_sent_while_somebody_keeps_the_interpreter(serve: Callable[..., Serving], tmp_path: Path) -> None:
    put(tmp_path / "files/small.txt", b"small")
    put(tmp_path / "files/large.bin", LARGE)
    (tmp_path / "keeps.py").write_text(KEEPS)
    server = serve("keeps:application", "--threads", "4", "--static", f"/s={tmp_path / 'files'}", cwd=tmp_path)
    ask(server, "/s/small.txt")
    done = threading.Event()

    def keep() -> None:
        ask(server, "/hold?3000000")
        done.set()

    thread = threading.Thread(target=keep)
    with server.connect() as sock:
        thread.start()
        served = 0
        while not done.is_set():
            assert ask(server, "/s/small.txt", sock=sock)[2] == b"small"
            assert ask(server, "/s/large.bin", sock=sock)[2] == LARGE
            served += 1
    thread.join()
    # One at the most is answered before and one after; with the interpreter there would be no other.
    assert served > 10, served


def test_a_crowd_that_asks_for_a_cold_file_at_once_is_answered_by_one_look(server: Serving, tmp_path: Path) -> None:
    file = os.open(tmp_path / "files/small.txt", os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)
    crowd = [server.connect() for _ in range(50)]
    for sock in crowd:
        sock.sendall(b"GET /s/small.txt HTTP/1.1\r\nHost: a\r\n\r\n")
    for sock in crowd:
        assert read_reply(sock, bytearray())[2] == b"small"
        sock.close()
