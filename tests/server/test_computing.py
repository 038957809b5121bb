"""Views that compute: one at a time in a worker, where it is known that they do, and in another worker if that is free.

How fast a machine is does not matter: what shall be seen is waited for.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from serving import Serving, read_reply

Serve = Callable[..., Serving]
#: Long enough to be known as computing, in seconds of a processor.
BURN = "/burn?0.05"
#: The same without the interpreter, and how often it is asked for until that is known.
HASH, LESSONS = "/hash?0.05", 3


def ask(sock: socket.socket, path: str) -> socket.socket:
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    return sock


def reply(sock: socket.socket) -> tuple[int, int]:
    """Which process has answered, and how many views computed there when this one began."""
    status, _, body = read_reply(sock, bytearray())
    assert status == 200, (status, body)
    process, beside = body.decode().split()
    return int(process), int(beside)


def test_a_view_that_computes_waits_for_the_one_that_does(serve: Serve) -> None:
    served = serve("computing", "--workers", "1", "--threads", "8")

    def one_has_waited() -> bool:
        before = served.counters()["requests_held_back"]
        pair = [ask(served.connect(), BURN)]
        with ask(served.connect(), "/") as sock:
            # It has waited for the interpreter, if the other one was inside.
            reply(sock)
        pair.append(ask(served.connect(), BURN))
        beside = [reply(sock)[1] for sock in pair]
        for sock in pair:
            sock.close()
        # On a busy machine one may have waited for as long as it does, and begun beside the other.
        return served.counters()["requests_held_back"] > before and beside == [0, 0]

    served.until(one_has_waited)
    # What is short does not wait for it, and more than may wait begin as they did before.
    crowd = [ask(served.connect(), BURN) for _ in range(20)]
    with ask(served.connect(), "/") as sock:
        assert reply(sock)[1] == 0
    assert len([reply(sock) for sock in crowd]) == 20
    for sock in crowd:
        sock.close()


def test_views_that_compute_without_the_interpreter_do_not_wait_for_one_another(serve: Serve) -> None:
    served = serve("computing", "--workers", "1", "--threads", "8")

    def two_were_inside() -> bool:
        pair = [ask(served.connect(), HASH)]
        with ask(served.connect(), "/") as sock:
            reply(sock)
        pair.append(ask(served.connect(), HASH))
        beside = [reply(sock)[1] for sock in pair]
        for sock in pair:
            sock.close()
        return beside == [0, 1]

    for _ in range(LESSONS):
        with ask(served.connect(), HASH) as sock:
            reply(sock)
    served.until(two_were_inside)


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


def all_are_told(served: Serving) -> bool:
    counted = served.counters()
    return counted["requests_handed_over"] == counted["requests_taken_over"] >= 1


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
