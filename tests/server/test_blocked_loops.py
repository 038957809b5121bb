"""What is finished is sent though a step of the application blocks, whoever drives the engine."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gates import Gate
from gates import gates as gates
from serving import Serving, read_reply
from test_order_of_replies import DRIVERS, get  # type: ignore[import-not-found]


@pytest.fixture(params=DRIVERS)
def server(request: pytest.FixtureRequest, serve: Callable[..., Serving]) -> Serving:
    """A fresh one for each test: after a step that blocks, replies do not wait for a while."""
    return serve(*DRIVERS[request.param])


def worker(server: Serving) -> int:
    """The process that answers."""
    return server.workers[0] if server.workers else server.pid


def are(state: str, pid: int) -> bool:
    """Each of its threads is: S for asleep, T for stopped."""
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(stat.rpartition(")")[2].split()[0] == state for stat in stats)


def at_once(server: Serving, *sendings: tuple[socket.socket, bytes]) -> None:
    """Let the server find all of them at its next look, in this order."""
    # Stopped on its way from the last reply it would read on there first: whoever is served by then has begun.
    server.until(lambda: are("S", worker(server)))
    os.kill(worker(server), signal.SIGSTOP)
    server.until(lambda: are("T", worker(server)))
    for sock, data in sendings:
        sock.sendall(data)
    # Loopback delivers within the call; the server's socket has it now.
    os.kill(worker(server), signal.SIGCONT)


def test_a_finished_reply_does_not_wait_for_another_connection_s_step(
    server: Serving, request: pytest.FixtureRequest, gates: Iterator[Gate]
) -> None:
    # On threads it is the watchdog who sends, and there are others who lead meanwhile.
    on_threads = "threads" in request.node.callspec.id
    with server.connect() as quick, server.connect() as slow:
        buffers = {quick: bytearray(), slow: bytearray()}
        for _ in range(5):
            for sock in (quick, slow):
                sock.sendall(get("/warm"))
                read_reply(sock, buffers[sock])
            gate = next(gates)
            at_once(server, (quick, get("/quick")), (slow, get(f"/gate{gate.path}")))
            assert read_reply(quick, buffers[quick])[::2] == (200, b"/quick ")
            gate.open()
            assert read_reply(slow, buffers[slow])[0] == 200
            if on_threads or server.counters()["replies_relieved"]:
                break
            # A machine that is busy elsewhere made a step look long: the reply was not held back at all.
        assert (server.counters()["replies_relieved"] > 0) != on_threads
        # What was sent in the middle of a batch leaves nothing behind: both go on.
        for sock in (quick, slow):
            sock.sendall(get("/more"))
            assert read_reply(sock, buffers[sock])[::2] == (200, b"/more ")


def test_a_finished_reply_does_not_wait_for_the_next_request_of_its_connection(
    server: Serving, gates: Iterator[Gate]
) -> None:
    gate = next(gates)
    with server.connect() as sock:
        buffer = bytearray()
        sock.sendall(get("/quick") + get("/too") + get(f"/gate{gate.path}") + get("/last"))
        assert read_reply(sock, buffer)[::2] == (200, b"/quick ")
        assert read_reply(sock, buffer)[::2] == (200, b"/too ")
        gate.open()
        assert read_reply(sock, buffer)[0] == 200
        assert read_reply(sock, buffer)[::2] == (200, b"/last ")


def test_a_hundred_finished_replies_go_while_another_computes_in_c(server: Serving, gates: Iterator[Gate]) -> None:
    """Nobody has the interpreter meanwhile: whoever sends needs neither it nor the loop."""
    gate = next(gates)
    with server.connect() as sock:
        buffer = bytearray()
        sock.sendall(b"".join(get(f"/{i}") for i in range(100)) + get(f"/lock{gate.path}"))
        for i in range(100):
            assert read_reply(sock, buffer)[::2] == (200, f"/{i} ".encode())
        gate.open()
        assert read_reply(sock, buffer)[0] == 200
