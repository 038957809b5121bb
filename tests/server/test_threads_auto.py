"""`--threads auto`: more threads where they finish more, and no more than that."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from serving import Serving, read_reply
from taughtlanes import FOR_EVER, SLOW, Serve, answer, asked, at_once, crowd_on

AUTO = ("--workers", "1", "--threads", "auto")
#: For so long it is waited for figures, in seconds: where chance has spoilt them, more are tried half a minute later.
PATIENCE = 120.0


@contextmanager
def quick_clients(served: Serving, count: int) -> Iterator[list[int]]:
    """So many that ask for something quick again and again, and the status of each answer."""
    answers: list[int] = []

    def client(over: threading.Event) -> None:
        received = bytearray()
        with served.connect() as sock:
            while not over.is_set():
                sock.sendall(b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n")
                answers.append(read_reply(sock, received)[0])
                over.wait(0.001)

    with at_once(count, client):
        yield answers


def test_threads_become_more_while_requests_wait_for_one(serve: Serve) -> None:
    """Whether they stay is for figures to say: that more are tried does not depend on the machine.

    Each connection has said at once all that it will ask: requests wait however seldom this process has its turn.
    """
    served = serve("lanes:application", "--workers", "1", "--threads", "auto", "--threads-max", "40", *FOR_EVER)
    crowd = [asked(served, *[f"/report?{SLOW / 4}"] * 300) for _ in range(48)]
    served.says("threads: from 32 to 40: requests wait")
    # Who follows it begins with as many: it is held where it is, so that none are fewer meanwhile.
    (worker,) = served.workers

    def is_held_with_more() -> bool:
        os.kill(worker, signal.SIGSTOP)
        if served.status()["workers"][0]["threads"] == 40:
            return True
        os.kill(worker, signal.SIGCONT)
        return False

    served.until(is_held_with_more)
    served.until(lambda: "threads from 32 to 40: requests wait" in served.order("status", "--verbose")[1])
    assert served.order("reload")[0] == 0
    served.says("threads: 40 from the start: another worker has come to as many")
    os.kill(worker, signal.SIGCONT)
    for sock in crowd:
        with sock:
            assert read_reply(sock, bytearray())[0] == 200


def test_where_calls_take_a_second_half_as_many_threads_more_are_tried_at_once(serve: Serve) -> None:
    served = serve("lanes:application", "--workers", "1", "--threads", "auto", *FOR_EVER)
    crowd = [asked(served, *["/report?1"] * 20) for _ in range(70)]
    served.says("threads: from 32 to 48: requests wait")
    for sock in crowd:
        sock.close()


def test_where_calls_do_not_end_there_are_threads_for_all_before_it_is_known_what_these_finish(
    serve: Serve, tmp_path: Path
) -> None:
    """As of a view that waits for a language model: whoever waited until some have ended would be refused."""
    go = tmp_path / "go"
    served = serve("lanes:application", "--workers", "1", "--threads", "auto", *FOR_EVER)
    crowd = [asked(served, f"/quick?{go}") for _ in range(100)]
    served.until(lambda: served.status()["workers"][0]["busy"] == len(crowd))
    for change in ("from 32 to 48", "from 48 to 72", "from 72 to 108"):
        served.says(f"threads: {change}: requests wait ")
    served.says(" s none has ended: what more finish is seen later")
    go.touch()
    assert {answer(sock) for sock in crowd} == {(200, b"ok")}


def test_threads_that_may_not_become_more_say_so(serve: Serve) -> None:
    """In the log and in `forehand status`, which keeps it: whoever reads it knows which option it is about."""
    served = serve("lanes:application", "--workers", "1", "--threads", "auto", "--threads-max", "4", *FOR_EVER)
    crowd = [asked(served, *[f"/report?{SLOW / 4}"] * 300) for _ in range(16)]
    served.says("--threads-max allows no more")
    served.until(lambda: "threads 4 stay: requests wait" in served.order("status", "--verbose")[1])
    for sock in crowd:
        with sock:
            assert read_reply(sock, bytearray())[0] == 200


@pytest.mark.parametrize(
    ("path", "verdict"),
    [("/report?1", "threads: 72 stay: "), ("/pool?0.1", "threads: from 48 to 32: ")],
    ids=["more finish more", "four connections to a database"],
)
def test_more_threads_stay_if_they_finish_more_though_most_requests_are_quick(
    serve: Serve, path: str, verdict: str
) -> None:
    """However many quick requests come beside, which hardly need a thread."""
    served = serve("lanes:application", *AUTO, *FOR_EVER)
    with quick_clients(served, 4) as quick, crowd_on(served, path, 64) as slow:
        served.until(lambda: verdict in served.log(), PATIENCE)
    assert set(quick) == {404} and {status for status, _ in slow} == {200}
