"""Bodies that are too large for memory go to files, and nobody waits for the disk; all together have bounds."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from drivers import DRIVERS, connections, spool_files
from serving import PATIENCE, Serving, read_all, read_reply

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
KEPT = ("--limit-body-memory-bytes", "64K", "--workers", "0")


@pytest.fixture
def spooling(serve: Callable[..., Serving]) -> Callable[..., Serving]:
    """A server whose engine receives bodies: `spooling(*options)`."""
    return lambda *options: serve(*DRIVERS["threads"], *KEPT, *options)


def head(length: int) -> bytes:
    return b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % length


def upload(server: Serving, length: int) -> tuple[int, bytes]:
    """Upload so much at once: status and content of the reply."""
    with server.connect() as sock:
        try:
            sock.sendall(head(length) + bytes(length))
        except OSError:
            pass  # refused by now; the reply says why
        status, _, body = read_reply(sock, bytearray())
        return status, body


def begun(server: Serving, length: int, sent: int) -> socket.socket:
    """An upload of which so much is sent."""
    sock = server.connect()
    sock.sendall(head(length) + bytes(sent))
    return sock


@pytest.mark.parametrize("length", [64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1, 5_000_000])
def test_a_body_arrives_whole_wherever_it_was_kept(serve: Callable[..., Serving], length: int) -> None:
    server = serve("behaviours", *KEPT)
    data = os.urandom(length)
    with server.connect() as sock:
        # Cut where neither reads nor pieces of the file are.
        sock.sendall(b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % length)
        for at in range(0, length, 100_003):
            sock.sendall(data[at : at + 100_003])
        # The next request of the pipeline is not lost behind the file.
        sock.sendall(GET.replace(b"/", b"/hello", 1))
        buffer = bytearray()
        assert hashlib.sha256(data).hexdigest().encode() in read_reply(sock, buffer)[2]
        assert read_reply(sock, buffer)[2] == b"hello"


@pytest.mark.parametrize("sizes", [[-1], [None], [1], [100_000, -1], [1, 3_000_000, 5], [2_999_999, -1]])
def test_a_file_can_be_read_in_parts_of_any_size(serve: Callable[..., Serving], sizes: list[int | None]) -> None:
    server = serve("uploads:reads", "--interface", "wsgi", *KEPT)
    data = os.urandom(3_000_000) if sizes != [1] else os.urandom(70_000)
    said = ",".join("" if size is None else str(size) for size in sizes)
    with server.connect() as sock:
        sock.sendall(b"POST /?%s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (said.encode(), len(data)))
        sock.sendall(data)
        assert read_reply(sock, bytearray())[2].decode() == hashlib.sha256(data).hexdigest()


def test_a_large_file_is_read_without_the_interpreter(serve: Callable[..., Serving]) -> None:
    server = serve("uploads:ticks", "--interface", "wsgi", *KEPT)
    length, turns = upload(server, 150_000_000)[1].split()
    assert length == b"150000000" and int(turns) >= 3


def written(pid: int) -> int:
    """How often a process has called write(2) and its like."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["syscw"])


def test_tiny_chunks_are_not_written_one_by_one(spooling: Callable[..., Serving]) -> None:
    server = spooling()
    before = written(server.pid)
    with server.connect() as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(50):
            sock.sendall(b"1\r\na\r\n" * 10_000)
        sock.sendall(b"0\r\n\r\n")
        assert read_reply(sock, bytearray())[2] == b"500000"
    # Pieces of a quarter of a megabyte, and what wakes the loop.
    assert written(server.pid) - before < 40


@pytest.fixture
def slow_disk(spooling: Callable[..., Serving]) -> Iterator[Serving]:
    """A server whose write(2) takes 100 ms, on the thread that writes bodies."""
    server = spooling("--limit-body-bytes", "100M")
    upload(server, 100_000)
    tasks = [task for task in Path(f"/proc/{server.pid}/task").iterdir() if "spool" in (task / "comm").read_text()]
    assert len(tasks) == 1
    options = ["-qq", "-o", os.devnull, "-e", "trace=write", "-e", "inject=write:delay_enter=100000"]
    tracer = subprocess.Popen(["strace", *options, "-p", tasks[0].name], stderr=subprocess.DEVNULL)
    server.until(lambda: "TracerPid:\t0" not in (tasks[0] / "status").read_text())
    yield server
    tracer.send_signal(signal.SIGINT)
    tracer.wait(PATIENCE)


@pytest.mark.skipif(subprocess.run(["which", "strace"], capture_output=True).returncode != 0, reason="needs strace")
def test_nobody_waits_for_the_disk_but_whose_body_goes_to_it(slow_disk: Serving) -> None:
    uploads = [threading.Thread(target=upload, args=(slow_disk, 1_000_000)) for _ in range(3)]
    for thread in uploads:
        thread.start()
    answered = 0
    with slow_disk.connect() as sock:
        while any(thread.is_alive() for thread in uploads):
            sock.sendall(GET)
            assert read_reply(sock, bytearray())[2] == b"0"
            answered += 1
            time.sleep(0.01)
    # The uploads write some fifteen times, one after the other.
    assert answered > 30


