"""`--shutdown-delay`: who sends requests hears of a stop while everything is still answered."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from h2client import NO_ERROR, Client
from serving import PATIENCE, Serving, read_reply
from shared import Watched

Serve = Callable[..., Serving]
QUICK = b"GET /quick HTTP/1.1\r\nHost: a\r\n\r\n"
#: Longer than any test lasts: what ends it is what the test says.
LONG = "10m"
DRIVERS = {"threads": ("phases:application", ()), "asyncio": ("phases:app", ("--interface", "asgi"))}
if importlib.util.find_spec("gevent"):
    DRIVERS["gevent"] = ("phases:application", ("--worker-class", "gevent"))


def sent_away(server: Serving) -> bool:
    """A new connection has one reply and no more. Workers hear of the stop a moment after the supervisor has told
    them: those that are there when it begins, and one that comes later when it is ready."""
    with server.connect() as new:
        new.sendall(QUICK)
        status, fields, _ = read_reply(new, bytearray())
        assert status == 200
        return fields.get("connection") == "close"


@pytest.mark.parametrize("driver", DRIVERS)
def test_everybody_is_answered_and_sent_away_until_a_second_signal(serve: Serve, tmp_path: Path, driver: str) -> None:
    target, options = DRIVERS[driver]
    watched = Watched(serve, tmp_path, "--workers", "1", "--shutdown-delay", LONG, *options, target=target)
    server = watched.server
    with server.connect() as kept:
        kept.sendall(QUICK)
        assert "connection" not in read_reply(kept, bytearray())[1]
        os.kill(server.pid, signal.SIGTERM)
        server.until(lambda: watched.ask("/readyz")[0] == 503)
        assert "[-] it is not stopping" in watched.ask("/readyz")[1]
        assert (watched.ask("/livez")[0], watched.ask("/startupz")[0]) == (200, 200)
        server.until(lambda: sent_away(server))
        kept.sendall(QUICK)
        assert read_reply(kept, bytearray())[1]["connection"] == "close"
        assert kept.recv(1) == b"", "a connection that was kept has had its last reply"
    assert server.process.poll() is None
    server.says("stopping in 600 s (--shutdown-delay)")
    assert server.stop() == 0
    assert "cut" not in server.log()


def test_a_connection_of_streams_is_sent_away_with_a_reply(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--bind=h2c://127.0.0.1:0", "--workers", "1", "--shutdown-delay", LONG)
    server = watched.server
    with Client(server.port) as kept, Client(server.port) as new:
        assert kept.get("/quick") == b"0" and not kept.farewells
        os.kill(server.pid, signal.SIGTERM)
        server.until(lambda: watched.ask("/readyz")[0] == 503)
        server.until(lambda: kept.get("/quick") == b"0" and kept.farewells)
        assert new.get("/quick") == b"0", "who comes now is answered, too"
        for client in (kept, new):
            while not client.ended:
                client.events()
            assert [code for _, code in client.farewells] == [NO_ERROR, NO_ERROR]


def test_the_end_begins_when_the_delay_is_over_and_waits_for_what_runs(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", "--shutdown-delay", "0.2")
    server = watched.server
    with server.connect() as sock:
        sock.sendall(b"GET /sleep/2 HTTP/1.1\r\nHost: a\r\n\r\n")
        server.until(lambda: json.loads(watched.ask("/status.json")[1])["inside"] == 1)
        os.kill(server.pid, signal.SIGTERM)
        server.says("stopping: waiting up to 30 s for running requests")
        assert read_reply(sock, bytearray())[0] == 200
    assert server.process.wait(PATIENCE) == 0


def test_a_worker_that_dies_meanwhile_is_replaced_by_one_that_sends_away_too(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", "--shutdown-delay", LONG)
    server = watched.server
    old = server.workers[0]
    os.kill(server.pid, signal.SIGTERM)
    server.until(lambda: watched.ask("/readyz")[0] == 503)
    os.kill(old, signal.SIGKILL)

    def replaced() -> bool:
        ready = [one["pid"] for one in server.status()["workers"] if one["state"] == "ready"]
        return ready not in ([old], [])

    server.until(replaced)
    assert server.status()["phase"] == "draining"
    server.until(lambda: sent_away(server))


@pytest.mark.parametrize("order", ["stop", "signal"])
def test_ctrl_c_and_stop_now_do_not_wait(serve: Serve, order: str) -> None:
    server = serve("phases:application", "--workers", "1", "--shutdown-delay", LONG)
    if order == "stop":
        assert server.order("stop", "--now")[0] == 0
        assert server.process.wait(PATIENCE) == 0
    else:
        assert server.stop(signal.SIGINT) == 0


def test_a_server_that_is_about_to_stop_is_not_reloaded(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", "--shutdown-delay", LONG)
    os.kill(watched.server.pid, signal.SIGTERM)
    watched.server.until(lambda: watched.ask("/readyz")[0] == 503)
    status, said = watched.server.order("reload")
    assert status != 0 and "cannot reload now" in said
    status, said = watched.server.order("upgrade")
    assert status != 0 and "try again" in said
    assert watched.server.order("stop")[0] == 0, "the second word to stop ends the delay"
    assert watched.server.process.wait(PATIENCE) == 0
