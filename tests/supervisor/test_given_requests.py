"""Requests that wait in a worker without a free thread: another worker that has one answers them."""

from __future__ import annotations

import json
import select
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import PATIENCE, Serving, read_reply

Serve = Callable[..., Serving]
#: Who waits in vain is told so later than any client here goes on waiting.
WORKERS = ("--workers", "2", "--threads", "2", "--queue-timeout", f"{3 * PATIENCE}s")
#: What requests begin with.
BEGUN = b"POST "


def ask(sock: socket.socket, path: str) -> socket.socket:
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    return sock


def reply(sock: socket.socket, buffer: bytearray | None = None) -> tuple[int, str, int]:
    """Which worker has answered, what it was asked for, and how long the body was."""
    status, _, body = read_reply(sock, bytearray() if buffer is None else buffer)
    assert status == 200, (status, body)
    worker, path, length = body.decode().split()
    return int(worker), path, int(length)


def busy(server: Serving) -> list[int]:
    """How many requests are inside each worker."""
    return sorted(worker["busy"] for worker in server.status()["workers"])


def kept_by_one(server: Serving) -> tuple[list[socket.socket], int, list[socket.socket]]:
    """Connections that one worker has kept, which it is, and those of the other: two or more.

    Each has begun another request: those that are idle may go from one worker to another."""
    for _ in range(10):
        kept, workers = both_asked(server)
        one = max(set(workers), key=workers.count)
        if workers.count(one) <= len(workers) - 2:
            break
        # On a busy machine one of them may have taken nearly all.
        for sock in kept:
            sock.close()
    own = [sock for sock, worker in zip(kept, workers, strict=True) if worker == one]
    others = [sock for sock in kept if sock not in own]
    assert len(others) >= 2, "each time one worker has taken all connections, or all but one"
    # Who has answered is still shown as busy for a moment, and would be taken for full.
    server.until(lambda: busy(server) == [0, 0])
    return own, one, others


def both_asked(server: Serving) -> tuple[list[socket.socket], list[int]]:
    """Connections, and which worker has each."""
    kept = []
    for _ in range(6):
        # As many as one of them has threads: where more wait they change their worker.
        pair = [ask(server.connect(), "/sleep?0.1") for _ in range(2)]
        kept += pair
        for sock in pair:
            reply(sock)
    for sock in kept:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" + BEGUN)
    workers = [reply(sock)[0] for sock in kept]
    return kept, workers


