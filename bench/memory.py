"""Memory: 10,000 idle connections, and 100,000 requests that must leave nothing behind.

Needs `ulimit -n` above 10,100 for this process and the server.
"""

from __future__ import annotations

import re
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from beside_raw import HERE, answers, free_port

IDLE = 10_000


def kib(pid: int, field: str = "Pss") -> int:
    """Kibibytes of a process's memory."""
    found = re.search(rf"^{field}:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
    return int(found[1]) if found else 0


def main() -> int:
    """Measure and print; the exit status."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))
    port = free_port()
    begun = time.monotonic()
    process = subprocess.Popen(
        [Path(sys.executable).with_name("forehand"), "pong:application", "--bind", f"127.0.0.1:{port}"],
        cwd=HERE,
        stderr=subprocess.DEVNULL,
    )
    try:
        while True:
            try:
                sock = socket.create_connection(("127.0.0.1", port))
                break
            except OSError:
                time.sleep(0.001)
        sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        sock.recv(1000)
        print(f"first reply after {(time.monotonic() - begun) * 1000:.0f} ms")
        answers(port)
        worker = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
        print(f"the supervisor: PSS {kib(process.pid)} KiB")
        subprocess.run(
            ["wrk", "-t1", "-c64", "-d2", f"http://127.0.0.1:{port}/"], stdout=subprocess.DEVNULL, check=True
        )
        before = kib(worker)
        print(f"after keep-alive load: PSS {before} KiB")
        subprocess.run(
            ["wrk", "-t1", "-c64", "-d3", f"http://127.0.0.1:{port}/"], stdout=subprocess.DEVNULL, check=True
        )
        print(f"after some 300,000 requests more: PSS {kib(worker)} KiB")
        socks = []
        for number in range(IDLE):
            one = socket.socket()
            # Several source addresses: one has too few ports for many runs in a row.
            one.bind((f"127.0.0.{1 + number % 8}", 0))
            one.connect(("127.0.0.1", port))
            one.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            one.recv(1000)
            socks.append(one)
        after = kib(worker)
        print(f"{IDLE} idle connections: PSS {after} KiB, {(after - before) * 1024 / IDLE:.0f} bytes each")
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
