"""`--status-bind`: what a server says of itself over HTTP, judged by Prometheus' own parser."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forehand import errors
from forehand.supervisor.statistics import reason
from serving import PATIENCE, Serving, read_all, read_reply
from shared import OPEN, Samples, Watched, settled, statistics

Serve = Callable[..., Serving]
GET = "GET {} HTTP/1.1\r\nHost: {}\r\n{}\r\n"
DURATION = "http_server_request_duration_seconds"
EXITS = "forehand_worker_exits_total"
PROCESSOR = "forehand_worker_cpu_seconds_total"


def counted(samples: Samples, name: str, **labels: str) -> float:
    """The sum of all samples of a name that have these labels."""
    wanted = set(labels.items())
    return sum(value for (known, given), value in samples.items() if known == name and wanted <= given)


@pytest.mark.parametrize("fields", [OPEN, ""], ids=["openmetrics", "prometheus"])
def test_both_formats_are_read_by_prometheus_own_parser(serve: Serve, tmp_path: Path, fields: str) -> None:
    watched = Watched(serve, tmp_path, "--workers", "2")
    for path, status in (("/quick", 200), ("/quick", 200), ("/fail", 500), ("/missing", 404)):
        assert watched.view(path) == status
    settled(watched.server, statistics(watched.server), 4)
    samples = watched.samples(fields)
    count = f"{DURATION}_count"
    labels = {"http_request_method": "GET", "network_protocol_version": "1.1", "url_scheme": "http"}
    assert counted(samples, count, http_response_status_code="200", **labels) == 2
    assert counted(samples, count, http_response_status_code="500", error_type="500", **labels) == 1
    assert counted(samples, count) == 4
    assert counted(samples, f"{DURATION}_bucket", le="+Inf") == 4
    assert counted(samples, "forehand_request_phase_seconds_count", phase="app") == 4
    assert counted(samples, "forehand_requests_total") == 4
    assert counted(samples, "forehand_workers", state="ready") == 2
    assert counted(samples, "forehand_worker_starts_total") == 2


def test_each_worker_says_what_it_has_of_the_machine(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "2")
    memory = "forehand_worker_memory_bytes"
    samples = watched.samples()
    workers = {(str(one["worker"]), str(one["pid"])) for one in watched.server.status()["workers"]}
    for name in (memory, PROCESSOR):
        labels = [dict(given) for known, given in samples if known == name]
        assert {(one["worker"], one["pid"]) for one in labels} == workers and len(labels) == 2
    pid = min(workers)[1]
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    told = counted(samples, memory, pid=pid)
    # Others of its pages may have come and gone since.
    assert 0.5 * resident < told < 2 * resident
    before = {pid: counted(samples, PROCESSOR, pid=pid) for _, pid in workers}
    # Of whichever worker took them.
    watched.server.until(lambda: watched.view("/burn/0.05") == 200 and counted(watched.samples(), PROCESSOR)
                         >= sum(before.values()) + 0.1)  # fmt: skip
    after = watched.samples()
    assert all(counted(after, PROCESSOR, pid=pid) >= used for pid, used in before.items())


def test_reasons_for_which_workers_end_are_there_before_any_has(serve: Serve, tmp_path: Path) -> None:
    """Who asks for `increase()` sees the first one."""
    watched = Watched(serve, tmp_path, "--workers", "1")

    def exits() -> dict[str, float]:
        return {dict(labels)["reason"]: value for (name, labels), value in watched.samples().items() if name == EXITS}

    before = exits()
    assert set(before.values()) == {0}
    for how, stale in (
        ("was ended by signal 11 (SIGSEGV)", ""), ("was ended by signal 9 (SIGKILL)", ""), ("never began", ""),
        ("was ended by the OOM killer (it has held up to 812 MiB)", ""), ("ended with status 1", ""),
        ("ended with status 0", "it has served 5 requests (--max-requests)"), ("ended with status 0", ""),
        ("ended with status 0", "it holds 5 KiB of PSS (--max-worker-memory 4 KiB)"),
        (f"ended with status {errors.APPLICATION}", ""),
    ):  # fmt: skip
        assert reason(how, stale) in before
    os.kill(watched.server.workers[0], signal.SIGKILL)
    watched.server.until(lambda: exits() == {**before, "signal:SIGKILL": 1})


def test_labels_that_clients_choose_are_escaped_and_bounded(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1")
    for _ in range(2):
        assert watched.view('/quick/"quoted"\\') == 200
    for number in range(300):
        assert watched.view(f"/missing/scanned{number}x") == 404
    for _ in range(2):
        watched.server.raw(b"BREW /quick HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    settled(watched.server, statistics(watched.server), 304)
    samples = watched.samples()
    routes = {dict(labels)["route"] for name, labels in samples if name == "forehand_route_requests_total"}
    assert routes == {'GET /quick/"quoted"\\', "_OTHER /quick"}, "what is not there makes no route"
    assert counted(samples, f"{DURATION}_count", http_request_method="_OTHER") == 2


def test_no_series_ever_falls_through_kills_and_a_reload(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "2", "--threads", "4")
    over = threading.Event()

    def load() -> None:
        while not over.is_set():
            try:
                watched.view("/sleep/0.01")
            except (OSError, AssertionError):
                continue  # its worker was killed

    clients = [threading.Thread(target=load) for _ in range(4)]
    for client in clients:
        client.start()
    last = watched.samples()
    grows = ("_total", "_count", "_bucket", "_sum")

    def look() -> Samples:
        nonlocal last
        now = watched.samples()
        for key, before in last.items():
            # Those of a worker alone end with it.
            if key[0].endswith(grows) and not (key[0] == PROCESSOR and key not in now):
                assert now.get(key, -1) >= before, f"{key} was {before} and is {now.get(key)}"
        last = now
        return now

    killed = 0
    try:
        for round in range(3):
            start = counted(last, f"{DURATION}_count")
            watched.server.until(lambda start=start: counted(look(), f"{DURATION}_count") > start + 50)
            if round == 1:
                assert watched.server.order("reload")[0] == 0
                continue
            serves = [one["pid"] for one in watched.server.status()["workers"] if one["state"] == "ready"]
            os.kill(serves[0], signal.SIGKILL)
            killed += 1
            # The supervisor has heard of it, and of another one in its place.
            watched.server.until(lambda: counted(look(), EXITS, reason="signal:SIGKILL") == killed)
            watched.server.until(lambda: counted(look(), "forehand_workers", state="ready") == 2)
    finally:
        over.set()
        for client in clients:
            client.join()
    found = look()
    assert counted(found, EXITS, reason="signal:SIGKILL") == 2
    assert counted(found, "forehand_reloads_total", outcome="done") == 1
    assert counted(found, f"{DURATION}_count", error_type="worker_died") == counted(
        found, "forehand_requests_died_inside_total"
    )


def test_probes_are_answered_though_every_thread_is_stuck(serve: Serve, tmp_path: Path) -> None:
    options = ("--workers", "1", "--threads", "1", "--liveness-stall", "0.5")
    watched = Watched(serve, tmp_path, *options)
    assert [watched.ask(path)[0] for path in ("/livez", "/readyz", "/startupz")] == [200, 200, 200]
    with watched.server.connect() as stuck, watched.server.connect() as waits:
        stuck.sendall(GET.format("/sleep/3", "a", "").encode())
        watched.server.until(lambda: watched.ask("/metrics")[1].count("\nhttp_server_active_requests 1\n") == 1)
        assert watched.ask("/livez")[0] == 200, "busy is not dead"
        waits.sendall(GET.format("/quick", "a", "").encode())
        status, text = watched.server.until(lambda: watched.ask("/livez") if watched.ask("/livez")[0] != 200 else None)
        assert (status, text) == (
            503,
            "[+] the supervisor shows signs of life\n[-] 0 of 1 workers finish requests\nnot ok\n",
        )
        assert watched.ask("/readyz")[0] == 200
        for sock in (stuck, waits):
            assert read_reply(sock, bytearray())[0] == 200
    watched.server.until(lambda: watched.ask("/livez")[0] == 200)


def test_a_supervisor_is_not_woken_to_show_that_it_lives(serve: Serve, tmp_path: Path) -> None:
    """It says until when it need not be heard of: for ever where nothing is due. One that is stopped is told."""
    watched = Watched(serve, tmp_path, "--workers", "1")

    def told() -> tuple[int | None, bool]:
        found = json.loads(watched.ask("/status.json")[1])
        return found["server"]["looks_by_ms"], found["health"]["supervised"]

    watched.server.until(lambda: told() == (None, True))
    os.kill(watched.server.pid, signal.SIGSTOP)
    try:
        watched.server.until(lambda: not told()[1])
        assert watched.ask("/livez")[0] == 503
    finally:
        os.kill(watched.server.pid, signal.SIGCONT)
    watched.server.until(lambda: told()[1])
    assert watched.ask("/livez")[0] == 200


def test_a_server_that_stops_is_not_ready_and_lives(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1")
    with watched.server.connect() as sock:
        sock.sendall(GET.format("/sleep/2", "a", "").encode())
        watched.server.until(lambda: json.loads(watched.ask("/status.json")[1])["inside"] == 1)
        watched.server.process.send_signal(signal.SIGTERM)
        watched.server.until(lambda: watched.ask("/readyz")[0] == 503)
        assert "[-] it is not stopping" in watched.ask("/readyz?verbose")[1]
        assert watched.ask("/livez")[0] == 200
        assert read_reply(sock, bytearray())[0] == 200
    assert watched.server.process.wait(PATIENCE) == 0
    assert not Path(watched.path).exists()


def test_nothing_can_be_changed_and_what_names_paths_is_private(serve: Serve, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a long secret\n")
    server = serve(
        "phases:application", "--workers", "1", "--status-bind", "0.0.0.0:0", "--status-token-file", str(token),
        "--slow-request", "0.2",
    )  # fmt: skip
    server.says("  status       http://0.0.0.0:")
    port = int(re.findall(r"status       http://0.0.0.0:(\d+)", server.log())[0])

    def answer(path: str, fields: str = "", method: str = "GET") -> str:
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as sock:
            sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n".encode())
            return read_all(sock).decode()

    def ask(path: str, fields: str = "", method: str = "GET") -> int:
        return int(answer(path, fields, method).split()[1])

    server.until(lambda: ask("/livez") == 200)
    assert [ask("/metrics", method=method) for method in ("HEAD", "POST", "DELETE")] == [200, 405, 405]
    assert "\r\nAllow: GET, HEAD\r\n" in answer("/metrics", method="POST")
    assert ask("/status.json", "Authorization: Bearer a long secre\r\n") == 403
    assert [ask("/status.json", f"Authorization: {name} a long secret\r\n") for name in ("bearer", "Basic")] == [
        200,
        403,
    ]
    assert server.raw(GET.format("/fail/hidden", "a", "Connection: close\r\n").encode()).startswith(b"HTTP/1.1 500")
    assert server.raw(GET.format("/sleep/0.8", "a", "Connection: close\r\n").encode()).startswith(b"HTTP/1.1 200")
    settled(server, statistics(server), 2)
    right = "Authorization: Bearer a long secret\r\n"
    for path, fields, shown in (("", "", False), ("?token=a%20long%20secret", "", False), ("", right, True)):
        text = answer(f"/status.json{path}", fields)
        found = json.loads(text.partition("\r\n\r\n")[2])
        assert (found["contents"], "ended" in found, "hidden" in text) == (shown, shown, shown)
        assert ("phases.py:" in text) == shown, "where a slow one was found"
        assert (found["requests"], found["failed"]) == (2, 1), "numbers are everybody's"


def test_the_process_that_answers_comes_back_and_goes_with_its_server(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1")

    def panel() -> int:
        pids = Path(f"/proc/{watched.server.pid}/task/{watched.server.pid}/children").read_text().split()
        names = {int(pid): Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids}
        return next((pid for pid, name in names.items() if name == "forehand-status"), 0)

    first: int = watched.server.until(panel)
    assert watched.ask("/livez")[0] == 200
    os.kill(first, signal.SIGKILL)
    # Its socket stays open, so that a probe only waits.
    assert watched.ask("/livez")[0] == 200
    second = panel()
    assert second not in (0, first)
    assert watched.server.order("upgrade")[0] == 0
    assert watched.ask("/livez")[0] == 200
    third: int = watched.server.until(lambda: panel() not in (0, second) and panel())
    watched.server.kill()
    watched.server.until(lambda: not Path(f"/proc/{third}").exists())


def test_a_token_that_cannot_be_read_is_refused_at_the_start(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    for path, word in ((empty, "is empty"), (tmp_path / "none", "No such file")):
        with pytest.raises(AssertionError, match=word):
            Serving("phases:application", "--status-bind", f"unix:{tmp_path}/s.sock", "--status-token-file", str(path))


def test_status_json_has_the_whole(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1")
    for _ in range(3):
        watched.view("/sleep/0.02/17")
    settled(watched.server, statistics(watched.server), 3)
    found: dict[str, Any] = json.loads(watched.ask("/status.json")[1])
    assert found["schema"] == 1 and found["requests"] == 3
    assert found["server"]["pid"] == watched.server.pid and found["server"]["ready"] == 1
    assert found["phases"]["app"]["count"] == 3 and 0.019 <= found["phases"]["app"]["p50"] < 1
    assert found["routes"]["GET /sleep/0.02/*"]["requests"] == 2
    assert found["counters"]["requests_total"] == 3
    # What a program, or the page, needs in order to tell what has come between two answers.
    for phase in found["phases"].values():
        assert sum(count for _, count in phase["buckets"]) == phase["count"]
        assert [end for end, _ in phase["buckets"]] == sorted(end for end, _ in phase["buckets"])
    assert found["health"] == {"live": True, "ready": True, "started": True, "supervised": True, "stuck": 0}
    assert (found["failed"], found["errors"], found["exits"], found["limits"]) == (0, {}, {}, [])
    assert found["build"]["target"] == "phases:application" and found["slow_request"] == 5
    assert [one["request"] for one in found["ended"]] == ["GET /sleep/0.02/17"] * len(found["ended"])
    assert found["ended"][-1]["phases"]["app"] >= 0.019 and found["ended"][-1]["status"] == 200


def test_status_json_tells_what_is_inside_and_which_limits_were_reached(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", "--threads", "1", "--queue-timeout", "0.2")
    with watched.server.connect() as stuck:
        stuck.sendall(GET.format("/sleep/600/17?secret=1", "a", "").encode())
        watched.server.until(lambda: json.loads(watched.ask("/status.json")[1])["inside"] == 1)
        assert watched.view("/quick") == 503
        settled_at = watched.server.until(
            lambda: (found := json.loads(watched.ask("/status.json")[1]))["errors"].get("queue_timeout") and found
        )
        [running] = settled_at["workers"][0]["running"]
        assert running["request"] == "GET /sleep/600/17" and 0 < running["inside"] <= running["seconds"] < 600
        assert settled_at["failed"] == 1
        limits = {one["option"]: one for one in settled_at["limits"]}
        assert limits["--queue-timeout"]["counters"] == {"requests_waited_too_long": 1}
        assert "503" in limits["--queue-timeout"]["answer"]
        assert settled_at["ended"][-1]["error"] == "queue_timeout"
