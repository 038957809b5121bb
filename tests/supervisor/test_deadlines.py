"""Requests that take too long, wait too long, or are not wanted any more."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asking import some_with_each  # type: ignore[import-not-found]
from serving import PATIENCE, Serving, read_all, read_reply

pytestmark = pytest.mark.interpreters

Shop = Callable[..., Path]
Serve = Callable[..., Serving]


def ask(server: Serving, path: str, *, method: str = "GET") -> socket.socket:
    """A request that is on its way."""
    sock = server.connect()
    sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    return sock


def answer(sock: socket.socket, *, head: bool = False) -> tuple[int, dict[str, str], bytes]:
    with sock:
        return read_reply(sock, bytearray(), head=head)


def open_gate(folder: Path) -> None:
    """Requests for /wait are answered from now on."""
    (folder / "gate").touch()


def pid_of(body: bytes) -> int:
    """Who has answered, as a reply says."""
    return int(body.split()[1])


def busy(server: Serving) -> int:
    return sum(worker["busy"] for worker in server.status()["workers"])


def queued(server: Serving) -> int:
    return sum(worker["queued"] for worker in server.status()["workers"])


@pytest.mark.parametrize("path", ["/spin", "/deadlock", "/sleep?30"])
@pytest.mark.parametrize("threads", ["1", "4"])
def test_at_the_deadline_the_client_has_504_and_the_log_has_the_line(
    serve: Serve, shop: Shop, path: str, threads: str
) -> None:
    times = ("--request-timeout", "600ms", "--request-timeouts", "/first=0")
    server = serve("shop", *times, "--threads", threads, cwd=shop())
    # From now on nobody has the interpreter: a thread that waits for it finds what comes after it has looked, and
    # the deadline counts from that look.
    assert answer(ask(server, "/first"))[0] == 200
    server.until(lambda: busy(server) == 0)
    begun = time.monotonic()
    status, fields, body = answer(ask(server, path))
    assert status == 504 and fields["connection"] == "close"
    assert b"did not answer in time" in body
    answered = time.monotonic() - begun
    assert answered > 0.55
    line = {"/spin": "while True", "/deadlock": "lock.acquire()", "/sleep?30": "time.sleep(float("}[path]
    log = server.until(lambda: server.log() if "its thread stands at" in server.log() else "")
    overdue = re.search(rf"GET {re.escape(path)} HTTP/1\.1: overdue after ([\d.]+) s", log)
    # Later where a busy machine has no processor for who looks, and never later than its client has heard of it.
    assert overdue and 0.6 <= float(overdue[1]) < answered + 0.1, log
    assert line in log.partition("its thread stands at")[2]


def test_a_head_request_has_504_without_content(serve: Serve, shop: Shop) -> None:
    server = serve("shop", "--request-timeout", "300ms", cwd=shop())
    with ask(server, "/sleep?5", method="HEAD") as sock:
        raw = read_all(sock)
    assert raw.startswith(b"HTTP/1.1 504 ") and raw.endswith(b"\r\n\r\n")


def test_a_thread_that_is_interrupted_serves_again(serve: Serve, shop: Shop) -> None:
    folder = shop()
    # None for the others: a machine may have no processor for one of them for as long.
    (folder / "forehand.toml").write_text('[request_timeouts]\n"/spin" = 0.3\n"/" = 0\n')
    server = serve("shop", "--threads", "1", cwd=folder)
    for _ in range(3):
        assert answer(ask(server, "/spin"))[0] == 504
        server.until(lambda: busy(server) == 0)
        assert answer(ask(server, "/"))[0] == 200
    server.says("RequestTimeout")
    server.counts("request_deadlines", 3)
    server.counts("request_deadlines_ignored", 0)
    assert server.status()["workers"][0]["pid"] == server.workers[0], "nobody had to be replaced"


def test_one_that_does_not_come_back_costs_its_worker_which_is_replaced_first(serve: Serve, shop: Shop) -> None:
    folder = shop()
    (folder / "forehand.toml").write_text('[request_timeouts]\n"/stubborn" = 0.3\n"/" = 0\n')
    server = serve("shop", "--request-timeout-grace", "300ms", "--graceful-timeout", "3s", cwd=folder)
    first = server.workers[0]
    assert answer(ask(server, "/stubborn"))[0] == 504
    # It is asked while it still leaves.
    server.counts("request_deadlines_ignored", 1)

    def replaced() -> bool:
        assert answer(ask(server, "/"))[0] == 200, "somebody serves all the time"
        found = server.status()["workers"]
        return len(found) == 1 and found[0]["pid"] != first

    server.until(replaced)
    server.says("its thread has not come back 0.3 s after its deadline")
    # A worker that has no processor for what it would say is killed before it has said it.
    cut = re.compile(r"1 request was cut|had not ended 3 s after it was told to")
    server.until(lambda: cut.search(server.log()))


def test_other_paths_have_other_deadlines(serve: Serve, shop: Shop) -> None:
    folder = shop()
    (folder / "forehand.toml").write_text('request_timeout = 0.3\n[request_timeouts]\n"/sleep" = 5\n"/" = 0\n')
    server = serve("shop", cwd=folder)
    assert answer(ask(server, "/sleep?0.6"))[0] == 200
    assert 0 < float(answer(ask(server, "/sleep?0.6"))[2].split()[-1]) <= 5, "the remaining time is told"
    assert len(answer(ask(server, "/"))[2].split()) == 3, "there is none here"


def test_the_remaining_time_counts_what_the_queue_has_taken(serve: Serve, shop: Shop) -> None:
    folder = shop()
    server = serve("shop", "--request-timeout", "20s", "--threads", "1", cwd=folder)
    first = ask(server, "/wait")
    server.until(lambda: busy(server) == 1)
    asked = time.monotonic()
    second = ask(server, "/")
    server.until(lambda: queued(server) == 1)
    waits = time.monotonic()
    time.sleep(0.5)
    opened = time.monotonic()
    open_gate(folder)
    left = float(answer(second)[2].split()[-1])
    # Two digits are told.
    assert 20 - (time.monotonic() - asked) - 0.01 <= left <= 20 - (opened - waits) + 0.01
    assert answer(first)[0] == 200


def test_a_deadline_in_the_queue_is_answered_in_time(serve: Serve, shop: Shop) -> None:
    server = serve("shop", "--request-timeout", "1s", "--request-timeout-grace", "30s", "--threads", "1", cwd=shop())
    first = ask(server, "/stubborn")
    server.until(lambda: busy(server) == 1)
    begun = time.monotonic()
    assert answer(ask(server, "/"))[0] == 504
    assert time.monotonic() - begun < 5
    assert answer(first)[0] == 504


STREAM = """
def streaming(environ, start_response):
    start_response("200 OK", [])
    yield b"begun"
    while True:
        time.sleep(0.05)
