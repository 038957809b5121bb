"""What somebody who wants a small page sees beside one hostile connection, under each driver.

    bystander.py [--drivers threads,asyncio,gevent] [--only NAME,...] [--seconds 4] [--rounds 3]

The server has CPU 0 for itself, as it has where its clients are other machines. The hostile client has CPU 1, and so
has the bystander, who goes before it (SCHED_FIFO where that is allowed) and asks each 5 ms on a kept connection. A calm
measurement on the same server comes before each hostile one, so that a ratio compares neighbours in time. Prints a line
for each: median, p99 and worst in milliseconds, and the median beside calm. A figure is the median of the
rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
DRIVERS = {
    "threads": ["hostile_app:application"],
    "asyncio": ["hostile_app:app"],
    "gevent": ["hostile_app:application", "--worker-class", "gevent"],
}
GET = b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n"
SMALL = GET % b"/"
PACE = 0.005
#: The file that is downloaded again and again.
FILE_MIB = 256


def connected(port: int, receive: int = 0) -> socket.socket:
    """A connection, with a receive buffer of so many bytes."""
    sock = socket.socket()
    if receive:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    sock.connect(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def again(port: int, play: Callable[[socket.socket], object]) -> None:
    """Play it on a connection, and on another one whenever it ends."""
    while True:
        with contextlib.suppress(OSError), connected(port) as sock:
            play(sock)
        time.sleep(0.01)


def reads_nothing(port: int, asks: bytes) -> None:
    """Asks, and never reads."""
    sock = connected(port, 16 * 1024)
    sock.sendall(asks)
    time.sleep(3600)


def pipelines(sock: socket.socket) -> None:
    """Busy requests without an end, whose replies are read as they come."""
    sock.setblocking(False)
    left = b""
    while True:
        left = left or (GET % b"/busy") * 200
        readable, writable, _ = select.select([sock], [sock], [])
        if readable and not sock.recv(1 << 16):
            return
        if writable:
            left = left[sock.send(left) :]


def uploads(sock: socket.socket, head: bytes, piece: bytes) -> None:
    """As fast as they are taken."""
    sock.sendall(head)
    while True:
        sock.sendall(piece)


def downloads(sock: socket.socket, path: bytes) -> None:
    """As fast as it comes, one after the other."""
    into = bytearray(1 << 20)
    sock.sendall(GET % path)
    while sock.recv_into(into):
        pass


def trickles(sock: socket.socket) -> None:
    """A byte at a time, each in a packet of its own."""
    while True:
        for byte in SMALL:
            sock.sendall(bytes([byte]))


def invents(sock: socket.socket) -> None:
    """New names of headers in each request."""
    number = 0
    while True:
        names = b"".join(b"X-Invented-%d-%d: v\r\n" % (number, index) for index in range(60))
        sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n" + names + b"\r\n")
        number += 1
        if not sock.recv(1 << 16):
            return


LENGTH = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


def hostile(name: str, port: int, stored: str) -> None:
    """One of them, until it is killed."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    plays: dict[str, Callable[[], object]] = {
        "two pipelined, unread": lambda: reads_nothing(port, SMALL + GET % b"/large"),
        "300 pages pipelined, unread": lambda: reads_nothing(port, (SMALL + GET % b"/page") * 300),
        "busy pipeline": lambda: again(port, pipelines),
        "upload": lambda: again(port, lambda sock: uploads(sock, LENGTH, b"q" * (1 << 20))),
        "upload in chunks of a byte": lambda: again(port, lambda sock: uploads(sock, CHUNKED, b"1\r\na\r\n" * 100_000)),
        "download of a file": lambda: again(port, lambda sock: downloads(sock, b"/file?" + stored.encode())),
        "download of pages": lambda: again(port, lambda sock: downloads(sock, (b"/large"))),
        "a byte at a time": lambda: again(port, trickles),
        "invented names": lambda: again(port, invents),
    }
    plays[name]()


