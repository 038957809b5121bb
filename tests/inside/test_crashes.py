"""What is told of a worker that a fault in C has ended: which of many requests did it."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from contextlib import ExitStack
from socket import socket

import pytest
from serving import Serving, read_all
from shared import GET, applications, statistics

Serve = Callable[..., Serving]
DRIVERS = applications("crashing")
#: More than one line of the log names.
OTHERS = 10


def ask(server: Serving, path: str) -> socket:
    sock = server.connect()
    sock.sendall(GET.format(path, "a", "").encode())
    return sock


def crash_report(server: Serving, path: str) -> str:
    """What is said of a worker that ends at that path, while others wait in it: older ones, and one that came last."""
    with ExitStack() as stack:
        for number in range(OTHERS):
            stack.enter_context(ask(server, f"/waits/{number}"))
        server.until(lambda: statistics(server).totals()["inside"] == OTHERS)
        sock = stack.enter_context(ask(server, path))
        server.until(lambda: statistics(server).totals()["inside"] == OTHERS + 1)
        stack.enter_context(ask(server, "/last"))
        assert read_all(sock) == b""
        server.says("while it worked on")
    return next(line for line in server.log().splitlines() if "while it worked on" in line)


@pytest.mark.parametrize("driver", DRIVERS)
def test_the_request_that_did_it_is_named_first_though_many_others_were_inside(serve: Serve, driver: str) -> None:
    server = serve(*DRIVERS[driver], "--workers", "1")
    line = crash_report(server, "/broken")
    assert re.search(
        r" while it worked on: GET /broken for [\d.]+ m?s, which did it · GET /(waits/\d|last) for ", line
    ), line
    assert line.endswith(f" · and {OTHERS + 2 - 8} more") and line.count("which did it") == 1, line
    said = server.order("status")[1]
    assert re.search(r"while it worked on GET /broken for [\d.]+ m?s, which did it and 11 more", said), said


def test_where_a_thread_of_the_application_s_own_did_it_no_request_is_blamed(serve: Serve) -> None:
    server = serve(*DRIVERS["asyncio"], "--workers", "1")
    line = crash_report(server, "/elsewhere")
    assert "which did it" not in line and " while it worked on: GET /" in line, line


def test_how_many_have_waited_for_a_thread_is_told_too(serve: Serve) -> None:
    server = serve(*DRIVERS["threads"], "--workers", "1", "--threads", "1", "--queue-timeout", "0s")
    with ExitStack() as stack:
        stack.enter_context(ask(server, "/waits/0"))
        server.until(lambda: statistics(server).totals()["inside"] == 1)
        for number in range(1, 4):
            stack.enter_context(ask(server, f"/waits/{number}"))
        server.until(lambda: server.status()["workers"][0]["queued"] == 3)
        os.kill(server.status()["workers"][0]["pid"], signal.SIGKILL)
        server.says("while it worked on")
    line = next(line for line in server.log().splitlines() if "while it worked on" in line)
    assert re.search(r": GET /waits/0 for [\d.]+ m?s; 3 more waited in it for a thread, and are lost with it$", line), (
        line
    )


@pytest.mark.skipif("gevent" not in DRIVERS, reason="gevent is not installed")
def test_a_process_that_a_request_has_forked_does_not_say_whose_step_runs_in_the_worker(serve: Serve) -> None:
    server = serve(*DRIVERS["gevent"], "--workers", "1")
    # Its greenlet takes a thousand turns a second there.
    with ask(server, "/forks"):
        server.until(lambda: statistics(server).totals()["inside"] == 1)
        with ask(server, "/burns") as sock:
            assert read_all(sock) == b""
            server.says("while it worked on")
    assert re.search(r"worked on: GET /burns for [\d.]+ m?s, which did it · GET /forks for ", server.log()), (
        server.log()
    )
