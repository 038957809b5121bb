"""`--health-paths`: probes at the application's own addresses, answered before it is asked."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gates import Gate
from gates import gates as gates
from h2client import Client
from serving import Serving, read_reply
from test_order_of_replies import DRIVERS, get  # type: ignore[import-not-found]

Serve = Callable[..., Serving]
PATHS = ("--health-paths", "/livez", "--health-paths", "/readyz", "--health-paths", "/health=startupz")
ALL_GOOD = b"[+] the server has started\n[+] it is not stopping\n[+] 1 workers serve\nok\n"


def ask(server: Serving, path: str) -> tuple[int, bytes]:
    """On a connection of its own."""
    with server.connect() as sock:
        sock.sendall(get(path))
        status, _, body = read_reply(sock, bytearray())
    return status, body


@pytest.mark.parametrize("driver", DRIVERS)
def test_paths_that_are_named_are_the_server_s_and_no_others(serve: Serve, tmp_path: Path, driver: str) -> None:
    log = tmp_path / "access"
    server = serve(*DRIVERS[driver], *PATHS, "--workers", "1", "--access-log-file", str(log))
    with server.connect() as sock:
        buffer = bytearray()
        for path, expected in [
            ("/livez", b"ok\n"), ("/readyz?verbose", ALL_GOOD), ("/health", b"ok\n"),
            ("/livez/", b"/livez/ "), ("/startupz", b"/startupz "), ("/livezz", b"/livezz "),
        ]:  # fmt: skip
            sock.sendall(get(path))
            status, fields, body = read_reply(sock, buffer)
            assert (status, body) == (200, expected)
            if not body.startswith(b"/"):
                assert (fields["content-type"], fields["cache-control"]) == ("text/plain; charset=utf-8", "no-store")
        sock.sendall(b"HEAD /livez HTTP/1.1\r\nHost: a\r\n\r\n")
        status, _, body = read_reply(sock, buffer, head=True)
        assert (status, body) == (200, b"")
        sock.sendall(b"POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody")
        assert read_reply(sock, buffer)[::2] == (200, b"/livez body")
        # In the order of the requests, like everything else.
        sock.sendall(get("/one") + get("/livez") + get("/two") + get("/readyz"))
        assert [read_reply(sock, buffer)[2] for _ in range(4)] == [b"/one ", b"ok\n", b"/two ", b"ok\n"]
    # They are neither logged nor counted among requests, and have a number of their own.
    asked = ["GET /livez/", "GET /startupz", "GET /livezz", "POST /livez", "GET /one", "GET /two"]
    server.until(lambda: [line.split('"')[1][:-9] for line in log.read_text().splitlines()] == asked)
    server.counts("probes_answered", 6)


@pytest.mark.parametrize("how", ["gate", "lock"])
@pytest.mark.parametrize("threads", [1, 4])
def test_they_are_answered_where_every_thread_is_stuck(
    serve: Serve, gates: Iterator[Gate], how: str, threads: int
) -> None:
    """Or one has the interpreter, and lets nobody else have it; in front of a queue that is full."""
    server = serve(*DRIVERS["threads"], *PATHS, "--workers", "1", "--threads", str(threads), "--limit-queue", "1")
    gate = next(gates)
    socks = [server.connect() for _ in range(threads + 1)]
    for sock in socks[:threads]:
        sock.sendall(get(f"/{how}{gate.path}"))
    if how == "gate":
        server.until(lambda: server.status()["workers"][0]["busy"] == threads)
    socks[-1].sendall(get("/waits"))
    for _ in range(3):
        assert ask(server, "/livez") == (200, b"ok\n")
        assert ask(server, "/readyz") == (200, b"ok\n")
    gate.open()
    for sock in socks:
        assert read_reply(sock, bytearray())[0] in (200, 503)
        sock.close()


def test_a_server_that_does_not_go_on_is_told_so_here_as_well(serve: Serve, gates: Iterator[Gate]) -> None:
    options = ("--workers", "1", "--threads", "1", "--liveness-stall", "0.3")
    server = serve(*DRIVERS["threads"], *PATHS, *options)
    gate = next(gates)
    with server.connect() as stuck, server.connect() as waits:
        stuck.sendall(get(f"/gate{gate.path}"))
        server.until(lambda: server.status()["workers"][0]["busy"] == 1)
        assert ask(server, "/livez")[0] == 200, "busy is not dead"
        waits.sendall(get("/waits"))
        dead = (503, b"[+] the supervisor shows signs of life\n[-] 0 of 1 workers finish requests\nnot ok\n")
        server.until(lambda: ask(server, "/livez") == dead)
        gate.open()
        assert [read_reply(sock, bytearray())[0] for sock in (stuck, waits)] == [200, 200]
    server.until(lambda: ask(server, "/livez")[0] == 200)


def test_who_waits_for_others_of_its_route_does_not_make_a_busy_worker_a_dead_one(
    serve: Serve, gates: Iterator[Gate]
) -> None:
    """It would wait where threads are free as well."""
    limited, other = next(gates), next(gates)
    options = (
        "--workers",
        "1",
        "--threads",
        "2",
        "--liveness-stall",
        "0.3",
        "--route-limits",
        f"/gate{limited.path}=1",
    )
    server = serve(*DRIVERS["threads"], *PATHS, *options)
    socks = [server.connect() for _ in range(4)]
    for sock, gate in zip(socks, (limited, other, limited), strict=False):
        sock.sendall(get(f"/gate{gate.path}"))
    server.until(lambda: [server.status()["workers"][0][name] for name in ("busy", "limited")] == [2, 1])
    for _ in range(10):
        assert ask(server, "/livez") == (200, b"ok\n")
        time.sleep(0.1)
    socks[3].sendall(get("/waits"))
    server.until(lambda: ask(server, "/livez")[0] == 503)
    limited.open()
    other.open()
    for sock in socks:
        with sock:
            assert read_reply(sock, bytearray())[0] == 200


def test_who_has_had_nothing_to_do_for_long_is_busy_and_not_dead(serve: Serve, gates: Iterator[Gate]) -> None:
    server = serve(*DRIVERS["threads"], *PATHS, "--workers", "1", "--threads", "1", "--liveness-stall", "2")
    assert ask(server, "/livez") == (200, b"ok\n")
    time.sleep(2.1)
    gate = next(gates)
    with server.connect() as inside, server.connect() as waits:
        inside.sendall(get(f"/gate{gate.path}"))
        server.until(lambda: server.status()["workers"][0]["busy"] == 1)
        waits.sendall(get("/waits"))
        server.until(lambda: server.status()["workers"][0]["queued"] == 1)
        assert ask(server, "/livez") == (200, b"ok\n")
        gate.open()
        assert [read_reply(sock, bytearray())[0] for sock in (inside, waits)] == [200, 200]


@pytest.mark.apart  # it waits longer than a supervisor may be silent that does not wait
def test_a_server_lives_though_nothing_has_happened_for_long(serve: Serve) -> None:
    server = serve(*DRIVERS["threads"], *PATHS, "--workers", "1")
    assert ask(server, "/livez") == (200, b"ok\n")
    time.sleep(17)
    assert ask(server, "/livez") == (200, b"ok\n")


def test_a_supervisor_that_is_stopped_is_told_from_one_that_waits(serve: Serve) -> None:
    server = serve(*DRIVERS["threads"], *PATHS, "--workers", "1")
    assert ask(server, "/livez") == (200, b"ok\n")
    os.kill(server.pid, signal.SIGSTOP)
    dead = (503, b"[-] the supervisor shows signs of life\n[+] 1 of 1 workers finish requests\nnot ok\n")
    try:
        server.until(lambda: ask(server, "/livez") == dead)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    server.until(lambda: ask(server, "/livez") == (200, b"ok\n"))


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_server_that_stops_is_not_ready(serve: Serve, gates: Iterator[Gate], workers: str) -> None:
    delay = ("--shutdown-delay", "30") if workers == "1" else ()
    server = serve(*DRIVERS["threads"], *PATHS, "--workers", workers, *delay)
    assert [ask(server, path)[0] for path in ("/livez", "/readyz", "/health")] == [200, 200, 200]
    gate = next(gates)
    with server.connect() as inside, server.connect() as probe:
        inside.sendall(get(f"/gate{gate.path}"))
        if workers == "1":
            server.process.send_signal(signal.SIGTERM)
            server.until(lambda: ask(server, "/readyz")[0] == 503)
            assert ask(server, "/readyz")[1].splitlines()[1:] == [
                b"[-] it is not stopping", b"[+] 1 workers serve", b"not ok"
            ]  # fmt: skip
            assert [ask(server, path)[0] for path in ("/livez", "/health")] == [200, 200]
        else:
            probe.sendall(get("/readyz"))
            assert read_reply(probe, bytearray())[0] == 200
        gate.open()
        assert read_reply(inside, bytearray())[0] == 200


def test_they_leave_no_record_and_do_not_wear_a_worker_out(serve: Serve) -> None:
    server = serve(*DRIVERS["threads"], *PATHS, "--workers", "1", "--max-requests", "10")
    for _ in range(30):
        assert ask(server, "/livez") == (200, b"ok\n")
    server.counts("probes_answered", 30)
    assert server.order("requests", "--json") == (0, "")
    assert ask(server, "/one")[0] == 200
    recorded = server.until(lambda: server.order("requests", "--json")[1])
    assert json.loads(recorded)["request"] == "GET /one"
    assert "(--max-requests)" not in server.log()
    for _ in range(9):
        assert ask(server, "/one")[0] == 200
    server.says("it has served 10 requests (--max-requests)")


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_whoever_asks_without_end_does_not_have_a_worker_look_each_time(serve: Serve) -> None:
    """The numbers of all workers are read and let go of (madvise) by each look: these are counted."""
    server = serve(*DRIVERS["threads"], *PATHS, "--workers", "1")
    worker = server.workers[0]
    calls = ["strace", "-f", "-qq", "-e", "trace=madvise", "-p", str(worker)]
    with subprocess.Popen(calls, stderr=subprocess.PIPE, text=True) as tracer, server.connect() as sock:
        status = Path(f"/proc/{worker}/status")
        server.until(lambda: "TracerPid:\t0" not in status.read_text() or tracer.poll() is not None)
        if tracer.poll() is not None:
            pytest.skip("strace cannot look at another process here")
        begun, buffer = time.monotonic(), bytearray()
        for _ in range(20):
            sock.sendall(get("/livez") * 50)
            assert [read_reply(sock, buffer)[2] for _ in range(50)] == [b"ok\n"] * 50
        looks = (time.monotonic() - begun) / 0.1 + 2
        tracer.send_signal(signal.SIGINT)
        assert tracer.stderr
        # A block has 320 KiB; others let go of other sizes.
        let_go = tracer.stderr.read().count(", 327680, MADV_DONTNEED")
    assert 1 <= let_go <= looks, f"{let_go} times for 1000 probes"


@pytest.mark.parametrize("driver", DRIVERS)
def test_on_streams_as_well(serve: Serve, driver: str) -> None:
    server = serve(*DRIVERS[driver], *PATHS, "--workers", "1")
    with Client(server.port) as client:
        streams = [client.ask(path) for path in ("/livez", "/one", "/health", "/readyz")]
        client.flush()
        assert list(client.replies(streams).values()) == [b"ok\n", b"/one ", b"ok\n", b"ok\n"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("livez", "'livez' is neither one of /livez, /readyz, /startupz nor /PATH=CHECK"),
        ("/", "'/' is neither"), ("/health", "'/health' is neither"), ("/a b=livez", "'/a b=livez' is neither"),
        ("/health=alive", "such as /health=readyz"), ("/livez,/livez", "'/livez' is there twice"),
    ],
)  # fmt: skip
def test_what_is_no_path_or_no_check_is_refused(value: str, shown: str) -> None:
    with pytest.raises(AssertionError, match=shown.replace("(", ".")):
        Serving("pipelines:application", *(word for path in value.split(",") for word in ("--health-paths", path)))


def test_static_files_and_probes_do_not_hide_one_another(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "page.txt").write_text("page")
    server = serve(*DRIVERS["threads"], *PATHS, "--static", f"/={tmp_path};try")
    found = [ask(server, path) for path in ("/page.txt", "/livez", "/other")]
    assert found == [(200, b"page"), (200, b"ok\n"), (200, b"/other ")]
