"""Requests counted are replies that clients got, and those that died inside a worker that is named."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crowd import GET, Crowd, died_inside, processes, ready
from serving import Serving, read_reply
from shared import applications, descriptors, settled, statistics, told

Serve = Callable[..., Serving]
PIPELINES = applications("pipelines")


def grown(before: Any, after: Any) -> bool:
    """Nothing that only grows is smaller than it was, in all that totals have."""
    if isinstance(before, dict):
        return all(name in after and grown(value, after[name]) for name, value in before.items())
    if isinstance(before, list):
        # Buckets by their ends, of which there are more and more.
        return grown(dict(before), dict(after))
    if isinstance(before, tuple):
        return before[0] <= after[0] and before[1] <= after[1]
    return bool(before <= after)


def test_what_is_counted_is_what_clients_got_through_kills_and_a_reload(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "2", "--threads", "4")
    shared = statistics(server)
    last = shared.totals()
    with Crowd(server, 6) as crowd:

        def look() -> None:
            nonlocal last
            found = shared.totals()
            inside, last["inside"] = found.pop("inside"), 0
            last.pop("inside")
            assert grown(last, found), f"{last} became {found}"
            last = {**found, "inside": inside}

        for round in range(4):
            wanted = len(crowd.replied) + 200
            server.until(lambda wanted=wanted: look() or len(crowd.replied) > wanted)
            if round == 2:
                assert server.order("reload")[0] == 0
            else:
                killed = server.until(lambda: ready(server))[0]
                os.kill(killed, signal.SIGKILL)
                # Until its supervisor has heard of it, it is as ready as before, and its requests are not lost.
                server.until(lambda killed=killed: look() or killed not in processes(server))
        server.until(lambda: ready(server))
    named = died_inside(server)
    assert named <= crowd.replied | crowd.lost, "nobody has asked for what the log names"
    found = settled(server, shared, len(crowd.replied | named))
    assert found["died_inside"] == len(named)
    assert len(crowd.lost) > 0, "three workers were killed under load"


def test_what_a_client_has_did_not_die_with_its_worker(serve: Serve, tmp_path: Path) -> None:
    """Requests of a pipeline that are counted together, in front of one that does not end."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    server = serve("pipelines:application", "--workers", "1", "--threads", "4")
    shared = statistics(server)
    with server.connect() as sock:
        buffer = knows_the_route(sock)
        sock.sendall(b"".join(GET.format(path).encode() for path in ["/quick/1"] * 7 + [f"/gate{gate}"]))
        for _ in range(7):
            assert read_reply(sock, buffer)[0] == 200
        server.until(lambda: shared.totals()["inside"] == 1)
        os.kill(server.workers[0], signal.SIGKILL)
        server.says("while it worked on: ")
    assert died_inside(server) == {f"/gate{gate}"}
    assert settled(server, shared, 68)["died_inside"] == 1


@pytest.mark.parametrize("driver", PIPELINES)
def test_what_no_client_has_died_with_its_worker(serve: Serve, driver: str) -> None:
    """Requests of a pipeline, in front of one that ends the worker: nothing of their replies has left by then."""
    for _ in range(8):
        server = serve(*PIPELINES[driver], "--workers", "1")
        if died_before_its_replies_left(server):
            return
        server.stop()
    pytest.fail("each time the machine was so slow that replies left before the worker died")


def died_before_its_replies_left(server: Serving) -> bool:
    """True: all requests have died inside, and that is how many were counted. False: the worker had sent some of the
    replies, and was killed while it counted them, or before or after that."""
    shared = statistics(server)
    with server.connect() as sock:
        buffer = knows_the_route(sock)
        sock.sendall(b"".join(GET.format(path).encode() for path in [*(f"/quick/{n}" for n in range(7)), "/kill"]))
        while part := received(sock):
            buffer += part
    server.says("while it worked on: ")
    died = settled(server, shared, 68)["died_inside"]
    assert {"/kill"} <= died_inside(server)
    if buffer:
        assert 1 <= died <= 8
        return False
    assert died == 8
    return True


def knows_the_route(sock: socket.socket) -> bytearray:
    """Three pipelines of twenty: the next requests for it are counted together. What is left over of their replies."""
    buffer = bytearray()
    for _ in range(3):
        sock.sendall(b"".join(GET.format(f"/quick/{number}").encode() for number in range(20)))
        for _ in range(20):
            assert read_reply(sock, buffer)[0] == 200
    return buffer


def received(sock: socket.socket) -> bytes:
    """What comes next; nothing where the other end is gone."""
    try:
        return sock.recv(65536)
    except ConnectionResetError:
        return b""


