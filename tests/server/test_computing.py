"""Views that compute: one at a time in a worker, where it is known that they do, and in another worker if that is free.

How fast a machine is does not matter: what shall be seen is waited for.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from pathlib import Path

from serving import PATIENCE, Serving, read_reply

Serve = Callable[..., Serving]
ONE = ("--workers", "1", "--threads", "8")
#: Long enough to be known as computing, in seconds of a processor.
BURN = "/burn?0.05"
#: The same without the interpreter, and how often it is asked for until that is known.
HASH, LESSONS = "/hash?0.05", 3
#: A worker that has two or three requests inside which only wait is not busier than that.
AT_REST = 8
#: Too long to be waited for.
LONG = "/burn?0.3"


def ask(sock: socket.socket, path: str) -> socket.socket:
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    return sock


def reply(sock: socket.socket) -> tuple[int, int]:
    """Which process has answered, and how many views computed there when this one began."""
    status, _, body = read_reply(sock, bytearray())
    assert status == 200, (status, body)
    process, beside = body.decode().split()
    return int(process), int(beside)


def one_after_the_other(served: Serving, path: str) -> list[socket.socket]:
    """Two that are asked for, and a short one in between: it waits for the interpreter if the first one holds that."""
    first = ask(served.connect(), path)
    with ask(served.connect(), "/") as sock:
        reply(sock)
    return [first, ask(served.connect(), path)]


def beside(pair: list[socket.socket]) -> list[int]:
    """How many computed when each of them began."""
    found = [reply(sock)[1] for sock in pair]
    for sock in pair:
        sock.close()
    return found


def held_back(served: Serving) -> int:
    return served.counters()["requests_held_back"]


def one_has_waited(served: Serving) -> bool:
    before = held_back(served)
    # On a busy machine one may have waited for as long as it does, and begun beside the other, or come too late.
    return beside(one_after_the_other(served, BURN)) == [0, 0] and held_back(served) > before


def test_a_view_that_computes_waits_for_the_one_that_does(serve: Serve) -> None:
    served = serve("computing", *ONE)

    def one_is_shown_to_wait() -> bool:
        pair = one_after_the_other(served, BURN)
        queued = served.status()["workers"][0]["queued"]
        beside(pair)
        return bool(queued == 1)

    served.until(lambda: one_has_waited(served))
    served.until(one_is_shown_to_wait)
    # What is short does not wait for it, and more than may wait begin as they did before.
    crowd = [ask(served.connect(), BURN) for _ in range(20)]
    with ask(served.connect(), "/") as sock:
        assert reply(sock)[1] == 0
    assert len(beside(crowd)) == 20


def test_views_that_compute_without_the_interpreter_do_not_wait_for_one_another(serve: Serve) -> None:
    served = serve("computing", *ONE)
    for _ in range(LESSONS):
        with ask(served.connect(), HASH) as sock:
            reply(sock)
    served.until(lambda: beside(one_after_the_other(served, HASH)) == [0, 1])


def test_a_new_worker_knows_what_has_computed_in_the_one_before(serve: Serve) -> None:
    served = serve("computing", *ONE)
    for _ in range(10):
        with ask(served.connect(), BURN) as sock:
            reply(sock)

    def one_has_waited_at_once() -> bool:
        assert served.order("reload")[0] == 0
        return one_has_waited(served)

    served.until(one_has_waited_at_once)


def test_one_that_waits_while_the_interpreter_is_held_is_refused_in_time_as_others_are(serve: Serve) -> None:
    """Nobody leads then, and what waits for a view that computes would wait for whoever holds the interpreter."""
    served = serve("computing", *ONE, "--queue-timeout", "1s")
    # Until it is known what computes it is not even tried: each time takes three seconds.
    served.until(lambda: one_has_waited(served))

    def one_is_refused() -> bool:
        before = held_back(served)
        pair = one_after_the_other(served, BURN)
        holds = ask(served.connect(), "/hold?3")
        status = read_reply(pair[1], bytearray())[0]
        # Or the first was over before: then the next has begun, or is one that nobody has held back.
        in_time = not select.select([holds, pair[0]], [], [], 0)[0]
        reply(holds)
        reply(pair[0])
        waited = held_back(served) > before and status == 503 and in_time
        for sock in (*pair, holds):
            sock.close()
        return waited

    served.until(one_is_refused)


def test_a_view_that_computes_goes_to_a_worker_where_none_does(serve: Serve) -> None:
    served = serve("computing", "--workers", "2", "--threads", "8")

    def one_has_gone() -> bool:
        pair = kept_by_one(served)
        processes = {reply(sock)[0] for sock in [ask(sock, BURN) for sock in pair]}
        for sock in pair:
            sock.close()
        return len(processes) == 2

    served.until(one_has_gone)
    # Each worker tells its own a little later.
    served.until(lambda: all_are_told(served))


def test_clients_leave_before_a_view_that_is_known_to_compute_for_long(serve: Serve, tmp_path: Path) -> None:
    """And not when it has shown that: the first short request beside it is answered by another worker."""
    begun = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    begun.bind(str(tmp_path / "begun"))
    begun.settimeout(PATIENCE)
    tells = {"COMPUTING_BEGUN": str(tmp_path / "begun")}
    served = serve("computing", "--workers", "2", "--threads", "8", env=tells)

    def one_has_left() -> bool:
        pair = kept_by_one(served)
        with ask(served.connect(), "/"):
            ask(pair[0], LONG)
            # Before that a short one may be read together with it, and is answered there.
            begun.recv(16)
            # Where it has not left the first of these waits for the interpreter, and whoever answers knows more then.
            beside = {reply(ask(pair[1], "/"))[0] for _ in range(3)}
            burnt = reply(pair[0])[0]
        for sock in pair:
            sock.close()
        return burnt not in beside

    # It is known after some rounds, of which each takes seconds where the machine has other work.
    served.until(one_has_left, patience=6 * PATIENCE)
    begun.close()


def test_what_one_worker_has_found_to_compute_for_long_another_one_knows_before_its_first(
    serve: Serve, tmp_path: Path
) -> None:
    begun = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    begun.bind(str(tmp_path / "begun"))
    begun.settimeout(PATIENCE)
    tells = {"COMPUTING_BEGUN": str(tmp_path / "begun")}

    def is_known_there() -> bool:
        """With a server of its own each time: from its second one on a worker knows by itself."""
        served = serve("computing", "--workers", "2", "--threads", "8", "--log-level", "debug", env=tells)
        here, there = kept_by_each(served, 3)
        # Something slow is inside: else nothing is measured.
        for kept in (here, there):
            ask(kept.pop(), "/rest?600")

        def shorts_beside_a_long_one(kept: list[socket.socket]) -> tuple[int, set[int]]:
            ask(kept[0], LONG)
            begun.recv(16)
            beside = {reply(ask(kept[1], "/"))[0] for _ in range(3)}
            return reply(kept[0])[0], beside

        def is_told() -> bool:
            shorts_beside_a_long_one(here)
            return "GET /burn computes for 3" in served.log()

        def nothing_computes() -> bool:
            return all(one["strained"] == 0 and one["level"] < AT_REST for one in served.status()["workers"])

        served.until(is_told, patience=6 * PATIENCE)
        # Until then nobody would leave for there.
        served.until(nothing_computes)
        computes, beside = shorts_beside_a_long_one(there)
        served.kill()
        return computes not in beside

    assert any(is_known_there() for _ in range(5))
    begun.close()


def all_are_told(served: Serving) -> bool:
    counted = served.counters()
    return counted["requests_handed_over"] == counted["requests_taken_over"] >= 1


def kept_by_each(served: Serving, count: int) -> list[list[socket.socket]]:
    """So many idle connections of each of two workers: they are asked for while others are busy."""
    while True:
        kept: dict[int, list[socket.socket]] = {}
        for sock in [ask(served.connect(), "/rest?0.3") for _ in range(4 * count)]:
            kept.setdefault(reply(sock)[0], []).append(sock)
        if len(kept) == 2 and all(len(socks) >= count for socks in kept.values()):
            return [socks[:count] for socks in kept.values()]
        for sock in (sock for socks in kept.values() for sock in socks):
            sock.close()


def kept_by_one(served: Serving) -> list[socket.socket]:
    """Two idle connections of one worker."""
    kept: dict[int, socket.socket] = {}
    while True:
        sock = ask(served.connect(), "/")
        process = reply(sock)[0]
        if process in kept:
            pair = [kept.pop(process), sock]
            for other in kept.values():
                other.close()
            return pair
        kept[process] = sock
