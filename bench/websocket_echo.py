"""Messages a second over many WebSockets, and what each costs the server in processor time.

    websocket_echo.py 'forehand echo:app --bind 127.0.0.1:{port}' 'uvicorn echo:app --port {port} --log-level error'

Each server is started in turn, in bench/; every socket sends a message of 64 bytes and waits for it to come back. The
client is one thread of Python over epoll with frames made before: quick servers wait for it, so that the figure to
compare is the processor time of the server's processes. A socket that gets anything but its message ends the run.
With `--idle N`, what N open sockets cost in memory is told instead.
"""

from __future__ import annotations

import argparse
import os
import select
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
MESSAGE = b"m" * 64
SENT = b"\x81\xc0" + bytes(4) + MESSAGE
WANTED = b"\x81\x40" + MESSAGE


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


def cpu(group: int) -> float:
    """Seconds of processor time that a group of processes has used."""
    total = 0
    for pid in processes(group):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


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


def echo(port: int, count: int, seconds: float) -> int:
    """Messages that came back."""
    poll = select.epoll()
    socks = {}
    for _ in range(count):
        sock = connect(port)
        socks[sock.fileno()] = sock
        poll.register(sock, select.EPOLLIN)
        sock.sendall(SENT)
    done, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        for fd, _ in poll.poll(1):
            sock = socks[fd]
            got = sock.recv(4096)
            assert got == WANTED, got
            sock.send(SENT)
            done += 1
    for sock in socks.values():
        sock.close()
    return done


def wait_for(port: int) -> None:
    """Until somebody answers there."""
    end = time.monotonic() + 20
    while True:
        try:
            return connect(port).close()
        except (ConnectionError, AssertionError):
            assert time.monotonic() < end, "the server does not answer"
            time.sleep(0.05)


def measure(command: str, options: argparse.Namespace) -> None:
    """Start a server, measure, and print a line."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = shlex.split(command.format(port=port))
    server = subprocess.Popen(words, cwd=HERE, start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        wait_for(port)
        if options.idle:
            before = memory(server.pid)
            socks = [connect(port) for _ in range(options.idle)]
            each = (memory(server.pid) - before) / len(socks)
            print(f"{words[0].rpartition('/')[2]:12} {each:8.2f} KiB for each of {len(socks)} idle sockets")
            return
        echo(port, options.sockets, 0.5)
        before_cpu = cpu(server.pid)
        done = echo(port, options.sockets, options.seconds)
        used = cpu(server.pid) - before_cpu
        rate = done / options.seconds
        print(f"{words[0].rpartition('/')[2]:12} {rate:9.0f} messages/s {used / done * 1e6:7.2f} us each")
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def main() -> None:
    """Measure each command in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="+", help="a server, with {port} in it")
    parser.add_argument("--sockets", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--idle", type=int, default=0)
    options = parser.parse_args()
    for _ in range(options.rounds):
        for command in options.command:
            measure(command, options)


if __name__ == "__main__":
    main()
