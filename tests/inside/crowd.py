"""Clients that ask while workers die, and what their replies and the log say of it."""

from __future__ import annotations

import re
import socket
import threading

from serving import Serving, read_reply

GET = "GET {} HTTP/1.1\r\nHost: a\r\n\r\n"


class Crowd:
    """Clients that ask for paths of which none comes twice, one at a time each."""

    def __init__(self, server: Serving, clients: int) -> None:
        self.server = server
        self.replied: set[str] = set()
        self.lost: set[str] = set()
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(clients)]

    def __enter__(self) -> Crowd:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()

    def _ask(self, client: int) -> None:
        count = 0
        while not self.over.is_set():
            with self.server.connect() as sock:
                count = self._ask_on(sock, client, count)

    def _ask_on(self, sock: socket.socket, client: int, count: int) -> int:
        buffer = bytearray()
        while not self.over.is_set():
            # Some take long enough to be inside when their worker dies.
            path = f"/sleep/0.01/{client}/{count}" if count % 5 == 0 else f"/quick/{client}/{count}"
            count += 1
            try:
                sock.sendall(GET.format(path).encode())
                _, fields, _ = read_reply(sock, buffer)
            except (OSError, AssertionError):
                self.lost.add(path)
                return count
            self.replied.add(path)
            if fields.get("connection") == "close":
                return count
        return count


def died_inside(server: Serving) -> set[str]:
    """Paths that the log names as what dead workers worked on."""
    told = re.findall(r"while it worked on: (.*)", server.log())
    return {path for line in told for path in re.findall(r"GET (\S+) for", line)}


def processes(server: Serving) -> set[int]:
    """Those of its workers that it has not yet heard of as dead."""
    return {one["pid"] for one in server.status()["workers"]}


def ready(server: Serving) -> list[int]:
    workers = [one for one in server.status()["workers"] if one["state"] == "ready"]
    return [one["pid"] for one in workers] if len(workers) >= 2 else []
