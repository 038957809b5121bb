"""What happens is counted, once each time, and whoever runs the server sees it: `forehand status`."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import select
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forehand
import pytest
from forehand import _core
from forehand.settings import COUNTED
from serving import PATIENCE, Serving, read_all, read_reply

Serve = Callable[..., Serving]
GET = "GET {} HTTP/1.1\r\nHost: a\r\n\r\n"


def ask(server: Serving, path: str) -> socket.socket:
    """A request that is on its way."""
    sock = server.connect()
    sock.sendall(GET.format(path).encode())
    return sock


def whole(server: Serving, path: str = "/hello") -> int:
    """One request on a connection of its own; the status."""
    with ask(server, path) as sock:
        return read_reply(sock, bytearray())[0]


def post(server: Serving, length: int) -> int:
    with server.connect() as sock:
        sock.sendall(f"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n".encode() + bytes(length))
        return read_reply(sock, bytearray())[0]


def test_connections_and_requests_are_counted(serve: Serve) -> None:
    server = serve("behaviours")
    for count in (1, 2, 3):
        assert whole(server) == 200
        server.counts("connections_accepted", count)
        server.counts("connections_closed", count)
        server.counts("requests_total", count)


@pytest.mark.parametrize(("length", "spooled"), [(999, 0), (1000, 0), (1001, 1)])
def test_a_body_beyond_what_memory_takes_is_counted(serve: Serve, length: int, spooled: int) -> None:
    server = serve("behaviours", "--limit-body-memory-bytes", "1000")
    assert post(server, length) == 200
    server.counts("bodies_spooled", spooled)


def test_a_body_that_cannot_be_stored_is_counted_and_refused(serve: Serve, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    options = ("--limit-body-memory-bytes", "1000", "--access-log", "common")
    server = serve("behaviours", *options, env={"TMPDIR": str(folder)})
    assert post(server, 1001) == 200
    server.counts("spool_failures", 0)
    folder.rmdir()
    assert post(server, 1001) == 507
    server.counts("spool_failures", 1)
    server.counts('http_parse_errors_total{reason="no-storage"}', 1)
    server.until(lambda: re.search(r'"POST /\S* HTTP/1.1" 507 [1-9]', server.log()))


def test_what_peers_leave_unfinished_is_counted(serve: Serve) -> None:
    server = serve("behaviours")
    with server.connect() as sock:
        sock.sendall(b"GET /hello HT")
        sock.shutdown(socket.SHUT_WR)
        assert read_all(sock) == b""
    server.counts("requests_incomplete", 1)
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", server.port))
        sock.sendall(GET.format("/big?20000000").encode())
        select.select([sock], [], [], PATIENCE)
    server.counts("replies_incomplete", 1)


@pytest.mark.parametrize(
    ("path", "counter"),
    [("/short", "replies_wrong_length"), ("/long", "replies_wrong_length"), ("/raises", "application_errors")],
)
def test_what_an_application_does_wrong_is_counted(serve: Serve, path: str, counter: str) -> None:
    server = serve("behaviours")
    assert whole(server) == 200
    server.counts(counter, 0)
    with ask(server, path) as sock:
        read_all(sock)
    server.counts(counter, 1)


def test_a_thread_that_waits_for_its_reader_is_counted(serve: Serve) -> None:
    server = serve("pages:wsgi")
    assert whole(server, "/parts/10/60000") == 200
    server.counts("reply_waits", 0)
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(PATIENCE)
        sock.connect(("127.0.0.1", server.port))
        sock.sendall(GET.format("/parts/400/60000").encode())
        # More than the kernel takes: the thread waits, and goes on as the reader does.
        server.until(lambda: server.counters()["reply_waits"] > 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        assert len(read_reply(sock, bytearray())[2]) == 400 * 60000


def test_a_pipeline_that_waits_for_its_reader_is_counted(serve: Serve) -> None:
    with ask(serve("pages:wsgi"), "/2") as sock:
        size = len(sock.recv(65536))
    for limit, waits in ((size + 1, 0), (size, 1), (size - 1, 1)):
        server = serve("pages:wsgi", "--limit-response-buffer-bytes", str(limit))
        with server.connect() as sock:
            sock.sendall(GET.format("/2").encode() * 2)
            buffer = bytearray()
            assert [read_reply(sock, buffer)[0] for _ in range(2)] == [200, 200]
        server.counts("pipeline_waits", waits)


@pytest.mark.parametrize(("more", "cut"), [(999, 0), (1000, 1), (1001, 1)])
def test_a_refused_peer_that_sends_more_than_is_read_is_counted(serve: Serve, more: int, cut: int) -> None:
    """At the limit nothing more is read, so that its end is not seen."""
    linger = "300ms" if cut else "20s"
    server = serve("behaviours", "--limit-drain-bytes", "1000", "--linger-timeout", linger)
    with server.connect() as sock:
        sock.sendall(b"NONSENSE\r\n\r\n")
        assert read_reply(sock, bytearray())[0] == 400
        sock.sendall(bytes(more))
        sock.shutdown(socket.SHUT_WR)
        assert read_all(sock) == b""
    server.counts("connections_closed", 1)
    server.counts("lingers_cut", cut)


def test_with_no_room_and_nobody_idle_accepting_pauses(serve: Serve) -> None:
    server = serve("behaviours", "--limit-connections", "2", "--no-defer-accept")
    running = [ask(server, "/sleep?2") for _ in range(2)]
    server.until(lambda: server.status()["workers"][0]["busy"] == 2)
    server.counts("accept_pauses", 0)
    with ask(server, "/hello") as waiting:
        server.until(lambda: server.counters()["accept_pauses"] > 0)
        assert read_reply(waiting, bytearray())[2] == b"hello"
    for sock in running:
        assert read_reply(sock, bytearray())[2] == b"slept"
        sock.close()


def test_requests_that_are_cut_at_the_end_are_counted() -> None:
    inside, leave = threading.Event(), threading.Event()

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        inside.set()
        leave.wait(PATIENCE)
        start_response("200 OK", [])
        return [b""]

    server = forehand.Server(application, graceful_timeout=0.2)
    assert server.counters() == {}
    server.start()
    with socket.create_connection(("127.0.0.1", server.port)) as sock:
        sock.sendall(GET.format("/").encode())
        assert inside.wait(PATIENCE)
        assert server.counters()["requests_cut"] == 0
        assert not server.stop()
        leave.set()
    assert server.counters()["requests_cut"] == 1, "it can be asked behind the end"


async def quick(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})


def test_a_server_in_an_event_loop_can_be_asked_from_outside() -> None:
    with forehand.Server(quick) as server, socket.create_connection(("127.0.0.1", server.port)) as sock:
        sock.sendall(GET.format("/").encode())
        assert read_reply(sock, bytearray())[0] == 200
        assert server.counters()["requests_total"] == 1


DRIVERS = {"threads": ("behaviours",), "asyncio": ("pages:asgi", "--lifespan", "off")}
if importlib.util.find_spec("gevent"):
    DRIVERS["gevent"] = ("behaviours", "--worker-class", "gevent")


def answered(server: Serving, *words: str, without: int = 0) -> str:
    """What it says once all workers have answered in time but so many, as one may have had no processor."""

    def complete() -> str:
        code, text = server.order(*words)
        assert code == 0, text
        silent = text.count("does not answer")
        if "--json" in words:
            silent = sum(worker["counters"] is None for worker in json.loads(text)["workers"])
        return text if silent == without else ""

    return server.until(complete)


@pytest.mark.parametrize("driver", DRIVERS)
def test_the_status_names_limits_that_were_reached_by_worker(serve: Serve, driver: str) -> None:
    server = serve(*DRIVERS[driver], "--workers", "2", "--limit-header-lines", "5")
    assert "no limit was reached" in server.order("status")[1]
    reason = 'http_parse_errors_total{reason="too-many-headers"}'
    for lines, refused in ((4, 0), (5, 0), (6, 1), (6, 2)):
        with server.connect() as sock:
            sock.sendall(b"GET /2 HTTP/1.1\r\n" + b"Host: a\r\n" + b"X: a\r\n" * (lines - 1) + b"\r\n")
            assert (read_reply(sock, bytearray())[0] == 431) == (lines > 5)
        server.counts(reason, refused)
    text = answered(server, "status")
    [line] = [line for line in text.splitlines() if reason in line]
    assert line.split()[0] == "2" and line.endswith("--limit-header-lines")
    by_worker = re.findall(r" (\d+):(\d+)", line)
    assert sum(int(count) for _, count in by_worker) == 2 and {number for number, _ in by_worker} <= {"1", "2"}
    assert "connections_accepted" not in text, "it belongs to no limit"
    text = answered(server, "status", "--verbose")
    assert all(re.search(rf" {name}( |$)", text, re.M) for name, _ in _core.counters())
    found = json.loads(answered(server, "status", "--json"))
    assert found["counters"][reason] == 2 == sum(worker["counters"].get(reason, 0) for worker in found["workers"])
    assert found["limits"]["--limit-header-lines"] == {reason: 2}
    assert found["limits"]["--limit-queue"] == {"requests_not_queued": 0}


def test_the_status_comes_though_a_worker_does_not_answer(serve: Serve) -> None:
    server = serve("behaviours", "--workers", "2")
    stopped = server.workers[0]
    os.kill(stopped, signal.SIGSTOP)
    try:
        found = json.loads(answered(server, "status", "--json", without=1))
        text = answered(server, "status", without=1)
    finally:
        os.kill(stopped, signal.SIGCONT)
    [number] = [worker["worker"] for worker in found["workers"] if worker["pid"] == stopped]
    assert f"worker {number} does not answer" in text
    server.until(lambda: "does not answer" not in server.order("status")[1])


def test_every_limit_has_a_counter_that_exists_or_a_reason_for_none() -> None:
    known = {name for name, _ in _core.counters()}
    without = {name for name, counters in COUNTED.items() if not counters}
    assert without == {
        "cached_heads", "cached_head_bytes", "cached_head_idle", "cached_names", "ws_ping_interval",
        "h2_window_most_bytes", "h2_goaway_grace",
    }  # fmt: skip
    for name, counters in COUNTED.items():
        for counter in counters:
            reason = re.fullmatch(r'(http_parse_errors_total|h2_faults)\{reason="([a-z0-9-]+)"\}', counter)
            assert counter in known or reason, f"{name} names {counter}, which does not exist"
