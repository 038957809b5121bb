"""A worker that does not run, or whose interpreter one request keeps: the others, and the loop itself, go on."""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from asking import some_with_each  # type: ignore[import-not-found]
from serving import PATIENCE, Serving, read_all, read_reply

Serve = Callable[..., Serving]
#: Longer than any client here waits.
LONG = 5 * PATIENCE


def ask(server: Serving, path: str) -> socket.socket:
    """A request that is on its way."""
    sock = server.connect()
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    return sock


def answered_by(server: Serving) -> int:
    """Who answers a new connection."""
    with ask(server, "/") as sock:
        return int(read_reply(sock, bytearray())[2])


def answers(sock: socket.socket) -> int:
    """Who answers on a connection that is there already."""
    sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    return int(read_reply(sock, bytearray())[2])


def busy(server: Serving) -> dict[int, int]:
    """How many requests are inside each worker."""
    return {worker["pid"]: worker["busy"] for worker in server.status()["workers"]}


def the_busy_one(server: Serving) -> int:
    """Which worker is busy with a request that was asked for while nobody was, or when that was done."""

    def found() -> int | None:
        pids = [pid for pid, count in busy(server).items() if count]
        return pids[0] if len(pids) == 1 else None

    return int(server.until(found))


def stands_still(thread: Path) -> bool:
    return (thread / "stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize("path", [f"/hold?{LONG}", "/match?40"], ids=["c-call", "regular-expression"])
def test_a_worker_whose_interpreter_is_held_gets_no_new_connection(serve: Serve, path: str) -> None:
    server = serve("holding", "--workers", "2")
    socks = [ask(server, path)]
    held = the_busy_one(server)
    for count in (1, 2, 3):
        # The more are inside the other one, the better the held one would look.
        socks.append(ask(server, f"/sleep?{LONG}"))
        server.until(lambda count=count: max(n for pid, n in busy(server).items() if pid != held) == count)
        assert held not in {answered_by(server) for _ in range(5)}
    for sock in socks:
        sock.close()


def test_idle_connections_leave_a_worker_whose_interpreter_is_held(serve: Serve) -> None:
    server = serve("holding", "--workers", "2")
    kept = list(some_with_each(server))
    with ask(server, f"/hold?{LONG}"):
        held = the_busy_one(server)
        for sock in kept:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert int(read_reply(sock, bytearray())[2]) != held
    for sock in kept:
        sock.close()


@pytest.mark.parametrize("who", ["/held", "/held-aside"])
@pytest.mark.parametrize("probes", [False, True])
def test_idle_connections_leave_a_worker_whose_leader_waits_for_the_interpreter(
    serve: Serve, tmp_path: Path, who: str, probes: bool
) -> None:
    """Whoever keeps it has waited for something before, and somebody else has led since; or it is no request."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    server = serve("holding", "--workers", "2", *(["--health-paths", "/livez"] if probes else []))
    kept = list(some_with_each(server))
    asked = ask(server, f"{who}?{pipe}")
    held = int(read_reply(asked, bytearray())[2]) if who == "/held-aside" else the_busy_one(server)
    here: list[socket.socket] = []

    def some_are_answered_there() -> bool:
        here[:] = [sock for sock in kept if answers(sock) == held]
        if len(here) < 2:
            # They have left where a worker had no processor for a while. One that is held would get no others.
            kept.extend(ask(server, "/sleep?0.3") for _ in range(4))
            assert all(read_reply(sock, bytearray())[0] == 200 for sock in kept[-4:])
        return len(here) > 1

    assert server.until(some_are_answered_there), "whoever waits without the interpreter holds nobody up"
    reader = os.open(pipe, os.O_RDONLY)
    assert os.read(reader, 1), "from now on until the pipe is closed it has the interpreter"
    waits = []
    if probes:
        # Who answers probes reads without the interpreter, also what only a thread can answer: another worker does.
        kept.remove(here[0])
        here[0].sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        waits.append(here[0])
        assert int(read_reply(here[0], bytearray())[2]) != held
    for _ in range(2):
        assert held not in {answers(sock) for sock in kept}
        for _ in range(20 if probes else 0):
            with ask(server, "/livez") as probe:
                assert read_reply(probe, bytearray())[0] == 200
    os.close(reader)
    if who == "/held":
        assert int(read_reply(asked, bytearray())[2]) == held

    def takes_connections() -> bool:
        [worker] = [worker for worker in server.status()["workers"] if worker["pid"] == held]
        return worker["level"] == 0 and worker["watching"] == 1

    server.until(takes_connections)
    for sock in (*kept, *waits, asked):
        sock.close()


@pytest.mark.parametrize("path", ["/burn?1.5", "/hold?1.5"])
@pytest.mark.parametrize("what", ["connections", "descriptors"])
def test_nobody_loses_a_connection_because_there_is_no_room_for_one_that_is_given_away(
    serve: Serve, what: str, path: str
) -> None:
    server = serve("holding", "--workers", "2", "--limit-connections", "16")
    # At least four are in each worker, as sixteen are as many as there may be in one.
    kept = [ask(server, "/sleep?0.2") for _ in range(20)]
    assert len({read_reply(sock, bytearray())[2] for sock in kept}) == 2
    if what == "descriptors":
        for pid in busy(server):
            # Room for as many as are there, and two more.
            last = max(int(fd) for fd in os.listdir(f"/proc/{pid}/fd"))
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (last + 3, last + 3))
    burning = ask(server, path)
    while not select.select([burning], [], [], 0)[0]:
        for sock in kept:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        # A connection that was closed for another one has no reply.
        for sock in kept:
            assert read_reply(sock, bytearray())[0] == 200
    assert read_reply(burning, bytearray())[0] == 200
    for sock in (*kept, burning):
        sock.close()


def test_what_there_is_no_descriptor_for_is_left_to_its_giver_and_counted(serve: Serve) -> None:
    """How many descriptors are left is nothing that another worker sees before it gives."""
    server = serve("holding", "--workers", "2")
    kept = list(some_with_each(server, 20))
    for pid in busy(server):
        last = max(int(fd) for fd in os.listdir(f"/proc/{pid}/fd"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (last + 3, last + 3))
    server.counts("connections_left", 0)

    def left() -> bool:
        # A worker that is held up notices when it has something to do.
        for sock in kept:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert read_reply(sock, bytearray())[0] == 200
        return server.counters()["connections_left"] > 0

    with ask(server, f"/burn?{LONG}"):
        server.until(left)
    for sock in kept:
        sock.close()


@pytest.mark.parametrize("at_work", [True, False], ids=["at-work", "idle"])
def test_a_worker_that_is_stopped_is_not_waited_for(serve: Serve, at_work: bool) -> None:
    server = serve("holding", "--workers", "2")
    socks = [ask(server, f"/sleep?{LONG}")]
    running = the_busy_one(server)
    [stopped] = [pid for pid in busy(server) if pid != running]
    if at_work:
        # Both watch the listeners, as neither is better.
        socks.append(ask(server, f"/sleep?{LONG}"))
        server.until(lambda: busy(server)[stopped] == 1)
    os.kill(stopped, signal.SIGSTOP)
    try:
        server.until(lambda: all(stands_still(thread) for thread in Path(f"/proc/{stopped}/task").iterdir()))
        for count in (2, 3, 4, 5):
            # The one that runs is the busier one, as far as the scoreboard tells.
            socks.append(ask(server, f"/sleep?{LONG}"))
            server.until(lambda count=count: busy(server)[running] == count)
            assert answered_by(server) == running
    finally:
        os.kill(stopped, signal.SIGCONT)
    for sock in socks:
        sock.close()


@pytest.mark.parametrize(("threads", "led"), [("1", False), ("2", False), ("2", True), ("32", False), ("32", True)])
def test_with_the_interpreter_held_timeouts_and_refusals_go_on(
    serve: Serve, threads: str, led: bool, tmp_path: Path
) -> None:
    """`led`: another thread leads when the interpreter is taken, and waits for it with the first that asks."""
    options = ["--header-timeout", "1s", "--limit-queue", "1", "--limit-connections", "5", "--no-defer-accept"]
    options += ["--keep-alive", f"{LONG}s", "--first-byte-timeout", f"{2 * LONG}s"]
    server = serve("holding", "--threads", threads, "--workers", "0", *options)
    idle = ask(server, "/")
    assert read_reply(idle, bytearray())[0] == 200
    holding = ask(server, "/hold?0")
    assert read_reply(holding, bytearray())[0] == 200
    if led:
        os.mkfifo(tmp_path / "pipe")
        holding.sendall(f"GET /held?{tmp_path / 'pipe'} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        idle.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert read_reply(idle, bytearray())[0] == 200
        reader = os.open(tmp_path / "pipe", os.O_RDONLY)
        assert os.read(reader, 1)
    else:
        holding.sendall(f"GET /hold?{LONG} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    with server.connect() as rubbish:
        rubbish.sendall(b"RUBBISH\r\n\r\n")
        assert read_reply(rubbish, bytearray())[0] == 400
    with server.connect() as half:
        half.sendall(b"GET / HTT")
        assert read_reply(half, bytearray())[0] == 408
    waiting = ask(server, "/")
    with ask(server, "/") as one_too_many:
        assert read_reply(one_too_many, bytearray())[0] == 503
    # One is at work, one waits, and one is idle, which makes room.
    crowd = [server.connect() for _ in range(6)]
    assert read_all(idle) == b""
    if led:
        os.close(reader)
        assert read_reply(holding, bytearray())[0] == read_reply(waiting, bytearray())[0] == 200
    for sock in (idle, holding, waiting, *crowd):
        sock.close()
