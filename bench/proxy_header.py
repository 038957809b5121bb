"""What a load balancer's PROXY header costs: a connection with none, with version 1 and with version 2.

CPU of the server under wrk, each round each kind in turn, so that a machine that drifts drifts for all: the difference
to none in the same round, for one request a connection, and for connections that are kept. With `--instructions` the
user-space instructions of both instead, counted by callgrind, which no other load can change. Server on CPU 0, load on
CPU 1.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from beside_raw import cpu

HERE = Path(__file__).resolve().parent
HEADERS = {
    "none": b"",
    "v1": b"PROXY TCP4 192.0.2.7 198.51.100.3 51234 443\r\n",
    "v2": b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc6\x33\x64\x03\xc8\x22\x01\xbb",
}
CONNECTIONS = 64
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


def begin(version: str, before: tuple[str, ...] = (), **more: Any) -> tuple[subprocess.Popen[bytes], int]:
    """A server, at an address for such headers, that is ready; its port."""
    reader, writer = os.pipe()
    bind = "127.0.0.1:0" + ("" if version == "none" else f"?proxy={version}")
    command = [*before, sys.executable, "-m", "forehand", "pong:application", "--workers", "0", "--bind", bind]
    command += ["--ready-fd", str(writer), "--log-level", "error"]
    server = subprocess.Popen(command, cwd=HERE, pass_fds=[writer], **more)
    os.close(writer)
    with os.fdopen(reader) as ready:
        return server, int(json.loads(ready.readline())["listeners"][0].rpartition(":")[2])


def timed(version: str, kept: bool, seconds: int) -> float:
    """CPU microseconds of the server a request."""
    server, port = begin(version, preexec_fn=lambda: os.sched_setaffinity(0, {0}))
    try:
        more = {"PROXY": HEADERS[version].hex(), "KEPT": str(CONNECTIONS if kept else 0)}
        before = cpu(server.pid)
        text = subprocess.run(
            ["taskset", "-c", "1", "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}", "-s", str(HERE / "proxy.lua"),
             f"http://127.0.0.1:{port}/"],
            env={**os.environ, **more}, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        if "Non-2xx" in text or "Socket errors" in text:
            raise SystemExit(f"{version}: {text}")
        return (cpu(server.pid) - before) / int(re.findall(r"(\d+) requests in", text)[0]) * 1e6
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()


def counted(version: str, kept: bool, count: int) -> int:
    """Instructions of a server that has answered so many requests."""
    with tempfile.TemporaryDirectory() as folder:
        valgrind = ("valgrind", "--tool=callgrind", "--trace-children=yes", f"--callgrind-out-file={folder}/out")
        env = {**os.environ, "PYTHONHASHSEED": "0"}
        server, port = begin(version, valgrind, stderr=subprocess.PIPE, env=env)
        request = REQUEST + (b"\r\n" if kept else b"Connection: close\r\n\r\n")
        if kept:
            socks = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
            for sock in socks:
                sock.sendall(HEADERS[version])
            for number in range(count):
                ask(socks[number % len(socks)], request)
            for sock in socks:
                sock.close()
        else:
            for _ in range(count):
                with socket.create_connection(("127.0.0.1", port)) as sock:
                    ask(sock, HEADERS[version] + request)
        server.send_signal(signal.SIGTERM)
        told = server.communicate()[1].decode()
    return int(re.findall(r"Collected : (\d+)", told)[-1])


def ask(sock: socket.socket, request: bytes) -> None:
    """One request and its whole reply."""
    sock.sendall(request)
    held = b""
    while not held.endswith(b"Pong!"):
        part = sock.recv(65536)
        if not part:
            raise SystemExit(f"the server closed after {held!r}")
        held += part


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--instructions", action="store_true", help="count instructions instead (needs valgrind)")
    options = parser.parse_args()
    for tool in ("valgrind",) if options.instructions else ("wrk", "taskset"):
        if not shutil.which(tool):
            raise SystemExit(f"{tool} is missing: install it (Debian: {tool if tool != 'taskset' else 'util-linux'})")
    for kept, what in ((False, "one request a connection"), (True, "connections that are kept")):
        if options.instructions:
            few, many = 400, 1600
            # Threads that wake up by the clock add to some counts and take nothing from any: the least one holds.
            least = {
                (one, count): min(counted(one, kept, count) for _ in range(3))
                for one in HEADERS
                for count in (few, many)
            }
            found = {one: [(least[one, many] - least[one, few]) / (many - few)] for one in HEADERS}
            unit = "instructions"
        else:
            found = {one: [] for one in HEADERS}
            for _ in range(options.rounds):
                for one in HEADERS:
                    found[one].append(timed(one, kept, options.seconds))
            unit = "µs of CPU"
        print(f"{what}, {unit} a request")
        for one, values in found.items():
            more = [value - none for value, none in zip(values, found["none"], strict=True)]
            print(
                f"  {one:<5}{statistics.median(values):>10.2f}   more than none: {statistics.median(more):+.2f}"
                f" ({min(more):+.2f} to {max(more):+.2f})"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
