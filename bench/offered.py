"""Requests at a rate, or so many at a time, each on a connection of its own, from one thread.

A client that takes as little of the processors as it can, for it stands on the same ones as the
server: plain sockets and one epoll. Latency counts from the moment a request was due.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterable

#: Nobody waits longer, in seconds: it has failed.
PATIENCE = 15.0


class Offered:
    """One kind of requests, and what became of them (seconds)."""

    def __init__(self, port: int, path: str) -> None:
        self.port = port
        self.request = f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode()
        self.done: list[float] = []
        #: The same with the time at which each was done.
        self.when: list[tuple[float, float]] = []
        self.refused: list[float] = []
        self.failed = 0

    def settle(self, reply: bytes, due: float, now: float) -> None:
        """A connection has ended."""
        if not is_whole(reply):
            self.failed += 1
        elif reply.startswith(b"HTTP/1.1 200 "):
            self.done.append(now - due)
            self.when.append((now, now - due))
        else:
            self.refused.append(now - due)


def is_whole(reply: bytes) -> bool:
    """True for a head and as much content as it announces."""
    head, found, body = reply.partition(b"\r\n\r\n")
    length = head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
    return bool(found) and length.strip().isdigit() and len(body) == int(length)


class Running:
    """Connections that are under way."""

    def __init__(self) -> None:
        self.epoll = select.epoll()
        self.by_fd: dict[int, tuple[socket.socket, Offered, float, bytearray]] = {}

    def begin(self, kind: Offered, due: float) -> None:
        """Connect; the request follows as soon as it may."""
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(("127.0.0.1", kind.port))
        self.by_fd[sock.fileno()] = (sock, kind, due, bytearray())
        self.epoll.register(sock.fileno(), select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)

    def wait(self, seconds: float) -> list[Offered]:
        """What ends within so long; one for each."""
        ended = []
        for fd, events in self.epoll.poll(max(0.0, seconds)):
            sock, kind, _, reply = self.by_fd[fd]
            try:
                if events & select.EPOLLOUT and not reply:
                    sock.send(kind.request)
                    # Once: from here on only what comes in matters.
                    self.epoll.modify(fd, select.EPOLLIN | select.EPOLLET)
                over = events & select.EPOLLIN and self.read(sock, reply)
            except BlockingIOError:
                over = False
            except OSError:
                over = True
            if over:
                ended.append(self.end(fd))
        return ended

    def read(self, sock: socket.socket, reply: bytearray) -> bool:
        """All that is there. True at the end."""
        while data := sock.recv(65536):
            reply += data
        return True

    def end(self, fd: int) -> Offered:
        """Close it and count it."""
        sock, kind, due, reply = self.by_fd.pop(fd)
        sock.close()
        kind.settle(bytes(reply), due, time.monotonic())
        return kind

    def expire(self) -> None:
        """What has waited too long has failed."""
        late = [fd for fd, (_, _, due, _) in self.by_fd.items() if time.monotonic() - due > PATIENCE]
        for fd in late:
            self.end(fd)

    def finish(self) -> None:
        """Wait for what is left."""
        while self.by_fd:
            self.wait(0.1)
            self.expire()
        self.epoll.close()


def at_rates(kinds: Iterable[tuple[Offered, float]], seconds: float) -> None:
    """Each kind at its rate (requests a second), whatever becomes of them."""
    running = Running()
    begun = time.monotonic()
    due = sorted(
        (begun + number / rate, index, kind)
        for index, (kind, rate) in enumerate(kinds)
        for number in range(int(rate * seconds))
    )
    for at, _, kind in due:
        while (left := at - time.monotonic()) > 0:
            running.wait(left)
        running.begin(kind, at)
    running.finish()


def at_a_time(kind: Offered, clients: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> float:
    """So many at a time: requests a second that were done while all clients asked."""
    running = Running()
    begun = clock()
    for _ in range(clients):
        running.begin(kind, begun)
    while clock() - begun < seconds:
        for _ in running.wait(1):
            running.begin(kind, clock())
    measured = len(kind.done) / (clock() - begun)
    running.finish()
    return measured
