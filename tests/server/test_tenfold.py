"""Each bound of what clients can make the server hold, played at ten times its value.

Memory, disk, descriptors and work are looked at while the clients still hold on, and that all of it comes back.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from serving import HERE, PATIENCE, Serving, read_reply
from torment import looking
from torment.asked import Asked
from torment.pattern import content

MIB = 1024 * 1024
CONNECTIONS = 150
#: What the server's log, a file without a name as well, may grow by.
LOG_KIB = 64
#: Small, so that ten times as much is little for the machine and much beside what a process needs.
BOUNDS = (
    "--limit-connections", str(CONNECTIONS), "--limit-response-buffer-bytes", "64K", "--limit-kept-bytes", "4M",
    "--limit-bodies-memory-bytes", "2M", "--limit-bodies-disk-bytes", "4M", "--limit-body-bytes", "8M",
    "--limit-ws-queue-bytes", "64K", "--limit-ws-message-bytes", "1M", "--write-timeout", "3s",
    "--no-defer-accept", "--workers", "0",
)  # fmt: skip
DRIVERS = {
    "threads": ("tormented:application", "--threads", "4"),
    "gevent": ("tormented:application", "--worker-class", "gevent"),
    "asyncio": ("tormented_asgi:app", "--loop", "asyncio"),
}


@dataclass
class Host:
    """A server, and those who hold on to it."""

    server: Serving
    driver: str
    held: list[socket.socket]

    def send(self, data: bytes, *, deaf: bool = False) -> socket.socket:
        """Somebody who sends as much of it as is taken, and stays. `deaf`: with little room for replies."""
        sock = socket.socket()
        if deaf:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(1)
        sock.connect(("127.0.0.1", self.server.port))
        self.held.append(sock)
        try:
            sock.sendall(data)
        except OSError:
            pass  # no more is taken, or it was refused
        return sock

    def looks_idle(self) -> None:
        """Wait until the server has nothing to do, although all are still there: nobody makes it spin."""
        end, still, before = time.monotonic() + PATIENCE, 0, -1.0
        while still < 3:
            assert time.monotonic() < end, "it is at work without end"
            time.sleep(0.1)
            found = looking.holding(self.server.pid)
            assert found, self.server.log()
            still = still + 1 if found.cpu_seconds - before < 0.02 else 0
            before = found.cpu_seconds

    def leave(self) -> None:
        """All go."""
        for sock in self.held:
            sock.close()
        self.held.clear()


@pytest.fixture(scope="module", params=DRIVERS)
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    """One server for all bounds: what one play leaves behind, the next one sees."""
    if request.param == "gevent":
        pytest.importorskip("gevent")
    target, *options = DRIVERS[request.param]
    server = Serving(target, *options, *BOUNDS, "--pythonpath", str(HERE))
    host = Host(server, request.param, [])
    for _ in range(20):  # what the first requests make it keep is there
        assert server.raw(get("warm", size=MIB, close=True)).count(b"200 OK") == 1
    yield host
    host.leave()
    assert server.stop() == 0
    server.kill()


def get(name: str, **more: object) -> bytes:
    return Asked(name, **more).wire()  # type: ignore[arg-type]


def cut_upload(name: str, size: int, sent: int) -> bytes:
    """A body whose end does not come."""
    asked = Asked(name, body=size, framing="length", method="POST", size=2)
    return asked.head() + content(name, 0, sent)


def carried_replies(host: Host) -> None:
    # 64 KiB of replies may wait: these are 640 times as much, which the kernel's own buffers do not hold either.
    host.send(b"".join(get(f"carry.{turn}", size=60_000) for turn in range(700)), deaf=True)


def kept_bodies(host: Host) -> None:
    for turn in range(20):
        host.send(get(f"kept.{turn}.0", size=1) + get(f"kept.{turn}", size=5 * MIB) * 2, deaf=True)


def pipelined_requests(host: Host) -> None:
    host.send(b"".join(get(f"pipe.{turn}", size=10) for turn in range(9000)), deaf=True)


def bodies_in_memory(host: Host) -> None:
    for turn in range(100):
        host.send(cut_upload(f"memory.{turn}", 250_000, 240_000))


def bodies_on_disk(host: Host) -> None:
    for turn in range(20):
        host.send(cut_upload(f"disk.{turn}", 4 * MIB, 2 * MIB))


def header_names(host: Host) -> None:
    for turn in range(30):
        lines = "".join(f"X-Invented-{turn}-{number}: 1\r\n" for number in range(90))
        host.send(f"GET /tick HTTP/1.1\r\nHost: a\r\n{lines}\r\n".encode())


def header_lines(host: Host) -> None:
    for _ in range(20):
        host.send(b"GET /tick HTTP/1.1\r\nHost: a\r\n" + b"X: 1\r\n" * 1000 + b"\r\n")


def header_bytes(host: Host) -> None:
    for _ in range(20):
        host.send(b"GET /tick HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 10 * 64 * 1024 + b"\r\n\r\n")


def trailers(host: Host) -> None:
    for turn in range(20):
        asked = Asked(f"trailer.{turn}", body=10, framing="chunks", method="POST", size=2)
        host.send(asked.wire()[:-2] + b"X: 1\r\n" * 640 + b"\r\n")


def bodies_of_a_byte(host: Host) -> None:
    asked = Asked("byte", body=1, framing="length", method="POST", size=2)
    host.send(asked.wire() * 5000, deaf=True)


def connections(host: Host) -> None:
    for _ in range(10 * CONNECTIONS):
        host.send(b"")


def websocket_messages(host: Host) -> None:
    shake = (
        b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    # Masked with zeros: the bytes are what they are.
    small, large = b"\x82\x81\0\0\0\0x", b"\x82\xff" + (60_000).to_bytes(8, "big") + bytes(4) + bytes(60_000)
    host.send(shake + small * 320, deaf=True)
    host.send(shake + large * 400, deaf=True)


#: What is played, the MiB of memory and of disk that it may take, and where it means something. Under an event loop
#: bodies are the application's own. 8 MiB are what allocators may need at any time.
PLAYS: list[tuple[Callable[[Host], None], int, int, str]] = [
    (carried_replies, 8, 0, "threads gevent asyncio"),
    # Four threads that wait hold a body each.
    (kept_bodies, 8 + 2 * 4 + 4 * 5, 0, "threads gevent asyncio"),
    (pipelined_requests, 8, 0, "threads gevent asyncio"),
    (bodies_in_memory, 8 + 2, 4, "threads gevent"),
    (bodies_on_disk, 8 + 2, 4, "threads gevent"),
    (header_names, 8, 0, "threads gevent asyncio"),
    (header_lines, 8, 0, "threads gevent asyncio"),
    (header_bytes, 8, 0, "threads gevent asyncio"),
    (trailers, 8, 0, "threads gevent asyncio"),
    (bodies_of_a_byte, 8, 0, "threads gevent asyncio"),
    (connections, 8, 0, "threads gevent asyncio"),
    (websocket_messages, 8, 0, "asyncio"),
]


@pytest.mark.parametrize(("play", "memory", "disk", "drivers"), PLAYS, ids=[play[0].__name__ for play in PLAYS])
def test_ten_times_as_much_is_not_held(
    host: Host, play: Callable[[Host], None], memory: int, disk: int, drivers: str
) -> None:
    if host.driver not in drivers.split():
        pytest.skip("it holds nothing of the kind")
    pid = host.server.pid
    at_first = looking.descriptors(pid)
    looking.forget_peak(pid)
    before, kept = looking.holding(pid), looking.disk_kib(pid)
    assert before
    try:
        play(host)
        host.looks_idle()
        after = looking.holding(pid)
        assert after
        grown, stored = (after.peak_kib - before.rss_kib) / 1024, (looking.disk_kib(pid) - kept) / 1024
        assert grown <= memory, f"{grown:.1f} MiB of memory"
        # A file may be written to once more before it is refused.
        assert stored <= disk + 1, f"{stored:.1f} MiB on disk"
        assert after.descriptors <= before.descriptors + 2 * CONNECTIONS
        # Four threads that all wait for their readers are free again when those have been thrown out.
        host.server.until(lambda: somebody_else(host.server) == b"ok")
    finally:
        host.leave()
    try:
        host.server.until(lambda: at_rest(pid, before.descriptors, kept))
    except AssertionError:
        left = sorted(looking.descriptors(pid).items() - at_first.items())
        raise AssertionError(f"left open: {left}; {looking.disk_kib(pid)} KiB on disk") from None


def somebody_else(server: Serving) -> bytes:
    """What another client gets while all of this is held."""
    with server.connect() as sock:
        sock.sendall(b"GET /tick HTTP/1.1\r\nHost: a\r\n\r\n")
        return read_reply(sock, bytearray())[2]


def at_rest(pid: int, descriptors: int, disk: int) -> bool:
    """What was held is let go."""
    found = looking.holding(pid)
    return bool(found) and found.descriptors <= descriptors and looking.disk_kib(pid) <= disk + LOG_KIB


def test_chunks_of_a_byte_cost_no_write_each(host: Host) -> None:
    if host.driver == "asyncio":
        pytest.skip("its application has each part as it comes")
    one = Asked("chunks", body=600_000, framing="chunks", chunk=1, method="POST", size=2, close=True)
    before = looking.writes(host.server.pid)
    assert host.server.raw(one.wire()).endswith(content("chunks", 0, 2))
    assert looking.writes(host.server.pid) - before < 6000, (
        "beyond the memory's bound they went to a file in large pieces"
    )