def finish(sock: socket.socket, path: str, body: bytes = b"") -> socket.socket:
    """The rest of a request that has begun."""
    sock.sendall(f"{path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    return sock


def fill(server: Serving, kept: list[socket.socket], gate: Path) -> tuple[list[socket.socket], list[socket.socket]]:
    """Have each thread of that worker wait: whose requests those are, and the other connections."""
    waiting = [finish(sock, f"/wait?{gate}") for sock in kept[:2]]
    server.until(lambda: busy(server) == [0, 2])
    return waiting, kept[2:]


def test_requests_that_a_worker_without_a_free_thread_has_read_are_answered_by_another(
    serve: Serve, tmp_path: Path
) -> None:
    server = serve("given", *WORKERS)
    kept, full, others = kept_by_one(server)
    waiting, begun = fill(server, kept, tmp_path / "gate")
    new = [ask(server.connect(), "/") for _ in range(6)]
    assert full not in {reply(sock)[0] for sock in [*new, *(finish(sock, "/") for sock in begun)]}
    rest = [*new, *begun]
    assert full not in {reply(ask(sock, "/"))[0] for sock in rest}
    assert not select.select(rest, [], [], 0.1)[0], "nobody has answered one of them twice"
    counted = server.counters()
    assert counted["requests_taken_over"] == counted["requests_handed_over"] >= len(begun)
    (tmp_path / "gate").touch()
    assert {reply(sock)[0] for sock in waiting} == {full}
    for sock in (*kept, *rest, *others):
        sock.close()
    # Each is counted where it was answered, and nowhere else.
    answered = server.until(lambda: json.loads(server.order("top", "--json")[1])["requests"])
    server.until(lambda: sum(worker["requests"] for worker in server.status()["workers"]) == answered)


def test_a_worker_whose_requests_wait_for_others_of_their_route_has_threads_for_those_of_another(
    serve: Serve, tmp_path: Path
) -> None:
    server = serve("given", *WORKERS, "--route-limits", "/wait/alone=1")
    kept, full, others = kept_by_one(server)
    alone = [finish(sock, f"/wait/alone?{tmp_path / 'gate'}") for sock in others[:2]]
    server.until(lambda: sorted(worker["limited"] for worker in server.status()["workers"]) == [0, 1])
    waiting = [finish(sock, f"/wait?{tmp_path / 'gate'}") for sock in kept[:2]]
    server.until(lambda: busy(server) == [1, 2])
    assert reply(finish(kept[2], "/"))[0] != full
    (tmp_path / "gate").touch()
    assert full not in {reply(sock)[0] for sock in alone}
    assert {reply(sock)[0] for sock in waiting} == {full}
    for sock in (*kept, *others):
        sock.close()


def test_a_slow_request_that_waits_in_its_lane_goes_to_a_worker_that_has_a_thread_for_it(
    serve: Serve, tmp_path: Path
) -> None:
    server = serve("given", *WORKERS, "--lanes", "/wait=slow")
    kept, full, others = kept_by_one(server)
    waiting = [finish(sock, f"/wait?{tmp_path / 'gate'}") for sock in kept[:2]]
    server.until(lambda: busy(server) == [1, 1])
    (tmp_path / "gate").touch()
    workers = {reply(sock)[0] for sock in waiting}
    assert len(workers) == 2 and full in workers
    for sock in (*kept, *others):
        sock.close()


@pytest.mark.parametrize("options", [(), ("--request-timeout", f"{3 * PATIENCE}s")], ids=["plain", "deadline"])
def test_a_request_goes_with_its_body_and_with_what_was_sent_behind_it(
    serve: Serve, tmp_path: Path, options: tuple[str, ...]
) -> None:
    server = serve("given", *WORKERS, *options)
    kept, full, others = kept_by_one(server)
    waiting, (one, *_) = fill(server, kept, tmp_path / "gate")
    replies = bytearray()
    parts = [f"/{n} HTTP/1.1\r\nHost: a\r\nContent-Length: {n}\r\n\r\n".encode() + b"x" * n for n in (3, 2, 900)]
    # In one piece, so that what follows is read with the first.
    one.sendall(BEGUN.join(parts))
    found = [reply(one, replies) for _ in parts]
    assert [(path, length) for _, path, length in found] == [("/3", 3), ("/2", 2), ("/900", 900)]
    assert full not in {worker for worker, _, _ in found}
    assert not replies and not select.select([one], [], [], 0.1)[0]
    (tmp_path / "gate").touch()
    assert {reply(sock)[0] for sock in waiting} == {full}
    for sock in (*kept, *others):
        sock.close()


def test_a_request_that_is_too_large_to_go_with_its_connection_waits_and_is_answered(
    serve: Serve, tmp_path: Path
) -> None:
    server = serve("given", *WORKERS)
    kept, full, others = kept_by_one(server)
    waiting, (large, small, *_) = fill(server, kept, tmp_path / "gate")
    finish(large, "/large", bytes(30_000))
    assert reply(finish(small, "/small"))[0] != full
    assert not select.select([large], [], [], 0)[0]
    (tmp_path / "gate").touch()
    assert reply(large) == (full, "/large", 30_000)
    assert {reply(sock)[0] for sock in waiting} == {full}
    for sock in (*kept, *others):
        sock.close()


def test_what_a_request_has_waited_before_it_went_counts_where_it_is_answered(serve: Serve, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    server = serve("given", *WORKERS, "--access-log", "%U %D", "--access-log-file", str(log))
    kept, full, others = kept_by_one(server)
    waiting, (one, *_) = fill(server, kept, tmp_path / "gate")
    assert reply(finish(one, "/moved"))[0] != full
    lines = server.until(lambda: [line for line in log.read_text().splitlines() if line.startswith("/moved ")])
    assert len(lines) == 1
    # What it waits at least before it goes, in microseconds: `LEAVES_AFTER_MS` of `requests/given.rs`.
    assert int(lines[0].split()[-1]) >= 45_000
    (tmp_path / "gate").touch()
    assert {reply(sock)[0] for sock in waiting} == {full}
    for sock in (*kept, *others):
        sock.close()


def test_a_request_that_cannot_go_is_named_when_its_deadline_has_come(serve: Serve, tmp_path: Path) -> None:
    """Over TLS: it has waited in a worker without a free thread, and was looked at again and again."""
    options = ("--tls-self-signed", "--bind", "https://localhost:0", "--request-id")
    # None for those before them, which wait for handshakes.
    options += ("--request-timeouts", "/wait=4s")
    server = serve("given", *WORKERS, *options)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    kept = [context.wrap_socket(server.connect(), server_hostname="localhost") for _ in range(2 * 3)]
    workers = [reply(ask(sock, "/"))[0] for sock in kept]
    full = max(set(workers), key=workers.count)
    waiting = [sock for sock, worker in zip(kept, workers, strict=True) if worker == full][:3]
    for number, sock in enumerate(waiting):
        ask(sock, f"/wait?{tmp_path / 'gate'}")
        server.until(lambda number=number: sum(busy(server)) == min(number + 1, 2))
    found = [read_reply(sock, bytearray())[:2] for sock in waiting]
    assert [status for status, _ in found] == [504] * 3
    assert all(fields.get("x-request-id") for _, fields in found), found
    (tmp_path / "gate").touch()
    for sock in kept:
        sock.close()