def test_the_thread_that_writes_begins_with_the_first_body_and_files_go(spooling: Callable[..., Serving]) -> None:
    server = spooling()
    before = spool_files(server.pid), connections(server.pid)
    assert upload(server, 1000) == (200, b"1000")
    names = [(task / "comm").read_text() for task in Path(f"/proc/{server.pid}/task").iterdir()]
    assert not any("spool" in name for name in names)
    for _ in range(5):
        assert upload(server, 3_000_000) == (200, b"3000000")
    server.until(lambda: (spool_files(server.pid), connections(server.pid)) == before)
    assert server.stop() == 0


@pytest.mark.parametrize(("total", "status"), [(1_000_001, 200), (1_000_000, 200), (999_999, 507)])
@pytest.mark.parametrize("chunked", [True, False], ids=["chunked", "length"])
def test_files_have_a_bound(spooling: Callable[..., Serving], total: int, status: int, chunked: bool) -> None:
    server = spooling("--limit-bodies-disk-bytes", str(total))
    before = spool_files(server.pid)
    if chunked:
        with server.connect() as sock:
            sock.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            sock.sendall(b"f4240\r\n" + bytes(1_000_000) + b"\r\n0\r\n\r\n")
            assert read_reply(sock, bytearray())[0] == status
    else:
        assert upload(server, 1_000_000)[0] == status
    server.until(lambda: spool_files(server.pid) == before)


def test_all_files_together_have_a_bound(spooling: Callable[..., Serving]) -> None:
    server = spooling("--limit-bodies-disk-bytes", "1000000")
    before = spool_files(server.pid)
    with begun(server, 600_000, 100_000) as first:
        # It has more than stays in memory there.
        server.until(lambda: spool_files(server.pid) == before + 1)
        assert upload(server, 950_000)[0] == 507
        first.sendall(bytes(500_000))
        assert read_reply(first, bytearray())[2] == b"600000"
    server.until(lambda: spool_files(server.pid) == before)
    assert upload(server, 950_000)[0] == 200


@pytest.mark.parametrize(("total", "status"), [(15_001, 200), (15_000, 200), (14_999, 503)])
def test_bodies_in_memory_have_a_bound(spooling: Callable[..., Serving], total: int, status: int) -> None:
    server = spooling("--limit-bodies-memory-bytes", str(total))
    with begun(server, 20_000, 15_000) as sock:
        if status == 200:
            # The other one waits until this one has been read, and not for its end.
            assert upload(server, 1000)[0] == 200
            sock.sendall(bytes(5000))
        assert read_reply(sock, bytearray())[0] == status


def test_the_bound_of_all_files_frees_itself(spooling: Callable[..., Serving]) -> None:
    server = spooling("--limit-bodies-disk-bytes", "1M")
    for _ in range(5):
        assert upload(server, 900_000) == (200, b"900000")
    status, text = upload(server, 1_200_000)
    assert (status, b"disk" in text) == (507, True)
    with server.connect() as sock:
        # Where the length says so, it is refused before any of it is sent.
        sock.sendall(head(1_200_000))
        assert read_all(sock).startswith(b"HTTP/1.1 507 ")
    assert upload(server, 900_000) == (200, b"900000")


def test_all_bodies_in_memory_have_a_bound_and_large_ones_go_to_files_before(serve: Callable[..., Serving]) -> None:
    options = ("--limit-body-memory-bytes", "300K", "--limit-bodies-memory-bytes", "512K", "--workers", "0")
    server = serve(*DRIVERS["threads"], *options)
    before = spool_files(server.pid)
    # Each has less than is worth a file; from half of the bound on, larger ones have one each.
    small = [begun(server, 100_000, 15_000) for _ in range(20)]
    large = []
    for count in range(1, 5):
        large.append(begun(server, 200_000, 100_000))
        server.until(lambda count=count: spool_files(server.pid) == before + count)
    for sock in large:
        sock.sendall(bytes(100_000))
        assert read_reply(sock, bytearray())[2] == b"200000"
        sock.close()
    # 20 hold 300,000 bytes; 34 would hold 510,000 of 524,288 and the next ones are refused.
    small += [begun(server, 100_000, 15_000) for _ in range(14)]
    assert upload(server, 1000) == (200, b"1000")
    refused = [begun(server, 100_000, 15_000) for _ in range(2)]
    reply = read_all(refused[1])
    assert reply.startswith(b"HTTP/1.1 503 ") and b"Retry-After" in reply
    for sock in (*small, *refused):
        sock.close()
    server.until(lambda: upload(server, 250_000)[0] == 200)