def test_a_worker_that_crashes_is_told_with_what_it_worked_on(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1", "--threads", "4")
    shared = statistics(server)
    with server.connect() as waits, server.connect() as crashes:
        waits.sendall(GET.format("/sleep/60?token=secret").encode())
        server.until(lambda: shared.totals()["inside"] == 1)
        crashes.sendall(GET.format("/crash/1").encode())
        server.says("was ended by signal 11 (SIGSEGV) while it worked on: ")
        told = re.search(r"worker 1 \(process \d+\) was ended.* while it worked on: (.*)", server.log())
        assert told is not None
        assert re.fullmatch(r"GET /sleep/60 for [\d.]+ m?s · GET /crash/1 for [\d.]+ m?s", told[1]), told[1]
        assert "secret" not in server.log()
    assert settled(server, shared, 2)["died_inside"] == 2


def test_what_ended_with_its_worker_is_among_what_has_failed(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "2", "--threads", "2", "--request-id")
    shared = statistics(server)
    with server.connect() as waits, server.connect() as given:
        waits.sendall(GET.format("/sleep/60/own?token=secret").encode())
        given.sendall(GET.format("/sleep/61/given").replace("\r\n\r\n", "\r\nX-Request-ID: abc-1\r\n\r\n").encode())
        server.until(lambda: shared.totals()["inside"] == 2)
        running = sorted(told(server, "--running"), key=lambda one: one["request"])
        assert [one["request"] for one in running] == ["GET /sleep/60/own", "GET /sleep/61/given"]
        own = running[0]["id"]
        assert re.fullmatch("[0-9a-f]{32}", own) and running[1]["id"] == "abc-1"
        for pid in {one["pid"] for one in running}:
            os.kill(pid, signal.SIGKILL)
        server.until(lambda: shared.totals()["died_inside"] == 2)
    for name, line in ((own, "GET /sleep/60/own"), ("abc-1", "GET /sleep/61/given")):
        server.says(f"{line} (id {name}) for ")
    failed = {one["request"]: one for one in told(server, "--failed")}
    for was in running:
        one = failed[was["request"]]
        same = ("worker", "pid", "number", "id", "thread")
        assert [one[name] for name in same] == [was[name] for name in same]
        assert (one["error"], one["died"], one["status"]) == ("worker_died", "signal:SIGKILL", 0)
        assert one["phases"]["total"] >= one["phases"]["app"] >= was["inside"]
    assert set(failed) == {one["request"] for one in running}
    shown = server.order("requests", "--failed")[1]
    assert re.search(
        r"^worker \d \(\d+\) .* --- .* GET /sleep/60/own  \(worker_died by signal:SIGKILL, app ", shown, re.M
    ), shown


def upgradable(serve: Serve) -> tuple[Serving, dict[str, Any]]:
    """A server that has counted three requests, and what it has."""
    server = serve("phases:application", "--workers", "1")
    shared = statistics(server)
    for number in range(3):
        with server.connect() as sock:
            sock.sendall(GET.format(f"/quick/{number}").encode())
            assert read_reply(sock, bytearray())[0] == 200
    return server, settled(server, shared, 3)


def test_numbers_outlive_an_upgrade_of_the_program(serve: Serve) -> None:
    server, _ = upgradable(serve)
    assert server.order("upgrade")[0] == 0
    with server.connect() as sock:
        sock.sendall(GET.format("/quick").encode())
        assert read_reply(sock, bytearray())[0] == 200
    found = settled(server, statistics(server), 4)
    assert found["counters"]["requests_total"] == 4


def test_numbers_outlive_an_upgrade_to_a_program_that_keeps_them_in_another_way(serve: Serve) -> None:
    server, before = upgradable(serve)
    # The new program finds numbers of another one.
    for fd, link in descriptors(server.process.pid):
        if "forehand-statistics" in link:
            with fd.open("r+b") as memory:
                memory.seek(8)
                memory.write((7).to_bytes(8, sys.byteorder))
    assert server.order("upgrade")[0] == 0
    with server.connect() as sock:
        sock.sendall(GET.format("/quick").encode())
        assert read_reply(sock, bytearray())[0] == 200
    found = settled(server, statistics(server), 4)
    assert found["counters"]["requests_total"] == 4
    assert found["phases"]["total"][0] == 4 and found["phases"]["app"][1] >= before["phases"]["app"][1]
    assert sum(route[0] for route in found["routes"].values()) >= sum(route[0] for route in before["routes"].values())
    assert "keeps its numbers in another way" in server.log() and "go on from what it had counted" in server.log()


def test_failures_and_what_is_no_request_are_counted_too(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1")
    shared = statistics(server)
    for path, status in (("/fail", 500), ("/missing", 404), ("/quick", 200)):
        with server.connect() as sock:
            sock.sendall(GET.format(path).encode())
            assert read_reply(sock, bytearray())[0] == status
    assert server.raw(b"no request\r\n\r\n").startswith(b"HTTP/1.1 400")
    settled(server, shared, 4)
