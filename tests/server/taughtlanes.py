"""A server whose lanes have seen a slow route and quick ones, and crowds that ask it for both.

Views wait at a gate that only a quick request opens, or for a file, and requests may wait for ever: nothing here
depends on how fast a machine is, but that what takes a tenth of a second is longer than what returns at once.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from serving import Serving, read_reply

#: How long a view takes that is to be known as slow, in seconds: eight times what a quick one takes, also where that
#: waits for a processor.
SLOW = 0.1
#: How often such a view is called until it is known.
LESSONS = 4
#: Nobody is told that it has waited too long, unless a test is about that.
FOR_EVER = ("--queue-timeout", "0s")
THREADS = 8
CROWD = 3 * THREADS
#: One thread is kept for what is quick.
SLOW_THREADS = THREADS - 1

Serve = Callable[..., Serving]
#: What a server had counted when it was taught, by its control socket.
BEFORE: dict[str, dict[str, int]] = {}


def asked(served: Serving, *paths: str) -> socket.socket:
    """A connection on which requests are on their way."""
    sock = served.connect()
    sock.sendall(b"".join(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode() for path in paths))
    return sock


def answer(sock: socket.socket) -> tuple[int, bytes]:
    """The reply to the only request of a connection."""
    with sock:
        status, _, body = read_reply(sock, bytearray())
    return status, body


def ask(served: Serving, path: str) -> bytes:
    """Ask for something that is there, and wait for it."""
    status, body = answer(asked(served, path))
    assert status == 200
    return body


@contextmanager
def at_once(count: int, client: Callable[[threading.Event], None]) -> Iterator[None]:
    """So many threads that go on until they are told that it is over."""
    over = threading.Event()
    threads = [threading.Thread(target=client, args=(over,)) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


@contextmanager
def crowd_on(served: Serving, path: str, clients: int) -> Iterator[list[tuple[int, float]]]:
    """So many clients that ask again and again, and what each of their requests was answered, and within which time."""
    answers: list[tuple[int, float]] = []

    def client(over: threading.Event) -> None:
        while not over.is_set():
            began = time.monotonic()
            status = answer(asked(served, path))[0]
            answers.append((status, time.monotonic() - began))
            # Whoever is refused at once comes back, and not in a circle that leaves nothing to others.
            over.wait(0.05)

    with at_once(clients, client):
        yield answers


def inside(served: Serving) -> int:
    """How many views are inside, as a quick one tells."""
    return int(ask(served, "/inside"))


def taught(serve: Serve, *options: str) -> Serving:
    """A server that has seen a slow route and quick ones, and tells them apart."""
    served = serve("lanes:application", "--workers", "1", "--threads", str(THREADS), *FOR_EVER, *options)
    for _ in range(LESSONS):
        for path in [f"/report?{SLOW}", *["/gate?shut", "/inside"] * 4]:
            # Where nobody may wait, who comes while the last thread is not given a processor is refused.
            served.until(lambda path=path: answer(asked(served, path))[0] == 200)
    BEFORE[served.control] = served.counters()
    return served


def comes_to(served: Serving, name: str, wanted: int) -> None:
    """So often it has happened since the server was taught, or comes to."""
    served.counts(name, BEFORE[served.control].get(name, 0) + wanted)


def crowd_of(served: Serving, path: str, count: int = CROWD) -> list[socket.socket]:
    """So many ask for what is slow, and have as many threads as they get."""
    crowd = [asked(served, path) for _ in range(count)]
    served.until(lambda: inside(served) >= SLOW_THREADS)
    return crowd


def queued(served: Serving) -> int:
    """How many wait for a thread, as `forehand status` tells."""
    found: int = served.status()["workers"][0]["queued"]
    return found
