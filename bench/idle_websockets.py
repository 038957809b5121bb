"""What an idle WebSocket costs a server in memory.

    idle_websockets.py 'forehand echo:app --bind 127.0.0.1:{port}' 'uvicorn echo:app --port {port} --log-level error'

Each server is started in turn, in bench/; what its processes hold (PSS) is looked at before and after so many sockets.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import socket
import subprocess
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def processes(group: int) -> list[int]:
    """The processes of a group."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.getpgid(int(entry)) == group:
                found.append(int(entry))
        except ProcessLookupError:
            pass
    return found


def memory(group: int) -> int:
    """KiB that a group of processes holds, shared pages counted in part."""
    total = 0
    for pid in processes(group):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total


def connect(port: int) -> socket.socket:
    """A socket that speaks WebSocket."""
    sock = socket.create_connection(("127.0.0.1", port), 20)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(HANDSHAKE)
    answer = b""
    while b"\r\n\r\n" not in answer:
        part = sock.recv(4096)
        assert part, answer
        answer += part
    assert answer.startswith(b"HTTP/1.1 101"), answer
    return sock


def wait_for(port: int) -> None:
    """Until somebody answers there."""
    end = time.monotonic() + 20
    while True:
        try:
            return connect(port).close()
        except (ConnectionError, AssertionError):
            assert time.monotonic() < end, "the server does not answer"
            time.sleep(0.05)


def measure(command: str, count: int) -> None:
    """Start a server, measure, and print a line."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = shlex.split(command.format(port=port))
    server = subprocess.Popen(words, cwd=HERE, start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        wait_for(port)
        before = memory(server.pid)
        socks = [connect(port) for _ in range(count)]
        each = (memory(server.pid) - before) / len(socks)
        print(f"{words[0].rpartition('/')[2]:12} {each:8.2f} KiB for each of {len(socks)} idle sockets")
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def main() -> None:
    """Measure each command in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="+", help="a server, with {port} in it")
    parser.add_argument("--sockets", type=int, default=10_000)
    options = parser.parse_args()
    for command in options.command:
        measure(command, options.sockets)


if __name__ == "__main__":
    main()
