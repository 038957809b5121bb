"""What `forehand status` says first: whether all is well, and if not what is wrong."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forehand.supervisor import concerns, request_list, situation
from serving import Serving

NOW = 1_000_000.0
READY = {"worker": 1, "state": "ready", "threads": 4, "busy": 1, "queued": 0}
MANY = {**READY, "threads": 32, "busy": 31}
LOOP = {**READY, "threads": 0}
HELD = {"seconds": 9.0, "of": 10, "ago": 0.5, "by": "GET /a at /srv/a.py:4 in load"}
LESS = {**HELD, "seconds": 4.0}
HELD_UP = "the event loop of worker 1 was held up for 8.5 of the last 10 s, most recently by"
WELL = {"phase": "serving", "wanted": 1, "workers": [READY]}
GREEN = {**WELL, "worker_class": "gevent"}
INSIDE = {"state": "running", "worker": 1, "request": "GET /report", "inside": 0.1}
DIED = {"worker": 3, "pid": 47, "at": NOW - 40, "how": "was ended by signal 11 (SIGSEGV)",
        "inside": ["GET /a for 2 ms", "GET /b for 1.20 s"]}  # fmt: skip
DAY = 86400.0
FAILED = {"ended": NOW - 60, "status": 500, "error": "", "request": "GET /orders"}


@pytest.mark.parametrize(
    ("status", "running", "ended", "said"),
    [
        (WELL, [INSIDE], [], []),
        (WELL, [], [{**FAILED, "status": 200}], []),
        (WELL, [], [{**FAILED, "ended": NOW - 301}], []),
        ({**WELL, "workers": [{**READY, "busy": 4}]}, [INSIDE] * 4, [], []),
        ({**WELL, "phase": "stopping"}, [], [], ["it is stopping"]),
        ({**WELL, "phase": "draining"}, [], [], ["it will stop"]),
        ({**WELL, "wanted": 2}, [], [], ["1 of 2 workers serve"]),
        ({**WELL, "workers": [{**READY, "busy": 4, "queued": 3}]}, [INSIDE] * 4, [],
         ["every thread of every worker is taken, and 3 requests wait: 4 are in GET /report"]),
        ({**WELL, "workers": [{**READY, "busy": 4, "queued": 1}, {**READY, "worker": 2}]}, [], [],
         ["every thread of 1 of 2 workers is taken, and 1 request waits"]),
        ({**WELL, "workers": [{**READY, "busy": 4, "queued": 3, "limited": 2}]}, [], [],
         ["every thread of every worker is taken, and 1 request waits"]),
        ({**WELL, "workers": [{**READY, "busy": 4, "queued": 3, "limited": 3}]}, [], [], []),
        ({**WELL, "workers": [{**MANY, "queued": 9}]}, [INSIDE] * 31, [],
         ["31 of 32 threads of every worker are taken, 1 is kept for quicker requests, and 9 requests wait: 31"]),
        ({**WELL, "workers": [{**MANY, "busy": 24, "queued": 1}, {**READY, "busy": 4, "queued": 1}]}, [], [],
         ["28 of 36 threads of every worker are taken, 8 are kept for quicker requests, and 2 requests wait"]),
        ({**WELL, "workers": [{**MANY, "busy": 16, "queued": 1}]}, [], [],
         ["16 of 32 threads of every worker are taken, 16 are kept for quicker requests, and 1 request waits"]),
        ({**WELL, "workers": [{**MANY, "busy": 15, "queued": 1}]}, [], [], []),
        ({**GREEN, "workers": [{**READY, "threads": 20, "busy": 20, "queued": 21}]}, [INSIDE] * 20, [],
         ["all 20 greenlets of every worker are taken (--worker-connections 20), and 21 requests wait: 20 are in"]),
        ({**GREEN, "workers": [{**MANY, "queued": 9}]}, [], [], []),
        ({**WELL, "workers": [{**LOOP, "loop_blocked": HELD}]}, [], [],
         [f"{HELD_UP} GET /a at /srv/a.py:4 in load: nothing else of that worker runs meanwhile (the log"]),
        ({**WELL, "workers": [{**LOOP, "loop_blocked": {**HELD, "by": ""}}]}, [], [],
         [f"{HELD_UP} something that is not known: nothing else"]),
        ({**WELL, "workers": [{**LOOP, "loop_blocked": LESS}, {**LOOP, "loop_blocked": HELD}]}, [], [],
         [f"{HELD_UP} GET /a at /srv/a.py:4 in load: nothing else of that worker runs meanwhile"
          "; 1 other worker is held up, too (the log"]),
        ({**GREEN, "workers": [{**READY, "loop_blocked": HELD}]}, [], [], ["gevent's hub of worker 1 was held up"]),
        ({**WELL, "workers": [{**LOOP, "loop_blocked": {**HELD, "ago": 7.0}}]}, [], [], []),
        ({**WELL, "workers": [{**LOOP, "loop_blocked": {**HELD, "seconds": 3.4}}]}, [], [], []),
        ({**WELL, "workers": [{**LOOP, "loop_blocked": None}]}, [], [], []),
        ({**WELL, "workers": [{**READY, "threads": 3, "busy": 2, "queued": 1}]}, [], [], []),
        ({**WELL, "lanes_by_hand": True, "workers": [{**READY, "threads": 3, "busy": 2, "queued": 1}]}, [], [],
         ["2 of 3 threads of every worker are taken, 1 is kept for quicker requests, and 1 request waits"]),
        ({**WELL, "lanes_by_hand": True, "workers": [{**READY, "threads": 3, "busy": 1, "queued": 1}]}, [], [], []),
        ({**WELL, "workers": [{**MANY, "queued": 2, "limited": 2}]}, [], [], []),
        (WELL, [{**INSIDE, "inside": 12.3}, {**INSIDE, "inside": 5}], [],
         ["GET /report is inside worker 1 for 12 s, and 1 more for more than 5 s"]),
        (WELL, [{**INSIDE, "inside": 4.9}], [], []),
        (WELL, [{**INSIDE, "inside": 12.3, "state": "sending"}], [], []),
        (WELL, [], [FAILED, FAILED, {**FAILED, "status": 200, "error": "client_gone"}],
         ["3 requests have failed in the last 5 minutes, 2 by 500 of GET /orders"]),
        ({**WELL, "deaths": [{**DIED, "at": NOW - 3601}]}, [], [], []),
        ({**WELL, "deaths": [DIED]}, [], [],
         ["worker 3 (process 47) was ended by signal 11 (SIGSEGV) 40 s ago, while it worked on GET /a for 2 ms and 1 "
          "more (the log)"]),
        ({**WELL, "deaths": [DIED], "died_in_an_hour": 22}, [], [],
         ["22 workers have died in the last hour, the last one"]),
        (WELL, [], [FAILED] * 128, ["128 or more requests have failed in the last 5 minutes"]),
        ({**WELL, "wanted": 2, "young_deaths": {"in_a_row": 7, "last": "worker 9 ended with status 3", "next_in": 3.9}},
         [], [], ["1 of 2 workers serve: worker 9 ended with status 3, 7 in a row have died soon after their start; "
                  "the next is started in 4 s (the log)"]),
        ({**WELL, "reload_given_up": {"at": NOW - 300, "text": "importing 'shop' raised KeyError"}}, [], [],
         ["the last reload was given up 5 min ago, and the code before it serves: importing 'shop' raised KeyError"]),
        ({**WELL, "log": {"failure": "No space left on device", "lost": 0, "workers_lost": 0}}, [], [],
         ["the log cannot be written: No space left on device"]),
        ({**WELL, "log": {"failure": "", "lost": 1, "workers_lost": 0}}, [], [],
         ["nobody reads the log: 1 line was lost"]),
        ({**WELL, "log": {"failure": "", "lost": 0, "workers_lost": 3, "workers_lost_at": NOW - 9}}, [], [],
         ["3 lines were lost of workers' logs"]),
        ({**WELL, "log": {"failure": "", "lost": 0, "workers_lost": 3, "workers_lost_at": NOW - 301}}, [], [], []),
        ({**WELL, "workers": [{**READY, "descriptors": {"used": 57, "most": 60}}]}, [], [],
         ["worker 1 has 57 of the 60 file descriptors that it may have"]),
        ({**WELL, "workers": [{**READY, "descriptors": {"used": 56, "most": 60}}]}, [], [], []),
        ({**WELL, "workers": [{**READY, "descriptors": None}]}, [], [], []),
        ({**WELL, "listen_queues": [{"address": "http://a:1", "waiting": 9, "limit": 9}]}, [], [], []),
        ({**WELL, "listen_queues": [{"address": "http://a:1", "waiting": 10, "limit": 9}]}, [], [],
         ["http://a:1: 10 connections wait for a worker to accept, and there is no room for more, so that others have "
          "to try again (--backlog 9)"]),
        ({**WELL, "certificate": {"expires": NOW + 13 * DAY, "lasts": 90 * DAY, "unused": ""}}, [], [],
         ["the certificate expires at 1970-01-25 13:46 UTC, in 13 days"]),
        ({**WELL, "certificate": {"expires": NOW + 15 * DAY, "lasts": 90 * DAY, "unused": ""}}, [], [], []),
        ({**WELL, "certificate": {"expires": NOW + 3 * DAY, "lasts": 6 * DAY, "unused": ""}}, [], [], []),
        ({**WELL, "certificate": {"expires": NOW + DAY, "lasts": 6 * DAY, "unused": ""}}, [], [],
         ["the certificate expires at 1970-01-13 13:46 UTC, in 24 h"]),
        ({**WELL, "certificate": {"expires": NOW - 1, "lasts": 6 * DAY, "unused": ""}}, [], [],
         ["the certificate has expired (1970-01-12 13:46 UTC)"]),
        ({**WELL, "certificate": {"expires": NOW + 50 * DAY, "lasts": 90 * DAY,
                                  "unused": "the certificates stay as they were: a.pem: no key\n  more"}}, [], [],
         ["the certificates stay as they were: a.pem: no key"]),
        ({**WELL, "deaths": [DIED, {**DIED, "at": NOW - 600, "inside": []}]}, [], [],
         ["2 workers have died in the last hour, the last one: worker 3 (process 47) was ended by signal 11 (SIGSEGV) "
          "10 min ago (the log)"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_and_nothing_else(status: Any, running: Any, ended: Any, said: list[str]) -> None:
    found = situation.findings(status, running, ended, NOW)
    assert len(found) == len(said), found
    for line, words in zip(found, said, strict=True):
        assert line.startswith(words), line


def told(server: Serving) -> list[str]:
    """What `forehand status` says first."""
    found: list[str] = json.loads(server.order("status", "--json")[1])["situation"]
    return found


def test_a_reload_that_was_given_up_is_told_until_one_succeeds(serve: Callable[..., Serving], tmp_path: Path) -> None:
    code = tmp_path / "shop.py"
    good = "def application(environ, start_response):\n    start_response('200 OK', [])\n    return [b'x']\n"
    code.write_text(good)
    server = serve("shop:application", "--workers", "1", "--chdir", str(tmp_path))
    assert told(server) == []
    code.write_text("raise KeyError('gone')\n")
    assert server.order("reload")[0] != 0
    said = told(server)
    assert len(said) == 1 and said[0].startswith("the last reload was given up "), said
    assert said[0].endswith("and the code before it serves: importing 'shop' raised KeyError"), said
    code.write_text(good)
    assert server.order("reload")[0] == 0
    assert told(server) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_log_that_cannot_be_written_is_told(serve: Callable[..., Serving]) -> None:
    server = serve("phases:application", "--workers", "1", "--access-log", "common", "--access-log-file", "/dev/full")
    with server.connect() as sock:
        sock.sendall(b"GET /quick HTTP/1.1\r\nHost: a\r\n\r\n")
        assert sock.recv(12) == b"HTTP/1.1 200"
    # Where metrics are read, which ask no worker.
    shared, _ = request_list.opened(server.control)
    server.until(lambda: shared.totals()["counters"].get("log_lines_lost"))
    server.until(lambda: told(server) != [])

    def is_told() -> bool:
        server.raw(b"GET /quick HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        return any("lost of workers' logs" in line for line in told(server))

    server.until(is_told)
    assert server.counters()["log_lines_lost"] > 0


def test_a_worker_that_has_no_descriptor_left_is_told(serve: Callable[..., Serving]) -> None:
    server = serve("phases:application", "--workers", "1", "--threads", "2")
    pid = server.status()["workers"][0]["pid"]
    found = concerns.descriptors(pid)
    assert found is not None and 0 < found["used"] < found["most"], found
    assert told(server) == []
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (found["used"], found["most"]))
    assert [line.partition(":")[0] for line in told(server)] == [
        f"worker 1 has {found['used']} of the {found['used']} file descriptors that it may have"
    ]


def test_a_person_on_call_reads_first_what_is_wrong(serve: Callable[..., Serving]) -> None:
    server = serve("phases:application", "--workers", "1", "--threads", "1")

    def said(words: str, ask: str = "") -> str:
        """What is shown, once it has these words; until then something is asked."""
        shown = [""]

        def reached() -> bool:
            if ask:
                server.raw(f"GET {ask} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
            shown[0] = server.order("status")[1]
            return words in shown[0]

        server.until(reached)
        return shown[0]

    assert "1 worker wanted\n\n  all is well\n\n  requests     " in said("busiest      GET /quick ", "/quick")
    found = json.loads(server.order("status", "--json")[1])
    assert found["situation"] == []
    # The first request of its kind has no route, and most of the time.
    server.raw(b"GET /sleep/0.5 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert re.search(r"busiest      (GET /quick \d %, )?requests without a route \d+ %", said("without a route "))
    assert "look at this:\n  - 1 request has failed in the last 5 minutes, 1 by 500 of GET /fail" in said(
        "fail", "/fail"
    )
    with server.connect() as stuck, server.connect() as waits:
        stuck.sendall(b"GET /sleep/20 HTTP/1.1\r\nHost: a\r\n\r\n")
        server.until(lambda: server.status()["workers"][0]["busy"] == 1)
        waits.sendall(b"GET /quick HTTP/1.1\r\nHost: a\r\n\r\n")
        assert "and 1 request waits" in said("every thread of every worker is taken")
        server.process.kill()


@pytest.mark.skipif(importlib.util.find_spec("gevent") is None, reason="gevent is not installed")
def test_of_greenlets_it_is_said_which_option_bounds_them(serve: Callable[..., Serving]) -> None:
    server = serve("phases:application", "--workers", "1", "-k", "gevent", "--worker-connections", "2")
    crowd = [server.connect() for _ in range(3)]
    for sock in crowd:
        sock.sendall(b"GET /sleep/60 HTTP/1.1\r\nHost: a\r\n\r\n")
    words = "all 2 greenlets of every worker are taken (--worker-connections 2), and 1 request waits: 2 are in GET /"
    server.until(lambda: words in server.order("status")[1])
    assert any(line.startswith(words) for line in json.loads(server.order("status", "--json")[1])["situation"])
    server.process.kill()
    for sock in crowd:
        sock.close()
