"""A worker that has lost a thread is replaced when nothing computes in another one, or two seconds later.

How fast a machine is does not matter: what shall be seen is waited for.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

from serving import Serving, read_all, read_reply

Serve = Callable[..., Serving]
Shop = Callable[..., Path]
TIMEOUTS = '[request_timeouts]\n"/deadlock" = 0.3\n"/" = 0\n'
#: It burns by the clock, not by the processor: longer than a deadline and its grace, and shorter than two seconds more.
COMPUTES = """
def computes(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/compute":
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            pass
    elif path == "/deadlock":
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
    start_response("200 OK", [("Content-Length", "4")])
    return [b"done"]
"""
STALE = re.compile(r"^(\S+ \S+)Z \[\d+\] debug: decided: stale \d+ GET /deadlock .* -> spawn", re.MULTILINE)


def ask(sock: socket.socket, path: str) -> socket.socket:
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    return sock


def replaced(server: Serving) -> list[float]:
    """When it was decided to replace a worker, each time, in seconds since 1970."""
    times = [datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S.%f") for found in STALE.finditer(server.log())]
    return [time.replace(tzinfo=timezone.utc).timestamp() for time in times]


def one_is_lost_while_another_computes(server: Serving) -> tuple[float, float]:
    """When the latter was done, and when the former's worker was to be replaced."""
    before = len(replaced(server))
    kept = [server.connect() for _ in range(8)]
    for sock in kept:
        read_reply(ask(sock, "/"), bytearray())
    with server.connect() as lost, server.connect() as computes:
        ask(lost, "/deadlock")
        server.until(lambda: sum(worker["busy"] for worker in server.status()["workers"]) >= 1)
        ask(computes, "/compute")
        # Who waits beside it shows that it computes.
        for sock in kept:
            ask(sock, "/")
        assert read_reply(computes, bytearray())[0] == 200
        done = datetime.now(timezone.utc).timestamp()
        assert read_all(lost).startswith(b"HTTP/1.1 504 ")
    for sock in kept:
        sock.close()
    server.until(lambda: len(replaced(server)) > before)
    server.until(lambda: all(worker["state"] == "ready" for worker in server.status()["workers"]))
    return done, replaced(server)[before]


def test_a_worker_with_a_lost_thread_is_replaced_when_what_computes_in_another_one_is_over(
    serve: Serve, shop: Shop
) -> None:
    folder = shop(extra=COMPUTES)
    (folder / "forehand.toml").write_text(TIMEOUTS)
    graces = ("--request-timeout-grace", "300ms", "--graceful-timeout", "300ms")
    server = serve("shop:computes", "--workers", "2", *graces, "--log-level", "debug", cwd=folder)

    def is_waited_for() -> bool:
        done, at = one_is_lost_while_another_computes(server)
        # Its reply is read a moment after it was sent.
        return at > done - 0.05

    # Both may come to one worker, and on a busy machine it may show late that one computes.
    server.until(is_waited_for)
