"""What tests of supervised servers ask: the server's clients, its status, its processes."""

from __future__ import annotations

import os
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


def children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""
