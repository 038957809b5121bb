"""Requests that compute, beside many that do not: one worker takes all of the first kind, and the others have the rest.

How fast a machine is does not matter: what shall be seen is waited for.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from serving import Serving, read_reply
from test_computing import BURN, ask, reply

Serve = Callable[..., Serving]
TWO = ("--workers", "2", "--threads", "8")
#: Clients that keep their connections and ask for something short in turn, with so long in between, in seconds.
KEPT, PAUSE = 8, 0.005
#: Between two views that compute.
REST = 0.2
#: What computes is forgotten by an eighth a second (`server/apart.rs`).
FORGOTTEN = 60.0


class Clients:
    """Who has answered, of late; and what has failed."""

    def __init__(self, served: Serving) -> None:
        self.served = served
        self.over = threading.Event()
        self.views_over = threading.Event()
        #: The last answers of each kind, as processes.
        self.views: list[int] = []
        self.short: list[int] = []
        self.failed: list[BaseException] = []
        self.threads = [threading.Thread(target=self.guarded, args=(what,)) for what in (self.compute, self.keep)]

    def guarded(self, what: Callable[[], None]) -> None:
        try:
            what()
        except BaseException as error:
            self.failed.append(error)

    def compute(self) -> None:
        """A view on a new connection, and the next one."""
        while not self.over.is_set() and not self.views_over.is_set():
            with ask(self.served.connect(), BURN) as sock:
                self.views.append(reply(sock)[0])
            time.sleep(REST)

    def keep(self) -> None:
        """Short requests on connections that are kept, one after the other."""
        kept = kept_by_two(self.served)
        while not self.over.is_set():
            for place, sock in enumerate(kept):
                status, fields, body = read_reply(ask(sock, "/"), bytearray())
                assert status == 200, (status, body)
                self.short.append(int(body.split()[0]))
                if fields.get("connection") == "close":
                    # Its worker ends.
                    sock.close()
                    kept[place] = self.served.connect()
                time.sleep(PAUSE)
        for sock in kept:
            sock.close()


def kept_by_two(served: Serving) -> list[socket.socket]:
    """Idle connections, as many of each worker: were all of one, views would go to the other."""
    kept: dict[int, list[socket.socket]] = {}
    busy: list[socket.socket] = []
    while len(kept) < 2 or min(map(len, kept.values())) < KEPT // 2:
        sock = ask(served.connect(), "/")
        socks = kept.setdefault(reply(sock)[0], [])
        socks.append(sock)
        if len(socks) >= KEPT // 2:
            # Meanwhile new ones go to the other.
            busy.append(ask(sock, BURN))
    for sock in busy:
        reply(sock)
    for socks in kept.values():
        for sock in socks[KEPT // 2 :]:
            sock.close()
    return [sock for socks in kept.values() for sock in socks[: KEPT // 2]]


@contextmanager
def clients(served: Serving) -> Iterator[Clients]:
    """Both kinds, until the end."""
    found = Clients(served)
    for thread in found.threads:
        thread.start()
    try:
        yield found
    finally:
        found.over.set()
        for thread in found.threads:
            thread.join()
    assert not found.failed, found.failed


def takes_them(served: Serving) -> int:
    """The process that takes what computes; zero: none does."""
    found = [one["pid"] for one in served.status()["workers"] if one["state"] == "ready" and one["apart"]]
    assert len(found) <= 1, found
    return found[0] if found else 0


def is_stopped(process: int) -> bool:
    """Whether all of its threads are (proc(5))."""
    stats = [path.read_text() for path in Path(f"/proc/{process}/task").glob("*/stat")]
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


def test_one_worker_takes_what_computes_and_leaves_the_rest_to_the_others_until_there_is_no_more(serve: Serve) -> None:
    served = serve("computing", *TWO)
    with clients(served) as found:
        apart = served.until(lambda: takes_them(served), FORGOTTEN)
        assert apart == served.status()["workers"][0]["pid"], "the first one, so that all agree on it"

        def is_apart() -> bool:
            return set(found.views[-5:]) == {apart} and apart not in found.short[-4 * KEPT :]

        served.until(is_apart, FORGOTTEN)
        served.says("takes the requests that compute from all workers")
        # On a busy machine that may have ended by now, and begins anew.
        told = f"worker {served.status()['workers'][0]['worker']} takes the requests that compute"
        served.until(lambda: told in served.order("status")[1], FORGOTTEN)
        found.views_over.set()
        served.until(lambda: not takes_them(served), FORGOTTEN)
        # Its clients come back to it, as far as they were its own.
        served.until(lambda: len(set(found.short[-KEPT:])) == 2, FORGOTTEN)


def test_none_does_where_that_is_switched_off(serve: Serve) -> None:
    served, off = serve("computing", *TWO), serve("computing", *TWO, "--no-computing-apart")
    with clients(off), clients(served):
        served.until(lambda: takes_them(served), FORGOTTEN)
        assert not takes_them(off) and "takes the requests that compute" not in off.log()


def test_what_that_worker_does_not_take_in_time_is_taken_back(serve: Serve) -> None:
    served = serve("computing", *TWO)
    with clients(served) as found:
        apart = served.until(lambda: takes_them(served), FORGOTTEN)
        served.until(lambda: found.views[-1:] == [apart], FORGOTTEN)
        with served.connect() as sock:
            served.until(lambda: reply(ask(sock, "/"))[0] != apart, FORGOTTEN)
            os.kill(apart, signal.SIGSTOP)
            try:
                # One of its threads tells the others, when it has a processor: until then they go on.
                served.until(lambda: is_stopped(apart), FORGOTTEN)
                # Its requests stand still, and those that it would have had are answered by whoever has read them.
                assert reply(ask(sock, BURN))[0] != apart
            finally:
                os.kill(apart, signal.SIGCONT)
        # It goes on, with what had come to it before.
        answered = len(found.views)
        served.until(lambda: len(found.views) > answered, FORGOTTEN)


def test_a_reload_loses_none_of_them(serve: Serve) -> None:
    served = serve("computing", *TWO)
    with clients(served) as found:
        before = served.until(lambda: takes_them(served), FORGOTTEN)
        status, said = served.order("reload")
        assert status == 0, said
        answered = len(found.views)
        served.until(lambda: len(found.views) >= answered + 5, FORGOTTEN)
        assert before not in found.views[answered + 1 :]
