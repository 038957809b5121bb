"""A large reply and a large body over a way of 50 ms: HTTP/2 beside HTTP/1, both within TLS.

    delay.py [--delay 50] [--rounds 5] [--down 10] [--up 100]

Two network namespaces, each with a tunnel of its own, and this script between them, which keeps each packet for half of
the delay: what crosses it are packets, so that windows and congestion control of both sides see the way as it is. tc's
netem would do the same, but not every kernel has it. curl asks by either version in turn, each time anew, and the ratio
of a round is the figure. Times go from the request to the end of its reply. Needs root, /dev/net/tun, ip, curl and
openssl; leaves nothing behind.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import hashlib
import os
import select
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import certificate

HERE = Path(__file__).resolve().parent
MIB = 1024 * 1024
SERVER, CLIENT, PORT = "10.231.7.1", "10.231.7.2", 8443
#: Large, so that the way has time for the packets of a fast connection.
MTU = 9000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
CLONE_NEWNET = 0x40000000
#: What is wanted of HTTP/2's rate divided by HTTP/1's.
WANTED = 0.8
DRIVERS = {
    "threads": ["delayed:application"],
    "threads, bodies as they come": ["delayed:application", "--no-request-buffering"],
    "asyncio": ["delayed:app", "--interface", "asgi"],
}


def ip(*words: str) -> None:
    """One order of iproute2."""
    subprocess.run(["ip", *words], check=True)


def tunnel(space: str) -> int:
    """The end of a new tunnel of that namespace, which this process is in from then on."""
    with open(f"/run/netns/{space}") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"the namespace {space} cannot be entered")
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", b"way", IFF_TUN | IFF_NO_PI))
    return fd


def carry(spaces: list[str], seconds: float, ready: int) -> None:
    """Hands packets from each of two tunnels to the other, so many seconds later. Never returns."""
    ends = [tunnel(space) for space in spaces]
    os.write(ready, b"!")
    waiting: dict[int, deque[tuple[float, bytes]]] = {end: deque() for end in ends}
    other = {ends[0]: ends[1], ends[1]: ends[0]}
    while True:
        due = [queue[0][0] for queue in waiting.values() if queue]
        patience = max(0.0, min(due) - time.monotonic()) if due else None
        for end in select.select(ends, [], [], patience)[0]:
            with contextlib.suppress(BlockingIOError):
                for _ in range(64):
                    packet = os.read(end, MTU)
                    waiting[end].append((time.monotonic() + seconds, packet))
        now = time.monotonic()
        for end, queue in waiting.items():
            while queue and queue[0][0] <= now:
                # What a tunnel does not take is lost, as it would be on any way.
                with contextlib.suppress(BlockingIOError, OSError):
                    os.write(other[end], queue[0][1])
                queue.popleft()


@contextlib.contextmanager
def way(delay: float) -> Iterator[list[str]]:
    """Two namespaces, the server's and the client's, with a way of so many seconds there and back between them."""
    spaces = [f"forehand-{os.getpid()}-{which}" for which in ("server", "client")]
    with contextlib.ExitStack() as stack:
        for space in spaces:
            ip("netns", "add", space)
            stack.callback(ip, "netns", "del", space)
        told, tell = os.pipe()
        carrier = os.fork()
        if not carrier:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            with contextlib.suppress(KeyboardInterrupt):
                carry(spaces, delay / 2, tell)
            os._exit(1)
        stack.callback(os.waitpid, carrier, 0)
        stack.callback(os.kill, carrier, signal.SIGKILL)
        os.close(tell)
        if not os.read(told, 1):
            raise SystemExit("there is no way between the namespaces")
        os.close(told)
        for space, own, peer in zip(spaces, (SERVER, CLIENT), (CLIENT, SERVER), strict=True):
            ip("-n", space, "addr", "add", own, "peer", peer, "dev", "way")
            ip("-n", space, "link", "set", "way", "mtu", str(MTU), "txqueuelen", "10000", "up")
        yield spaces


def prepare(folder: Path, options: argparse.Namespace) -> None:
    """A certificate with its key, a file to be got and one to be sent."""
    certificate.make(folder)
    (folder / "down").write_bytes(os.urandom(MIB) * options.down)
    (folder / "up").write_bytes(os.urandom(MIB) * options.up)


@contextlib.contextmanager
def serving(space: str, folder: Path, words: list[str]) -> Iterator[None]:
    """Forehand in a namespace."""
    command = [
        "ip", "netns", "exec", space, sys.executable, "-m", "forehand", "--workers", "0", "--log-level", "error",
        *words, "--bind", f"https://{SERVER}:{PORT}", "--tls-cert", str(folder / "cert.pem"), "--tls-key",
        str(folder / "key.pem"), "--limit-body-bytes", str(1024 * MIB), "--ready-fd",
    ]  # fmt: skip
    told, tell = os.pipe()
    with subprocess.Popen([*command, str(tell)], cwd=HERE, pass_fds=[tell], stdout=subprocess.DEVNULL) as process:
        os.close(tell)
        try:
            if not os.read(told, 1):
                raise SystemExit("the server has not begun")
            yield
        finally:
            os.close(told)
            process.kill()


def asked(space: str, folder: Path, version: str, up: bool) -> float:
    """Bytes a second of one request on a connection of its own."""
    sent = folder / ("up" if up else "down")
    words = ["-H", "Expect:", "-T", str(sent)] if up else []
    told = subprocess.run(
        ["ip", "netns", "exec", space, "curl", "-sSk", version, "--max-time", "300", "-o", str(folder / "got"), *words,
         "-w", "%{http_code} %{http_version} %{time_pretransfer} %{time_total}",
         f"https://{SERVER}:{PORT}/{'up' if up else 'down'}?{sent if not up else ''}"],
        check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    content = sent.read_bytes()
    got, wanted = (folder / "got").read_bytes(), hashlib.sha256(content).hexdigest().encode() if up else content
    if told[:2] != ["200", {"--http1.1": "1.1", "--http2": "2"}[version]] or got != wanted:
        raise SystemExit(f"{version}: {told}, {len(got)} bytes")
    return len(content) / (float(told[3]) - float(told[2]))


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay", type=float, default=50, help="milliseconds there and back")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--down", type=int, default=10, help="MiB")
    parser.add_argument("--up", type=int, default=100, help="MiB")
    parser.add_argument("--driver", choices=DRIVERS, action="append")
    options = parser.parse_args()
    for tool in ("ip", "curl", "openssl"):
        if not shutil.which(tool):
            raise SystemExit(f"{tool} is missing")
    # Whoever ends it early finds nothing left behind, either.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    missed = False
    with tempfile.TemporaryDirectory() as name, way(options.delay / 1000) as (server, client):
        folder = Path(name)
        prepare(folder, options)
        for driver in options.driver or DRIVERS:
            with serving(server, folder, DRIVERS[driver]):
                for up in (False, True):
                    rows = [
                        [asked(client, folder, version, up) for version in ("--http1.1", "--http2")]
                        for _ in range(options.rounds)
                    ]
                    missed |= report(driver, f"{options.up} MiB up" if up else f"{options.down} MiB down", rows)
    return int(missed)


def report(driver: str, what: str, rows: list[list[float]]) -> bool:
    """Prints one figure; whether it is below what is wanted."""
    each = [two / one for one, two in rows]
    median: Callable[[list[float]], float] = statistics.median
    one, two = (median([row[at] for row in rows]) / MIB for at in (0, 1))
    print(
        f"{driver:<30}{what:<14}HTTP/1 {one:6.1f} MiB/s, HTTP/2 {two:6.1f} MiB/s, ratio {median(each):.2f} "
        f"({min(each):.2f}-{max(each):.2f}), wanted {WANTED} at least",
        flush=True,
    )
    return median(each) < WANTED


if __name__ == "__main__":
    sys.exit(main())
