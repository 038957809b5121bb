"""A stop in the midst of something else: it is soon over, and nobody has to be killed."""

from __future__ import annotations

import importlib.util
import os
import signal
from collections.abc import Callable

import pytest
from serving import Serving, read_reply

Serve = Callable[..., Serving]
ASGI = ("pages:asgi", "--lifespan", "off")
DRIVERS = {"threads": ("pages:wsgi",), "asyncio": (*ASGI, "--loop", "asyncio")}
if importlib.util.find_spec("uvloop"):
    DRIVERS["uvloop"] = (*ASGI, "--loop", "uvloop")
if importlib.util.find_spec("gevent"):
    DRIVERS["gevent"] = ("pages:wsgi", "--worker-class", "gevent")


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_stop_does_not_wait_for_idle_connections_of_a_worker_that_was_leaving(serve: Serve, driver: str) -> None:
    """It would for longer than any test waits, were the old worker still to be replaced."""
    server = serve(*DRIVERS[driver], "--drain-keep-alive", "5m", "--graceful-timeout", "5m")
    old = server.workers[0]
    with server.connect() as idle:
        idle.sendall(b"GET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
        assert read_reply(idle, bytearray())[0] == 200
        os.kill(server.pid, signal.SIGHUP)
        server.until(lambda: [one["state"] for one in server.status()["workers"] if one["pid"] == old] == ["leaving"])
        assert server.stop() == 0
        assert idle.recv(1) == b""
    assert "killed" not in server.log() and "cut" not in server.log()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("stop",), "forehand: stopping: waiting up to 30 s for running"),
        (("stop", "--now"), "forehand: stopping at once\n"),
    ],
)
def test_who_reads_the_log_sees_that_a_stop_was_asked_for(serve: Serve, words: tuple[str, ...], told: str) -> None:
    server = serve("pages:wsgi")
    assert server.order(*words) == (0, "the server has stopped\n")
    assert server.log().count(told) == 1
