"""How the server lives: threads, stops, limits of time and number, the access log."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import PATIENCE, Serving, read_all, read_reply


def get(server: Serving, path: str) -> tuple[int, bytes]:
    with server.connect() as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        status, _, body = read_reply(sock, bytearray())
        return status, body


def in_threads(count: int, work: Callable[[], object]) -> list[threading.Thread]:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def held(server: Serving, count: int) -> list[socket.socket]:
    """So many requests that have begun, and wait until there is the file of TEST_FILE."""
    socks = [server.connect() for _ in range(count)]
    for sock in socks:
        sock.sendall(b"GET /until HTTP/1.1\r\nHost: a\r\n\r\n")
    server.until(lambda: server.log().count("waits for the file") == count)
    return socks


def test_a_blocking_view_does_not_hold_up_another(serve: Callable[..., Serving], tmp_path: Path) -> None:
    file = tmp_path / "now"
    server = serve("behaviours", env={"TEST_FILE": str(file)})
    socks = held(server, 10)
    for _ in range(100):
        assert get(server, "/hello") == (200, b"hello")
    file.touch()
    for sock in socks:
        assert read_reply(sock, bytearray())[2] == b"it is there"
        sock.close()


def test_a_view_that_burns_does_not_hold_up_another(serve: Callable[..., Serving]) -> None:
    server = serve("behaviours")
    with server.connect() as sock:
        sock.sendall(b"GET /burn-until?opened HTTP/1.1\r\nHost: a\r\n\r\n")
        server.until(lambda: "burns until it is told" in server.log())
        for _ in range(10):
            assert get(server, "/hello") == (200, b"hello")
        assert get(server, "/open?opened") == (200, b"open")
        assert read_reply(sock, bytearray())[2] == b"burnt"


def test_with_no_thread_free_requests_wait_in_order_and_none_is_lost(serve: Callable[..., Serving]) -> None:
    server = serve("behaviours", "--threads", "2")
    results: list[int] = []
    for thread in in_threads(12, lambda: results.append(get(server, "/sleep?0.1")[0])):
        thread.join()
    assert results == [200] * 12


def test_a_pipelined_reply_is_not_kept_back_by_a_slow_one(serve: Callable[..., Serving]) -> None:
    server = serve("behaviours")
    with server.connect() as sock:
        request = b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n"
        # The gate opens when the reply before it has come: kept back, it would never.
        sock.sendall(request % b"/hello" + request % b"/gate?one")
        buffer = bytearray()
        assert read_reply(sock, buffer)[2] == b"hello"
        assert get(server, "/open?one") == (200, b"open")
        assert read_reply(sock, buffer)[2] == b"through"


def test_a_pipelined_reply_is_not_kept_back_though_other_threads_come_home(serve: Callable[..., Serving]) -> None:
    server = serve("behaviours", "--workers", "0")
    request = b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n"
    ended = threading.Event()

    def sleeper(seconds: bytes) -> None:
        with server.connect() as sock:
            buffer = bytearray()
            while not ended.is_set():
                sock.sendall(request % (b"/sleep?" + seconds))
                assert read_reply(sock, buffer)[2] == b"slept"

    sleepers = [threading.Thread(target=sleeper, args=(b"0.00%d" % n,)) for n in (3, 4, 5, 3, 4, 5)]
    for thread in sleepers:
        thread.start()
    try:
        for turn in range(120):
            with server.connect() as sock:
                # The gate opens when the reply before it has come: kept back, it would never.
                sock.sendall(request % b"/hello" + request % b"/gate?%d" % turn)
                buffer = bytearray()
                assert read_reply(sock, buffer)[2] == b"hello"
                assert get(server, f"/open?{turn}") == (200, b"open")
                assert read_reply(sock, buffer)[2] == b"through"
    finally:
        ended.set()
        for thread in sleepers:
            thread.join()


@pytest.mark.interpreters
def test_what_runs_is_finished_before_the_end(serve: Callable[..., Serving], tmp_path: Path) -> None:
    file = tmp_path / "now"
    server = serve("behaviours", env={"TEST_FILE": str(file)})
    with server.connect() as idle:
        idle.sendall(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
        read_reply(idle, bytearray())
        socks = held(server, 20)
        server.process.send_signal(signal.SIGTERM)
        assert read_all(idle) == b"", "an idle connection is closed"
    file.touch()
    replies = []
    for sock in socks:
        replies.append(read_reply(sock, bytearray()))
        sock.close()
    expected = (200, "close", b"it is there")
    assert [(status, fields["connection"], body) for status, fields, body in replies] == [expected] * 20
    assert server.process.wait(PATIENCE) == 0


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once(serve: Callable[..., Serving], signum: int, tmp_path: Path) -> None:
    server = serve("behaviours", env={"TEST_FILE": str(tmp_path / "never")})
    (sock,) = held(server, 1)
    os.kill(server.pid, signum)
    server.until(lambda: "signal again" in server.log())
    begun = time.monotonic()
    assert server.stop(signum) == 1
    assert time.monotonic() - begun < 5
    server.says("1 request was cut")
    sock.close()


TOO_SLOW = 'http_parse_errors_total{reason="body-too-slow"}'


def test_the_graceful_timeout_ends_what_does_not_end(serve: Callable[..., Serving], tmp_path: Path) -> None:
    server = serve("behaviours", "--graceful-timeout", "0.3", env={"TEST_FILE": str(tmp_path / "never")})
    (sock,) = held(server, 1)
    assert server.stop() == 1
    sock.close()


@pytest.mark.parametrize(
    ("options", "sent", "status", "counter"),
    [
        (("--first-byte-timeout", "0.3"), b"", None, "idle_timeouts"),
        (("--header-timeout", "0.3"), b"GET / HT", 408, "request_timeouts"),
        (("--body-grace", "0.3"), b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe", 408, TOO_SLOW),
        (("--keep-alive", "0.3"), b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", 200, "idle_timeouts"),
    ],
)
def test_patience_ends(
    serve: Callable[..., Serving], options: tuple[str, str], sent: bytes, status: int | None, counter: str
) -> None:
    server = serve("behaviours", *options, "--no-defer-accept")
    begun = time.monotonic()
    reply = server.raw(sent)
    assert time.monotonic() - begun < 5
    assert (int(reply.split()[1]) if reply else None) == status
    server.counts(counter, 1)


def test_a_slow_reader_frees_the_thread_and_is_reset_in_the_end(serve: Callable[..., Serving]) -> None:
    server = serve("behaviours", "--threads", "1", "--write-timeout", "0.5")
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", server.port))
        sock.sendall(b"GET /big?20000000 HTTP/1.1\r\nHost: a\r\n\r\n")
        assert get(server, "/hello") == (200, b"hello"), "the only thread is free"
        server.counts("write_timeouts", 1)
        received = len(read_all(sock))
        assert received < 20_000_000


def test_a_refusal_reaches_a_peer_that_goes_on_sending(serve: Callable[..., Serving]) -> None:
    server = serve("behaviours", "--limit-body-bytes", "1M")
    with server.connect() as sock:
        sock.sendall(b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n")
        try:
            for _ in range(40):
                sock.sendall(b"x" * 65536)
        except OSError:
            pass  # the server has heard enough
        assert read_all(sock).startswith(b"HTTP/1.1 413 ")


def test_the_idlest_makes_room(serve: Callable[..., Serving]) -> None:
    server = serve("behaviours", "--limit-connections", "3", "--no-defer-accept")
    socks = [server.connect() for _ in range(3)]
    for sock in socks:
        sock.sendall(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
        assert read_reply(sock, bytearray())[0] == 200
        time.sleep(0.02)
    server.counts("connections_evicted", 0)
    assert get(server, "/hello") == (200, b"hello")
    assert read_all(socks[0]) == b"", "the first was idle longest"
    server.counts("connections_evicted", 1)
    for sock in socks[1:]:
        sock.sendall(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
        assert read_reply(sock, bytearray())[0] == 200
    for sock in socks:
        sock.close()


def test_running_out_of_descriptors_is_survived(tmp_path: Path) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        server = Serving("behaviours")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    socks = []
    for _ in range(100):
        sock = server.connect(5)
        sock.sendall(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
        socks.append(sock)
    for sock in socks[90:]:
        assert read_reply(sock, bytearray())[2] == b"hello", "the idlest have given up their descriptors"
    before = _cpu(server.pid)
    time.sleep(0.5)
    assert _cpu(server.pid) - before < 0.1, "no busy loop"
    for sock in socks:
        sock.close()
    assert get(server, "/hello") == (200, b"hello")
    assert server.stop() == 0
    server.kill()


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_peers_that_leave_at_any_moment_leave_nothing_behind(serve: Callable[..., Serving]) -> None:
    server = serve("behaviours")
    whole = b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n" + b"x" * 20
    for reset in (False, True):
        for cut in range(0, len(whole) + 1, 3):
            with server.connect() as sock:
                if reset:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                sock.sendall(whole[:cut])
    assert get(server, "/hello") == (200, b"hello")
    for _ in range(200):
        if len(os.listdir(f"/proc/{server.pid}/fd")) < 20:
            return
        time.sleep(0.02)
    raise AssertionError(os.listdir(f"/proc/{server.pid}/fd"))


def test_the_log_of_refusals_is_bounded(serve: Callable[..., Serving]) -> None:
    server = serve("behaviours")
    begun = time.monotonic()
    for _ in range(300):
        server.raw(b"NONSENSE\r\n\r\n")
    # Ten a second, by the seconds of the clock.
    seconds = int(time.monotonic() - begun) + 2
    suppressed = server.counters()["log_lines_suppressed"]
    assert server.stop() == 0
    lines = [line for line in server.log().splitlines() if "refused a request" in line]
    assert 0 < len(lines) <= 10 * seconds
    if suppressed:
        server.says("suppressed")
    assert len(lines) + suppressed == 300, "each line was written or counted"


def test_a_peer_cannot_write_lines_into_the_log(serve: Callable[..., Serving], tmp_path: Path) -> None:
    server = serve("behaviours", "--access-log", "combined", "--access-log-file", str(tmp_path / "log"))
    server.raw(b'GET /hello?"x HTTP/1.1\r\nHost: a\r\nUser-Agent: a"b\xff\r\nConnection: close\r\n\r\n')
    server.raw(b"GET /raises?%0d%0afake HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert server.stop() == 0
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("127.0.0.1 - - [")
    assert '"GET /hello?\\x22x HTTP/1.1" 200 5 "-" "a\\x22b\\xff"' in lines[0]
    assert " 500 " in lines[1]


def test_the_access_log_in_json(serve: Callable[..., Serving], tmp_path: Path) -> None:
    server = serve("behaviours", "--access-log", "json", "--access-log-file", str(tmp_path / "log"))
    server.raw(b"GET /sleep?0.05 HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 203.0.113.7\r\nConnection: close\r\n\r\n")
    assert server.stop() == 0
    line = json.loads((tmp_path / "log").read_text())
    assert (line["remote_addr"], line["method"], line["target"]) == ("203.0.113.7", "GET", "/sleep?0.05")
    assert (line["status"], line["bytes"], line["host"]) == (200, 5, "h")
    assert line["duration_us"] >= 50_000


def test_idle_costs_nothing(serve: Callable[..., Serving]) -> None:
    server = serve("behaviours")
    socks = [server.connect() for _ in range(50)]
    for sock in socks:
        sock.sendall(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
        read_reply(sock, bytearray())
    # Where a machine is busy it takes a while until the watchdog has gone to sleep.
    pids = (server.pid, *server.workers)
    for _ in range(20):
        before = [_cpu(pid) for pid in pids]
        time.sleep(1)
        if [_cpu(pid) for pid in pids] == before:
            break
    else:
        pytest.fail("of twenty seconds there was none in which it did not use a processor")
    for sock in socks:
        sock.close()


@pytest.mark.parametrize(("size", "waits"), [(64 * 1024 - 1, 0), (64 * 1024, 0), (64 * 1024 + 1, 1)])
def test_a_generator_waits_for_its_reader_only_beyond_the_buffer(
    serve: Callable[..., Serving], size: int, waits: int
) -> None:
    # The limit response_buffer_bytes; the kernel's own buffers come on top, so that what is
    # seen from outside is only that every byte arrives, however slow the reader.
    server = serve("behaviours", "--limit-response-buffer-bytes", "65536")
    with server.connect() as sock:
        sock.sendall(f"GET /big?{size + waits * 20_000_000} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        time.sleep(0.1)
        assert get(server, "/hello") == (200, b"hello")
        assert len(read_reply(sock, bytearray())[2]) == size + waits * 20_000_000


@pytest.mark.parametrize(("rate", "served"), [(1, True), (10_000_000, False)])
def test_a_body_must_keep_its_rate(serve: Callable[..., Serving], rate: int, served: bool) -> None:
    server = serve("behaviours", "--limit-body-rate", str(rate), "--body-grace", "0.2")
    with server.connect() as sock:
        sock.sendall(b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
        time.sleep(0.8)
        if not served:
            # What has come by the time that the server looks is in time, however late that is.
            assert select.select([sock], [], [], PATIENCE)[0]
        try:
            sock.sendall(b"world")
        except OSError:
            pass  # it was refused by now
        assert read_reply(sock, bytearray())[0] == (200 if served else 408)


def test_a_refused_peer_is_listened_to_for_a_while_and_no_longer(serve: Callable[..., Serving]) -> None:
    server = serve("behaviours", "--linger-timeout", "0.3", "--limit-drain-bytes", "1000")
    with server.connect() as sock:
        begun = time.monotonic()
        sock.sendall(b"NONSENSE\r\n" + b"x" * 500)
        assert read_reply(sock, bytearray())[0] == 400
        while time.monotonic() - begun < 5:
            try:
                sock.sendall(b"x")
            except OSError:
                break
            time.sleep(0.02)
        assert 0.1 < time.monotonic() - begun < 3
    server.counts("lingers_cut", 1)


@pytest.mark.parametrize("threads", ["1", "3"])
def test_many_requests_at_one_moment_all_have_their_turn(serve: Callable[..., Serving], threads: str) -> None:
    server = serve("behaviours", "--threads", threads, "--workers", "0")
    socks = [server.connect() for _ in range(60)]
    for sock in socks:
        sock.sendall(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
        assert read_reply(sock, bytearray())[0] == 200
    # Stopped, the server finds all of them in one look: more than it reads before it answers.
    os.kill(server.pid, signal.SIGSTOP)
    for sock in socks:
        sock.sendall(b"GET /sleep?0.02 HTTP/1.1\r\nHost: a\r\n\r\n")
    os.kill(server.pid, signal.SIGCONT)
    for sock in socks:
        assert read_reply(sock, bytearray())[0] == 200
        sock.close()
