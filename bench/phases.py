"""How right the phases of a request are, where it is known how long each has to be; needs a quiet machine.

    python bench/phases.py [--rounds 20]

Views sleep, burn a processor, wait for the only thread, read slowly and write slowly, under threads, asyncio and
gevent. Each line says what was to come, the median of what was measured beyond it and the worst one, in milliseconds,
and whether the median is within the bound. Exit status: how many are not.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Servers are started as the tests start them, and asked as they ask.
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE.parent / "tests/inside")]

import shared  # noqa: E402
from serving import Serving, read_reply  # noqa: E402

GET = "GET {} HTTP/1.1\r\nHost: a\r\n\r\n"
PAUSE = 0.3
#: While all threads are inside, somebody looks at sockets so often: what has come is here with the next look.
LOOK = 0.002
Took = dict[str, float]
#: What is wrong with one request's phases: seconds that were measured and are not what they should be.
Judge = Callable[[Took], float]


class Play:
    """A server of one worker, and what each request that is played on it has taken."""

    def __init__(self, *words: str) -> None:
        self.server = Serving(*words, "--workers", "1", cwd=HERE.parent / "tests/apps")
        self.shared = shared.statistics(self.server)
        self.played = 0
        self.before: Took = {}

    def begin(self) -> None:
        self.before = shared.spent(shared.settled(self.server, self.shared, self.played))

    def took(self, requests: int = 1) -> Took:
        """Of so many requests, played since `begin`."""
        self.played += requests
        found = shared.spent(shared.settled(self.server, self.shared, self.played))
        return {name: seconds - self.before[name] for name, seconds in found.items()}

    def ask(self, path: str) -> None:
        with self.server.connect() as sock:
            sock.sendall(GET.format(path).encode())
            read_reply(sock, bytearray())


def simple(path: str) -> Callable[[Play], Took]:
    def play(on: Play) -> Took:
        on.begin()
        on.ask(path)
        return on.took()

    return play


def slow_upload(on: Play) -> Took:
    on.begin()
    with on.server.connect() as sock:
        sock.sendall(b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab")
        time.sleep(PAUSE)
        sock.sendall(b"cd")
        read_reply(sock, bytearray())
    return on.took()


def slow_reader(on: Play) -> Took:
    on.begin()
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        sock.connect((on.server.host, on.server.port))
        sock.sendall(GET.format("/large").encode())
        sock.recv(1, socket.MSG_PEEK)
        time.sleep(PAUSE)
        read_reply(sock, bytearray())
    return on.took()


def two_that_burn(on: Play) -> Took:
    on.begin()
    both = [threading.Thread(target=on.ask, args=("/burn/0.2",)) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    return on.took(2)


def second_in_line(on: Play) -> Took:
    """Of the only thread the first request has 0.2 s; the second one waits for what is left of it."""
    on.begin()
    with on.server.connect() as first, on.server.connect() as second:
        first.sendall(GET.format("/sleep/0.2").encode())
        on.server.until(lambda: on.shared.totals()["inside"] == 1)
        came = time.monotonic()
        second.sendall(GET.format("/quick").encode())
        read_reply(first, bytearray())
        waited = time.monotonic() - came
        read_reply(second, bytearray())
    return {**on.took(2), "waited": waited}


def beyond(phase: str, seconds: float) -> Judge:
    return lambda took: took[phase] - seconds


def late(took: Took) -> float:
    """How far the queue is from what the client has waited for, from the look on that has found it."""
    apart = took["queue"] - took["waited"]
    return min(apart + LOOK, 0.0) if apart < 0 else apart


def sum_of_all(took: Took) -> float:
    """What phases do not add up to, beyond a hundredth."""
    apart = abs(sum(took[phase] for phase in ("receive", "queue", "gil", "app", "send")) - took["total"])
    return max(0.0, apart - 0.01 * took["total"])


#: What is asked, what is judged of it and within how many milliseconds, in words.
Plays = list[tuple[str, Callable[[Play], Took], list[tuple[str, Judge, float]]]]
PLAYS: Plays = [
    (
        "sleeps 50 ms",
        simple("/sleep/0.05"),
        [
            ("off is 50", beyond("off", 0.05), 1.0),
            ("cpu is none", beyond("cpu", 0), 0.5),
            ("phases add up", sum_of_all, 0.005),
        ],
    ),
    (
        "burns 20 ms",
        simple("/burn/0.02"),
        [("cpu is 20", beyond("cpu", 0.02), 1.0), ("phases add up", sum_of_all, 0.005)],
    ),
    # What is left to read when the reader begins takes its time.
    ("a reader is slow", slow_reader, [("app is none", beyond("app", 0), 10.0)]),
]
UPLOAD: Plays = [("a body comes slowly", slow_upload, [("receive is 300", beyond("receive", PAUSE), 1.0)])]
ON_THREADS: Plays = [
    (
        "two burn 200 ms each",
        two_that_burn,
        [
            ("cpu is 400", beyond("cpu", 0.4), 20.0),
            ("off is the rest", lambda took: took["app"] - took["cpu"] - took["off"], 0.001),
        ],
    ),
]
ONE_THREAD: Plays = [
    (
        "waits for the only thread",
        second_in_line,
        [("queue is the first's app", late, 1.0)],
    ),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    wrong = 0
    # A body is read inside of an ASGI application, if at all.
    more: dict[str, Plays] = {"threads": UPLOAD + ON_THREADS, "asyncio": [], "gevent": UPLOAD}
    servers = [(name, words, PLAYS + more[name]) for name, words in shared.applications("phases").items()]
    servers.append(("one thread", ("phases:application", "--threads", "1"), ONE_THREAD))
    for driver, words, plays in servers:
        on = Play(*words)
        try:
            for title, play, judges in plays:
                # The first of a kind have no figures of the route yet, by which the clock is read or not.
                for _ in range(3):
                    play(on)
                took = [play(on) for _ in range(given.rounds)]
                for what, judge, bound in judges:
                    apart = [judge(one) * 1000 for one in took]
                    middle, worst = statistics.median(apart), max(apart, key=abs)
                    holds = abs(middle) <= bound
                    wrong += not holds
                    print(f"{driver:10} {title:26} {what:24} {middle:+8.3f} ms, worst {worst:+8.3f}, "
                          f"bound {bound:g}: {'holds' if holds else 'DOES NOT HOLD'}", flush=True)  # fmt: skip
        finally:
            on.server.kill()
    return wrong


if __name__ == "__main__":
    sys.exit(main())
