"""Somebody who wants nothing but a small page now and then, on connections that are kept: how long is it kept waiting?

Knows: one request and its reply. Does not know: who else is there. A process of its own, so that its clock is not
stopped by what the crowd does: `bystander.py PORT`, until its standard input ends; then one line of JSON.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time

REQUEST = b"GET /tick HTTP/1.1\r\nHost: a\r\n\r\n"
REPLY_ENDS = b"\r\n\r\nok"
#: Seconds between two requests, and until one counts as lost.
PACE, PATIENCE = 0.01, 25.0


def connected(port: int) -> socket.socket:
    """A connection."""
    sock = socket.create_connection(("127.0.0.1", port), PATIENCE)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def ask(sock: socket.socket) -> tuple[bool, bool]:
    """One request: whether the reply came whole, and whether the connection goes on."""
    got = b""
    try:
        sock.sendall(REQUEST)
        while not got.endswith(REPLY_ENDS):
            part = sock.recv(4096)
            if not part:
                return False, False
            got += part
    except OSError:
        return False, False
    if not got.startswith(b"HTTP/1.1 200 ") or got.count(b"HTTP/1.1") != 1:
        raise SystemExit(f"another's reply: {got!r}")
    return True, b"connection: close" not in got.lower()


def main(port: int) -> None:
    """Ask until nobody listens to us any more."""
    times: list[float] = []
    lost: list[tuple[int, float]] = []
    socks = [connected(port) for _ in range(4)]
    turn = 0
    while not select.select([sys.stdin], [], [], PACE)[0]:
        turn = (turn + 1) % len(socks)
        begun = time.monotonic()
        whole, goes_on = ask(socks[turn])
        if whole:
            times.append(time.monotonic() - begun)
        else:
            lost.append((socks[turn].getsockname()[1], time.monotonic() - begun))
        if not goes_on:
            socks[turn].close()
            socks[turn] = connected(port)
    sys.stdout.write(json.dumps({"times": times, "lost": lost}) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