NAMES = (
    "two pipelined, unread", "300 pages pipelined, unread", "busy pipeline", "upload", "8 uploads",
    "upload in chunks of a byte", "download of a file", "download of pages", "a byte at a time", "invented names",
)  # fmt: skip


@contextlib.contextmanager
def beside(name: str, port: int, stored: str) -> Iterator[None]:
    """The hostile client at work."""
    one, count = ("upload", 8) if name == "8 uploads" else (name, 1)
    clients = [multiprocessing.Process(target=hostile, args=(one, port, stored)) for _ in range(count)]
    for client in clients:
        client.start()
    try:
        time.sleep(0.3)
        yield
    finally:
        for client in clients:
            client.kill()
            client.join()
        time.sleep(0.2)


def asks(port: int, seconds: float) -> list[float]:
    """Times of small requests, in milliseconds."""
    times: list[float] = []
    until = time.monotonic() + seconds
    with connected(port) as sock:
        sock.settimeout(60)
        while time.monotonic() < until:
            time.sleep(PACE)
            begun = time.perf_counter()
            sock.sendall(SMALL)
            got = b""
            while not got.endswith(b"ok"):
                part = sock.recv(4096)
                if not part:
                    raise SystemExit("the bystander was cut off")
                got += part
            times.append((time.perf_counter() - begun) * 1000)
    return sorted(times)


def alone() -> None:
    """The server's processor and its usual scheduling."""
    os.sched_setaffinity(0, {0})
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@contextlib.contextmanager
def server(driver: str) -> Iterator[int]:
    """The server under one driver, on CPU 0; its port."""
    read, write = os.pipe()
    command = [sys.executable, "-m", "forehand", *DRIVERS[driver], "--bind", "127.0.0.1:0", "--workers", "0"]
    process = subprocess.Popen(
        [*command, "--ready-fd", str(write), "--log-level", "error"], pass_fds=[write], cwd=HERE,
        preexec_fn=alone,
    )  # fmt: skip
    os.close(write)
    try:
        with os.fdopen(read) as told:
            yield int(json.loads(told.readline())["listeners"][0].rpartition(":")[2])
    finally:
        process.kill()
        process.wait()


def measure(driver: str, name: str, seconds: float, rounds: int, stored: str) -> tuple[float, float, float, float]:
    """Median, p99, worst, and median beside calm."""
    rows = []
    with server(driver) as port:
        asks(port, 0.5)
        for _ in range(rounds):
            calm = statistics.median(asks(port, seconds / 2))
            with beside(name, port, stored):
                times = asks(port, seconds)
            middle = statistics.median(times)
            rows.append((middle, times[int(len(times) * 0.99)], times[-1], middle / calm))
    return tuple(statistics.median(row[index] for row in rows) for index in range(4))  # type: ignore[return-value]


def main() -> None:
    """Every driver beside every hostile client."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drivers", default=",".join(DRIVERS))
    parser.add_argument("--only", default=",".join(NAMES), help="names, separated by commas where none has one")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    names = [name for name in NAMES if name in options.only]
    os.sched_setaffinity(0, {1})
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    with tempfile.NamedTemporaryFile() as stored:
        # Written and read, so that it is in memory: what a disk takes is another question (bench/static_files.py).
        for _ in range(FILE_MIB):
            stored.write(os.urandom(1 << 20))
        stored.flush()
        print(f"{'':9}{'beside':30}{'median':>8}{'p99':>8}{'worst':>8} ms {'x calm':>8}")
        for driver in options.drivers.split(","):
            for name in names:
                middle, high, worst, ratio = measure(driver, name, options.seconds, options.rounds, stored.name)
                print(f"{driver:9}{name:30}{middle:8.2f}{high:8.2f}{worst:8.1f}    {ratio:8.2f}", flush=True)


if __name__ == "__main__":
    main()
