"""What `forehand status` says first: whether all is well, and if not what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from forehand.supervisor import situation
from serving import Serving

NOW = 1_000_000.0
READY = {"worker": 1, "state": "ready", "threads": 4, "busy": 1, "queued": 0}
WELL = {"phase": "serving", "wanted": 1, "workers": [READY]}
INSIDE = {"worker": 1, "request": "GET /report", "inside": 0.1}
DIED = {"worker": 3, "pid": 47, "at": NOW - 40, "how": "was ended by signal 11 (SIGSEGV)",
        "inside": ["GET /a for 2 ms", "GET /b for 1.20 s"]}  # fmt: skip
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
        (WELL, [{**INSIDE, "inside": 12.3}, {**INSIDE, "inside": 5}], [],
         ["GET /report is inside worker 1 for 12 s, and 1 more for more than 5 s"]),
        (WELL, [{**INSIDE, "inside": 4.9}], [], []),
        (WELL, [], [FAILED, FAILED, {**FAILED, "status": 200, "error": "client_gone"}],
         ["3 requests have failed in the last 5 minutes, 2 by 500 of GET /orders"]),
        ({**WELL, "deaths": [{**DIED, "at": NOW - 3601}]}, [], [], []),
        ({**WELL, "deaths": [DIED]}, [], [],
         ["worker 3 (process 47) was ended by signal 11 (SIGSEGV) 40 s ago, while it worked on GET /a for 2 ms and 1 "
          "more (the log)"]),
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

    assert "1 worker wanted\n\n  all is well\n\n  requests     " in said("busiest      GET /quick 100 %", "/quick")
    found = json.loads(server.order("status", "--json")[1])
    assert found["situation"] == []
    assert "look at this:\n  - 1 request has failed in the last 5 minutes, 1 by 500 of GET /fail" in said(
        "fail", "/fail"
    )
    with server.connect() as stuck, server.connect() as waits:
        stuck.sendall(b"GET /sleep/20 HTTP/1.1\r\nHost: a\r\n\r\n")
        server.until(lambda: server.status()["workers"][0]["busy"] == 1)
        waits.sendall(b"GET /quick HTTP/1.1\r\nHost: a\r\n\r\n")
        assert "and 1 request waits" in said("every thread of every worker is taken")
        server.process.kill()
