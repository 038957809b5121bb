"""The last ten minutes, as `/history.json` has them: kept by the status process, which sleeps while nothing happens."""

from __future__ import annotations

import json
import os
import re
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from serving import Serving, read_reply
from shared import GET, Watched, applications, process, serving, settled, statistics, woken

Serve = Callable[..., Serving]
#: It looks each second: who has not been woken for so long sleeps until something happens.
LONG = 2.5


def history(watched: Watched) -> dict[str, Any]:
    status, text = watched.ask("/history.json")
    assert status == 200, text
    found: dict[str, Any] = json.loads(text)
    return found


def points(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(found["columns"], row, strict=True)) for row in found["points"]]


def counted(found: list[dict[str, Any]], what: str) -> float:
    return sum(float(one[what]) for one in found)


def marks(found: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [(mark["kind"], mark["what"], mark["count"]) for mark in found["marks"]]


def sleeps(watched: Watched) -> None:
    """Wait until the process that answers is woken by nothing any more."""
    pid = process(watched.server)

    def asleep() -> bool:
        before = woken(pid[0])
        time.sleep(LONG)
        return woken(pid[0]) == before

    watched.server.until(asleep)


@pytest.mark.parametrize("driver", applications("phases"))
def test_what_was_asked_is_known_though_nobody_has_looked(serve: Serve, tmp_path: Path, driver: str) -> None:
    target, *options = applications("phases")[driver]
    watched = Watched(serve, tmp_path, "--workers", "2", *options, target=target)
    sleeps(watched)
    # The application for ASGI has no view that fails.
    failed = 0 if driver == "asyncio" else 5
    for path in ["/sleep/0.02"] * 15 + ["/fail"] * 5:
        watched.view(path)
    settled(watched.server, statistics(watched.server), 20)

    def known() -> list[dict[str, Any]] | None:
        found = points(history(watched))
        # Rates are those of a second, or of somewhat more where the machine is busy.
        return found if counted(found, "requests") > 10 and counted(found, "failed") >= failed / 2 else None

    found: list[dict[str, Any]] = watched.server.until(known)
    assert counted(found, "requests") < 21 and counted(found, "failed") <= failed + 0.5
    longest = max(one["p99"] or 0 for one in found)
    assert 0.019 < longest < 2, found


def test_who_looks_sleeps_while_nothing_happens_and_what_stays_inside_is_nothing(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", "--threads", "2")
    sleeps(watched)
    with watched.server.connect() as stuck:
        stuck.sendall(GET.format("/sleep/600", "a", "").encode())
        watched.server.until(lambda: points(history(watched))[-1]["busy"] == 1)
        sleeps(watched)
        # As many are inside as when it went to sleep: it knows without a look.
        assert points(history(watched))[-1]["busy"] == 1
        before = len(points(history(watched)))
        assert watched.view("/quick") == 200
        watched.server.until(lambda: len(points(history(watched))) > before)


def test_reloads_deaths_and_limits_are_marked(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", "--limit-body-bytes", "10")
    server = watched.server
    sleeps(watched)
    assert server.order("reload")[0] == 0
    server.until(lambda: ("reload", "", 1) in marks(history(watched)))
    os.kill(serving(server), signal.SIGKILL)
    server.until(lambda: ("death", "signal:SIGKILL", 1) in marks(history(watched)))
    server.until(lambda: [one["state"] for one in server.status()["workers"]] == ["ready"])
    with server.connect() as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n")
        assert read_reply(sock, bytearray())[0] == 413
    assert watched.view("/quick") == 200
    server.until(lambda: ("limit", "--limit-body-bytes", 1) in marks(history(watched)))
    found = history(watched)
    assert [kind for kind, _, _ in marks(found)] == ["reload", "death", "limit"], "a worker that a reload ends is none"
    assert all(found["since"] <= one["from"] <= one["until"] <= found["monotonic"] for one in found["marks"])


def test_only_who_may_see_contents_sees_it(serve: Serve, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a-long-secret\n")
    server = serve("phases:application", "--status-bind", "0.0.0.0:0", "--status-token-file", str(token))
    server.says("  status       http://")
    port = re.findall(r"status       http://[\d.]+:(\d+)", server.log())[0]

    def status(fields: dict[str, str]) -> int:
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/history.json", headers=fields)
        try:
            with urllib.request.urlopen(asked) as reply:
                return int(reply.status)
        except urllib.error.HTTPError as error:
            return error.code

    assert status({}) == 403
    assert status({"Authorization": "Bearer another"}) == 403
    assert status({"Authorization": "Bearer a-long-secret"}) == 200
