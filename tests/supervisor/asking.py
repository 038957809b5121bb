"""What tests of supervised servers ask: the server's clients, its status, its processes."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from serving import Serving, read_reply


def get(server: Serving, path: str = "/", body: bytes = b"") -> tuple[int, str]:
    """One request on a connection of its own: status, body."""
    method = "POST" if body else "GET"
    head = f"{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    with server.connect() as sock:
        sock.sendall(head.encode() + body)
        status, _, text = read_reply(sock, bytearray())
    return status, text.decode()


def version(server: Serving) -> str:
    return get(server)[1].split()[0]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"


def pids(server: Serving) -> set[int]:
    return {worker["pid"] for worker in server.status()["workers"] if worker["state"] == "ready"}


def connections(server: Serving) -> int:
    return sum(int(worker["connections"]) for worker in server.status()["workers"])


def some_with_each(
    server: Serving, many: int = 8, path: str = "/sleep?0.3", worker: Callable[[bytes], int] = int
) -> dict[socket.socket, int]:
    """Connections with who answered there: each of two workers has at least two. They are asked for while others are
    busy, and anew where a worker had no processor meanwhile. `worker`: who it was, of what the reply says."""
    kept: dict[socket.socket, int] = {}
    before = connections(server)

    def both_have_some() -> bool:
        for sock in kept:
            sock.close()
        # So that those that come next have the descriptors of these, and leave no others free.
        server.until(lambda: connections(server) <= before)
        more = [server.connect() for _ in range(many)]
        for sock in more:
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        kept.clear()
        for sock in more:
            status, fields, body = read_reply(sock, bytearray())
            assert status == 200 and fields.get("connection") != "close"
            kept[sock] = worker(body)
        having = Counter(kept.values())
        return len(having) == 2 and min(having.values()) > 1

    server.until(both_have_some)
    # Who has just answered is shown as busy for a moment, and is none that is held.
    server.until(lambda: not any(one["busy"] for one in server.status()["workers"]))
    return kept


def children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""
