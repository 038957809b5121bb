"""Requests that take long because of their clients: those that read slowly, and those that leave before their turn."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from serving import PATIENCE, Serving, read_reply
from shared import applications, told

Serve = Callable[..., Serving]
GET = "GET {} HTTP/1.1\r\nHost: a\r\n\r\n"
DRIVERS = applications("phases")
ONE_THREAD = {"threads": ("--threads", "1")}
#: Of a reply that does not fit into sockets.
LARGE = 8_000_000


def view(server: Serving, path: str) -> int:
    with server.connect() as sock:
        sock.sendall(GET.format(path).encode())
        return read_reply(sock, bytearray())[0]


def slow_reader(server: Serving) -> socket.socket:
    """A client that has asked for what is large, and reads nothing of it yet; as the server sees it, too."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    sock.settimeout(PATIENCE)
    sock.connect((server.host, server.port))
    sock.sendall(GET.format("/large").encode())
    server.until(lambda: sending(server))
    return sock


def sending(server: Serving) -> list[dict[str, Any]]:
    return [one for one in told(server, "--running") if one["state"] == "sending"]


def entry(server: Serving, path: str) -> str:
    """The line of the log of a request that was slow."""
    server.says(f"slow request: GET {path},")
    return next(line for line in server.log().splitlines() if f"slow request: GET {path}," in line)


@pytest.mark.parametrize("driver", DRIVERS)
def test_one_that_is_being_sent_does_not_have_the_line_of_another_that_has_its_thread(
    serve: Serve, driver: str
) -> None:
    server = serve(*DRIVERS[driver], "--workers", "1", "--slow-request", "0.2", *ONE_THREAD.get(driver, ()))
    with slow_reader(server) as sock:
        # The same thread, for as long as several looks take.
        assert view(server, "/sleep/1.3") == 200
        assert len(read_reply(sock, bytearray())[2]) == LARGE
    line = entry(server, "/large")
    assert re.search(
        r"slow request: GET /large, 200 after [\d.]+ s \(.*, sent [\d.]+ to a client that reads slowly\)$", line
    ), line
    other = entry(server, "/sleep/1.3")
    assert re.search(r": (\d) of \1 looks found its \w+ at \S+/phases\.py:\d+ in app", other), other


@pytest.mark.parametrize("driver", DRIVERS)
def test_what_its_worker_took_along_while_it_was_sent_was_sent_until_then(serve: Serve, driver: str) -> None:
    server = serve(*DRIVERS[driver], "--workers", "1")
    asked = time.monotonic()
    with slow_reader(server):
        seen = time.monotonic()
        shown = server.order("requests", "--running")[1]
        assert re.fullmatch(r"worker 1 \(\d+\) +sending +[\d.]+ s  GET /large\n", shown), shown
        assert view(server, "/sleep/0.3") == 200  # this is what is measured
        before = time.monotonic()
        os.kill(server.status()["workers"][0]["pid"], signal.SIGKILL)
        died = server.until(lambda: [one for one in told(server, "--failed") if one["request"] == "GET /large"])[0]
    assert (died["error"], died["died"]) == ("worker_died", "signal:SIGKILL")
    phases = died["phases"]
    assert phases["send"] >= before - seen, phases
    assert phases["app"] <= seen - asked, phases
    assert re.search(r"worked on: GET /large for [\d.]+ m?s, being sent", server.log()), server.log()


def test_of_one_that_has_waited_in_vain_it_is_said_that_its_client_had_left(serve: Serve, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    options = ("--workers", "1", "--threads", "1", "--slow-request", "0.2")
    server = serve("until_there:application", *options, env={"GATE": str(gate)})
    with server.connect() as first:
        first.sendall(GET.format("/wait").encode())
        server.until(lambda: told(server, "--running"))
        with server.connect() as second:
            second.sendall(GET.format("/later").encode())
            server.until(lambda: server.status()["workers"][0]["queued"] == 1)
            time.sleep(0.3)  # this is what is measured
        gate.touch()
        assert read_reply(first, bytearray())[0] == 200
    line = entry(server, "/later")
    assert re.search(r", its client had left after [\d.]+ s \(queued [\d.]+, application 0\.00\)$", line), line
