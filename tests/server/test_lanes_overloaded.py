"""More requests than are served in time: who waits, who makes room, and who is refused, in lanes."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from pathlib import Path

import pytest
from serving import Serving, read_reply
from taughtlanes import (
    CROWD,
    FOR_EVER,
    SLOW_THREADS,
    THREADS,
    Serve,
    answer,
    ask,
    asked,
    comes_to,
    crowd_of,
    queued,
    taught,
)


def replies_of(crowd: list[socket.socket]) -> list[tuple[int, dict[str, str]]]:
    """Status and fields of the only reply of each connection."""
    found = []
    for sock in crowd:
        with sock:
            found.append(read_reply(sock, bytearray())[:2])
    return found


def test_who_asks_for_most_makes_room_and_has_its_turn_like_everybody(serve: Serve) -> None:
    """One client has filled the queue: another one's requests are queued, and answered before most of its own."""
    limit = 6
    served = taught(serve, "--limit-queue", str(limit), "--fair-by", "header:X-Client")

    def of(client: str) -> socket.socket:
        sock = served.connect()
        sock.sendall(f"GET /report HTTP/1.1\r\nHost: a\r\nX-Client: {client}\r\n\r\n".encode())
        return sock

    greedy = [of("greedy") for _ in range(SLOW_THREADS + limit)]
    served.until(lambda: queued(served) == limit)
    # Clients have one of 256 shares by chance: of four hardly three have the same one as the other client.
    modest = [of(f"modest {number}") for number in range(4)]
    comes_to(served, "requests_not_queued", 4)
    ask(served, "/gate?open")
    answered = [status for status, _ in replies_of(modest)].count(200)
    assert answered >= 2
    assert [status for status, _ in replies_of(greedy)].count(503) == answered


def of_client(served: Serving, path: str, client: str) -> socket.socket:
    """A request that a proxy has sent for a client."""
    sock = served.connect()
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\n\r\n".encode())
    return sock


def test_clients_of_ipv4_are_told_apart_also_where_a_proxy_writes_their_addresses_as_those_of_ipv6(
    serve: Serve,
) -> None:
    """`::ffff:192.0.2.1` is one client, and no network with all others of IPv4."""
    limit = 6
    served = taught(serve, "--limit-queue", str(limit), "--fair-by", "client")
    greedy = [of_client(served, "/report", "::ffff:192.0.2.1") for _ in range(SLOW_THREADS + limit - 2)]
    greedy += [of_client(served, "/report", "192.0.2.1") for _ in range(2)]
    served.until(lambda: queued(served) == limit)
    modest = [of_client(served, "/report", f"::ffff:192.0.2.{number}") for number in range(2, 6)]
    comes_to(served, "requests_not_queued", 4)
    ask(served, "/gate?open")
    # Each has one of 256 shares by chance.
    assert [status for status, _ in replies_of(modest)].count(200) >= 2
    assert {status for status, _ in replies_of(greedy)} == {200, 503}