"""


def test_a_reply_that_was_begun_is_cut_and_never_looks_complete(serve: Serve, shop: Shop) -> None:
    server = serve("shop:streaming", "--request-timeout", "400ms", cwd=shop(extra=STREAM))
    with ask(server, "/") as sock:
        raw = read_all(sock)
    assert b"begun" in raw and b"504" not in raw
    assert not raw.endswith(b"0\r\n\r\n")


@pytest.mark.once
def test_a_request_that_waited_too_long_is_not_begun(serve: Serve, shop: Shop) -> None:
    folder = shop()
    server = serve("shop", "--queue-timeout", "1s", "--threads", "1", cwd=folder)
    first = ask(server, "/wait")
    server.until(lambda: busy(server) == 1)
    status, fields, body = answer(ask(server, "/"))
    assert status == 503 and fields["retry-after"] == "1" and b"waited too long" in body
    open_gate(folder)
    assert answer(first)[0] == 200
    # Its thread has come back: nobody waits for it any more.
    server.until(lambda: busy(server) == 0)
    assert server.status()["workers"][0]["refused"] == 1
    server.counts("requests_waited_too_long", 1)
    assert answer(ask(server, "/"))[0] == 200
    server.counts("requests_waited_too_long", 1)


@pytest.mark.once
@pytest.mark.parametrize(("waiting", "refused"), [(2, 0), (3, 0), (4, 1)])
def test_so_many_wait_and_the_next_is_refused_at_once(serve: Serve, shop: Shop, waiting: int, refused: int) -> None:
    # limit-queue at limit - 1, limit, limit + 1.
    folder = shop()
    server = serve("shop", "--limit-queue", "3", "--threads", "1", cwd=folder)
    first = ask(server, "/wait")
    server.until(lambda: busy(server) == 1)
    others = []
    for count in range(1, waiting + 1):
        others.append(ask(server, "/"))
        wanted = min(count, 3)
        server.until(lambda wanted=wanted: queued(server) == wanted)
    server.counts("requests_not_queued", refused)
    open_gate(folder)
    codes = [answer(sock)[0] for sock in others]
    assert codes.count(503) == refused and codes.count(200) == waiting - refused
    assert answer(first)[0] == 200


@pytest.mark.once
def test_a_request_whose_client_has_left_is_not_begun(serve: Serve, shop: Shop) -> None:
    extra = "SEEN = []"
    folder = shop(extra=extra)
    text = (folder / "shop.py").read_text().replace("body = environ", "SEEN.append(path)\n    body = environ")
    text = text.replace('text = f"', 'text = f"{SEEN} ')
    (folder / "shop.py").write_text(text)
    server = serve("shop", "--threads", "1", cwd=folder)
    first = ask(server, "/wait")
    server.until(lambda: busy(server) == 1)
    left = [ask(server, "/left") for _ in range(5)]
    server.until(lambda: queued(server) == 5)
    for sock in left:
        sock.close()
    # Who has waited for a quarter of a second is looked at before it begins.
    time.sleep(0.5)
    open_gate(folder)
    assert answer(first)[0] == 200
    assert b"/left" not in answer(ask(server, "/"))[2]
    server.counts("requests_abandoned", 5)


@pytest.mark.once
def test_with_every_thread_busy_timeouts_and_refusals_go_on(serve: Serve, shop: Shop) -> None:
    folder = shop()
    server = serve("shop", "--threads", "1", "--header-timeout", "300ms", cwd=folder)
    first = ask(server, "/wait")
    server.until(lambda: busy(server) == 1)
    with server.connect() as slow:
        slow.sendall(b"GET / HTTP/1.1\r\n")
        assert read_all(slow).startswith(b"HTTP/1.1 408 ")
    with server.connect() as bad:
        bad.sendall(b"nonsense\r\n\r\n")
        assert read_all(bad).startswith(b"HTTP/1.1 400 ")
    assert not first_is_answered(first), "all that happened while the only thread was busy"
    open_gate(folder)
    assert answer(first)[0] == 200


def first_is_answered(sock: socket.socket) -> bool:
    sock.setblocking(False)
    try:
        return bool(sock.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        sock.settimeout(PATIENCE)


def test_a_thread_that_comes_back_late_is_no_longer_counted(serve: Serve, shop: Shop) -> None:
    """Nothing else happens meanwhile that would have the numbers looked at."""
    folder = shop()
    server = serve("shop", cwd=folder)
    sock = ask(server, "/wait")
    server.until(lambda: busy(server) == 1)
    open_gate(folder)
    assert answer(sock)[0] == 200
    server.until(lambda: busy(server) == 0, 5)


def test_no_new_connection_lands_on_a_worker_that_is_stuck(serve: Serve, shop: Shop) -> None:
    server = serve("shop", "--workers", "4", cwd=shop())
    stuck = ask(server, "/spin")
    server.until(lambda: busy(server) == 1)
    [lost] = [worker["pid"] for worker in server.status()["workers"] if worker["busy"]]
    pids = [int(answer(ask(server, "/"))[2].split()[1]) for _ in range(200)]
    assert lost not in pids
    assert len(set(pids)) >= 1
    stuck.close()


def test_a_worker_that_one_thread_holds_up_gives_its_clients_to_another(serve: Serve, shop: Shop) -> None:
    """Threads that sleep do not make the difference: some are inside both workers."""
    server = serve("shop", "--workers", "2", "--threads", "8", cwd=shop())
    kept = list(some_with_each(server, worker=pid_of))
    sleeping = [ask(server, "/sleep?20") for _ in range(6)]
    before = busy_of_each(server, 6)
    spinning = ask(server, "/spin")
    all_are_served_by_the_other(server, before, kept)
    assert not any(first_is_answered(sock) for sock in sleeping), "they still sleep"
    for sock in (*kept, *sleeping, spinning):
        sock.close()


@pytest.mark.once
def test_a_worker_where_many_sleep_is_better_than_one_that_a_thread_holds_up(serve: Serve, shop: Shop) -> None:
    server = serve("shop", "--workers", "2", "--threads", "16", cwd=shop())
    kept: dict[bytes, list[socket.socket]] = {}

    def seven_each() -> bool:
        asked = [ask(server, "/sleep?0.5") for _ in range(8)]
        for sock in asked:
            kept.setdefault(read_reply(sock, bytearray())[2].split()[1], []).append(sock)
        return len(kept) == 2 and all(len(socks) >= 7 for socks in kept.values())

    server.until(seven_each)
    one, other = kept.values()
    sleeping = [one.pop() for _ in range(6)]
    for sock in sleeping:
        sock.sendall(b"GET /sleep?20 HTTP/1.1\r\nHost: a\r\n\r\n")
    before = busy_of_each(server, 6)
    spinning = other.pop()
    spinning.sendall(b"GET /spin HTTP/1.1\r\nHost: a\r\n\r\n")
    all_are_served_by_the_other(server, before, one + other)
    assert not any(first_is_answered(sock) for sock in sleeping), "they still sleep"
    for sock in (*one, *other, *sleeping, spinning):
        sock.close()


def busy_of_each(server: Serving, wanted: int) -> dict[int, int]:
    """Threads inside the application, by worker, once there are so many in all."""
    server.until(lambda: busy(server) == wanted)
    return {worker["pid"]: worker["busy"] for worker in server.status()["workers"]}


def all_are_served_by_the_other(server: Serving, before: dict[int, int], kept: list[socket.socket]) -> None:
    """A thread has begun to spin in one of two workers: soon each request is answered by the other one."""
    now = busy_of_each(server, sum(before.values()) + 1)
    [sound] = [str(pid) for pid in now if now[pid] == before[pid]]

    def it_serves_all() -> bool:
        asked = [worker_of(sock) for sock in kept for _ in range(5)]
        return {*asked, *(worker_of(server.connect()) for _ in range(40))} == {sound}

    server.until(it_serves_all, 10)


def worker_of(sock: socket.socket) -> str:
    """Who answers on a connection, which stays open."""
    sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    status, fields, body = read_reply(sock, bytearray())
    assert status == 200 and fields.get("connection") != "close"
    return body.split()[1].decode()


@pytest.mark.once
def test_idle_connections_leave_a_worker_that_is_held_up_before_they_ask(serve: Serve, shop: Shop) -> None:
    """More than can be under way at a time; each keeps the patience of one that has asked before."""
    server = serve("shop", "--workers", "2", "--keep-alive", "60s", "--first-byte-timeout", "1s", cwd=shop())
    idle = [ask(server, "/sleep?0.02") for _ in range(500)]
    assert len({read_reply(sock, bytearray())[2].split()[1] for sock in idle}) == 2
    spinning = ask(server, "/spin")

    def only_its_own() -> bool:
        # It notices when it has something to do, which the first of them are for.
        for sock in idle[:20]:
            worker_of(sock)
        return any(worker["strained"] and worker["connections"] <= 1 for worker in server.status()["workers"])

    server.until(only_its_own)
    time.sleep(1.5)
    assert len({worker_of(sock) for sock in idle}) == 1
    for sock in (*idle, spinning):
        sock.close()


@pytest.mark.once
def test_idle_connections_leave_a_worker_that_has_had_no_free_thread_for_a_while(serve: Serve, shop: Shop) -> None:
    server = serve("shop", "--workers", "2", "--threads", "2", cwd=shop())
    kept = some_with_each(server, worker=pid_of)
    # Two of three are in one worker.
    sleeping = [ask(server, f"/sleep?{4 * PATIENCE}") for _ in range(3)]
    server.until(lambda: any(worker["busy"] == worker["connections"] == 2 for worker in server.status()["workers"]))
    last = {int(worker_of(sock)) for sock in kept}
    assert len(last) == 1
    counted = server.counters()
    moved = sum(worker not in last for worker in kept.values())
    assert 0 < moved <= counted["connections_taken_over"] <= counted["connections_handed_over"]
    for sock in (*kept, *sleeping):
        sock.close()


@pytest.mark.once
def test_a_worker_that_has_become_free_takes_the_next_connection(serve: Serve, shop: Shop) -> None:
    """The kernel may wake the one that is busy: it leaves the connection to the other."""
    folder = shop()
    server = serve("shop", "--workers", "2", cwd=folder)
    # However long the others take, it is still there.
    long = ask(server, "/wait")
    server.until(lambda: busy(server) == 1)
    [occupied] = [str(worker["pid"]) for worker in server.status()["workers"] if worker["busy"]]
    pids = []
    for _ in range(40):
        pids.append(answer(ask(server, "/sleep?0.05"))[2].split()[1].decode())
        # A client may be quicker than the word that a thread has come back.
        server.until(lambda: busy(server) == 1)
    assert occupied not in pids
    open_gate(folder)
    assert answer(long)[2].split()[1].decode() == occupied


def test_where_all_are_stuck_new_connections_are_still_taken(serve: Serve, shop: Shop) -> None:
    folder = shop()
    server = serve("shop", "--workers", "2", "--threads", "4", cwd=folder)
    stuck = []
    for count in range(1, 9):
        # One by one, so that each worker knows what the other one has.
        stuck.append(ask(server, "/wait"))
        server.until(lambda count=count: busy(server) == count)
    late = ask(server, "/")
    open_gate(folder)
    assert answer(late)[0] == 200
    assert [answer(sock)[0] for sock in stuck] == [200] * 8


def test_a_worker_that_leaves_answers_idle_connections_once_more(serve: Serve, shop: Shop) -> None:
    server = serve("shop", cwd=shop("one"))
    with server.connect() as idle, server.connect() as silent:
        buffer = bytearray()
        idle.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert read_reply(idle, buffer)[2].startswith(b"one")
        silent.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        read_reply(silent, bytearray())
        shop("two")
        assert server.order("reload")[0] == 0
        idle.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        status, fields, body = read_reply(idle, buffer)
        assert status == 200 and body.startswith(b"one") and fields["connection"] == "close"
        assert idle.recv(1) == b""


@pytest.mark.once
def test_a_worker_that_leaves_and_waits_for_a_lost_thread_looks_ever_more_rarely(serve: Serve, shop: Shop) -> None:
    server = serve("shop", "--graceful-timeout", "3s", cwd=shop())
    lost = ask(server, "/deadlock")
    server.until(lambda: busy(server) == 1)
    [old] = [worker["pid"] for worker in server.status()["workers"]]
    os.kill(server.pid, signal.SIGHUP)
    server.until(lambda: any(worker["state"] == "leaving" for worker in server.status()["workers"]))
    looks = [waits_of_main_thread(old)]

    def is_gone() -> bool:
        try:
            looks.append(waits_of_main_thread(old))
        except OSError:
            return True
        return False

    server.until(is_gone)
    # Each 20 ms it would be some 150, and each takes the interpreter as well.
    assert looks[-1] - looks[0] < 90, looks
    lost.close()


def waits_of_main_thread(pid: int) -> int:
    """How often a process's main thread has waited for something."""
    found = Path(f"/proc/{pid}/task/{pid}/status").read_text()
    return int(found.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


def test_idle_connections_of_a_leaving_worker_are_closed_after_their_time(serve: Serve, shop: Shop) -> None:
    # However long a reload takes, what runs may have the rest of its body after it.
    patient = ("--no-request-buffering", "--body-grace", "60s")
    server = serve("shop", "--drain-keep-alive", "500ms", *patient, cwd=shop())
    first = server.workers[0]
    with server.connect() as silent, server.connect() as running:
        silent.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        read_reply(silent, bytearray())
        # What runs keeps the worker, so that it can be asked: it waits for the rest of its body.
        running.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na")
        server.until(lambda: busy(server) == 1)
        server.counts("connections_drained", 0)
        assert server.order("reload")[0] == 0
        assert silent.recv(1) == b""
        server.counts("connections_drained", 1)
        running.sendall(b"b")
        assert read_reply(running, bytearray())[0] == 200
    server.until(lambda: all(worker["pid"] != first for worker in server.status()["workers"]))


def test_at_a_stop_what_runs_is_finished_by_all_workers(serve: Serve, shop: Shop) -> None:
    server = serve("shop", "--workers", "2", cwd=shop())
    running = [ask(server, f"/sleep?{index % 10 / 10 + 0.3}") for index in range(40)]
    server.until(lambda: sum(worker["requests"] for worker in server.status()["workers"]) == 40)
    results: list[Any] = []
    readers = [threading.Thread(target=lambda sock=sock: results.append(answer(sock)[0])) for sock in running]
    for reader in readers:
        reader.start()
    os.kill(server.pid, signal.SIGTERM)
    assert server.process.wait(PATIENCE) == 0
    for reader in readers:
        reader.join()
    assert results == [200] * 40