@pytest.mark.parametrize("threads", [2, THREADS])
def test_where_no_more_may_wait_who_matters_less_makes_room_for_who_matters_more(
    serve: Serve, tmp_path: Path, threads: int
) -> None:
    """At the front, where no route is told from others, and in a lane; the last of the lowest priority goes first."""
    said = ("--limit-queue", "3", "--priorities", "/report/1=low,/report/3=high")
    lanes = ("--lanes", "/report=slow") if threads == THREADS else ()
    served = serve("lanes:application", "--workers", "1", "--threads", str(threads), *FOR_EVER, *said, *lanes)
    go = tmp_path / "go"
    crowd = [asked(served, f"/report/0?{go}") for _ in range(threads - len(lanes) // 2)]
    served.until(lambda: served.status()["workers"][0]["busy"] == len(crowd))
    replies: list[tuple[str, socket.socket]] = []
    for path, waiting, refused in [("1", 1, 0), ("2", 2, 0), ("1", 3, 0), ("2", 3, 1), ("3", 3, 2), ("1", 3, 3)]:
        replies.append((path, asked(served, f"/report/{path}?{go}")))
        served.until(lambda waiting=waiting: queued(served) == waiting)
        served.counts("requests_not_queued", refused)
    replies += [(path, asked(served, f"/report/{path}?{go}")) for path in "333"]
    served.counts("requests_not_queued", 6)
    go.touch()
    assert sorted((path, answer(sock)[0]) for path, sock in replies) == [
        *[("1", 503)] * 3,
        *[("2", 503)] * 2,
        ("3", 200),
        ("3", 200),
        ("3", 200),
        ("3", 503),
    ]
    assert {answer(sock)[0] for sock in crowd} == {200}


def test_who_finds_a_free_thread_is_not_refused_however_few_may_wait(serve: Serve, tmp_path: Path) -> None:
    """What has come at the same time is read together, and is begun one after the other.

    Nobody else asks for anything meanwhile: the last thread has not always come back when its client has the reply.
    """
    for limit in (0, 1):
        go = tmp_path / f"go-{limit}"
        served = taught(serve, "--limit-queue", str(limit))
        worker = served.status()["workers"][0]["pid"]
        crowd = [served.connect() for _ in range(SLOW_THREADS)]
        served.until(lambda crowd=crowd: served.status()["workers"][0]["connections"] >= len(crowd))
        os.kill(worker, signal.SIGSTOP)
        for sock in crowd:
            sock.sendall(f"GET /report?{go} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        os.kill(worker, signal.SIGCONT)
        served.until(lambda: served.status()["workers"][0]["busy"] >= SLOW_THREADS)
        comes_to(served, "requests_not_queued", 0)
        go.touch()
        assert {answer(sock)[0] for sock in crowd} == {200}
        served.stop()


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_who_has_a_thread_does_not_count_among_those_that_wait(serve: Serve, tmp_path: Path, more: int) -> None:
    """A burst comes before threads have started: as many begin as there may be, and behind them the limit holds."""
    limit, go = 6, tmp_path / "go"
    served = taught(serve, "--limit-queue", str(limit))
    worker = served.status()["workers"][0]["pid"]
    crowd = [served.connect() for _ in range(SLOW_THREADS + limit + more)]
    served.until(lambda: served.status()["workers"][0]["connections"] >= len(crowd))
    os.kill(worker, signal.SIGSTOP)
    for sock in crowd:
        sock.sendall(f"GET /report?{go} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    os.kill(worker, signal.SIGCONT)
    refused = max(0, more)
    served.until(lambda: queued(served) == limit + min(0, more))
    comes_to(served, "requests_not_queued", refused)
    go.touch()
    assert sorted(answer(sock)[0] for sock in crowd) == [200] * (len(crowd) - refused) + [503] * refused


def test_who_waits_for_calls_that_take_long_is_not_refused_if_it_is_begun_in_time(serve: Serve) -> None:
    """Calls that were begun together end together: that none has ended for a while says nothing of how fast they are.

    Four wait for two calls of a second: that is two seconds, where four are thought to be too long.
    """
    said = ("--threads", "3", "--lanes", "/report=slow", "--queue-timeout", "8s", "--newest-first-after", "0s")
    served = serve("lanes:application", "--workers", "1", *said)
    crowd = [asked(served, *["/report?1"] * 3) for _ in range(6)]
    for sock in crowd:
        with sock:
            buffer = bytearray()
            assert [read_reply(sock, buffer)[0] for _ in range(3)] == [200] * 3


@pytest.mark.parametrize("more", [True, False], ids=["there may be more", "there may be no more"])
def test_who_waits_for_threads_of_which_there_may_be_more_soon_is_not_refused_by_what_these_finish(
    serve: Serve, more: bool
) -> None:
    """59 wait for 31 calls of two seconds, nearly four: more than half of what may be, and a quarter with 128."""
    auto = ("--threads", "auto", *(() if more else ("--threads-max", "32")))
    said = ("--queue-timeout", "7s", "--newest-first-after", "0s")
    served = serve("lanes:application", "--workers", "1", *auto, *said)
    crowd = [asked(served, *["/report?2"] * 2) for _ in range(90)]
    statuses = []
    for sock in crowd:
        with sock:
            buffer = bytearray()
            statuses += [read_reply(sock, buffer)[0] for _ in range(2)]
    refused = served.counters().get("requests_not_in_time", 0)
    assert statuses.count(503) == refused
    assert refused == 0 if more else refused > 0, statuses


def test_who_began_before_anybody_knew_the_route_counts_among_those_that_are_done(serve: Serve) -> None:
    """Of three threads each ends a call in two seconds: fifteen wait for ten, where half a minute may be waited.

    By the second three alone, which were begun after the first had shown that they are slow, it would be twenty.
    """
    said = ("--threads", "4", "--queue-timeout", "30s", "--newest-first-after", "0s")
    served = serve("lanes:application", "--workers", "1", *said)
    crowd = [asked(served, "/report?2") for _ in range(18)]
    for _ in range(6):
        readable = select.select(crowd, [], [], 30)[0][0]
        crowd.remove(readable)
        assert answer(readable)[0] == 200
    crowd += [asked(served, "/report?2") for _ in range(6)]
    served.until(lambda: queued(served) + served.counters().get("requests_not_in_time", 0) >= 15)
    assert served.counters().get("requests_not_in_time", 0) == 0
    for sock in crowd:
        sock.close()


#: One slow request is inside at a time: the only thread's, that which is not kept, as many as its route may have
#: inside, or as the hub runs.
ONE_INSIDE = {
    "one thread": ("--threads", "1"),
    "one thread for which clients take turns": ("--threads", "1", "--fair-by", "client"),
    "a slow lane": ("--threads", "2", "--lanes", "/report=slow"),
    "a limited route": ("--threads", str(THREADS), "--route-limits", "/report=1"),
    "gevent": ("--worker-class", "gevent", "--worker-connections", "1"),
}


@pytest.mark.parametrize(
    ("where", "after", "order"),
    [*((where, "20ms", "0 6 1 5 2 4 3") for where in ONE_INSIDE), ("a slow lane", "0s", "0 1 2 3 4 5 6")],
)
def test_the_newest_and_the_oldest_begin_in_turn_where_the_oldest_has_waited_too_long(
    serve: Serve, tmp_path: Path, where: str, after: str, order: str
) -> None:
    """Whoever comes while a queue does not move is served in time, and nobody is left behind; 0: as they came."""
    go = tmp_path / "go"
    options = (*ONE_INSIDE[where], *FOR_EVER, "--newest-first-after", after)
    served = serve("lanes:application", "--workers", "1", *options)
    crowd = [asked(served, f"/report/0?{go}")]
    served.until(lambda: served.status()["workers"][0]["busy"] == 1)
    for number in range(1, 7):
        crowd.append(asked(served, f"/report/{number}?{go}"))
        served.until(lambda number=number: queued(served) == number)
    last = time.monotonic()
    served.until(lambda: time.monotonic() > last + 0.05)
    go.touch()
    assert {answer(sock)[0] for sock in crowd} == {200}
    assert ask(served, "/begun").decode() == order
    served.counts("requests_newest_first", 3 if after != "0s" else 0)


def test_it_is_told_that_the_newest_and_the_oldest_begin_in_turn(serve: Serve) -> None:
    """Once, and by which option that is decided."""
    served = taught(serve, "--newest-first-after", "50ms")
    crowd = crowd_of(served, "/report")
    words = "the oldest has waited for more than 0.05 s (--newest-first-after): the newest and the oldest begin in turn"
    served.says(words)
    served.until(lambda: words in served.order("status")[1])
    ask(served, "/gate?open")
    assert {answer(sock)[0] for sock in crowd} == {200}


def test_those_that_are_refused_together_are_told_to_come_back_at_different_times(serve: Serve) -> None:
    """Otherwise they would be refused together again."""
    served = taught(serve, "--limit-queue", "1")
    crowd = crowd_of(served, "/report")
    comes_to(served, "requests_not_queued", CROWD - SLOW_THREADS - 1)
    ask(served, "/gate?open")
    refused = [fields["retry-after"] for status, fields in replies_of(crowd) if status == 503]
    assert set(refused) == {"1", "2", "3"}
