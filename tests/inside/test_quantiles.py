"""Quantiles that the server tells are those of the requests, and counts are equal to them."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import Serving, read_reply
from shared import GET, Watched, settled, statistics

Serve = Callable[..., Serving]
#: The error of a bucket (docs/looking-inside.md).
BUCKET = 0.05
#: Seconds that views sleep, in turn.
MIXES = {
    "alike": [0.02] * 40,
    "two modes": [0.002, 0.002, 0.002, 0.05] * 10,
    "a long tail": [0.004] * 38 + [0.1, 0.2],
    "a ramp": [0.001 * step for step in range(1, 41)],
}


def quantile(times: list[float], share: float) -> float:
    ordered = sorted(times)
    return ordered[math.ceil(len(ordered) * share) - 1]


@pytest.mark.parametrize("mix", MIXES)
def test_a_quantile_lies_between_what_views_take_and_what_clients_wait(serve: Serve, tmp_path: Path, mix: str) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1")
    shared = statistics(watched.server)
    waited: list[float] = []
    with watched.server.connect() as sock:
        for seconds in MIXES[mix]:
            began = time.perf_counter()
            sock.sendall(GET.format(f"/sleep/{seconds}", "a", "").encode())
            assert read_reply(sock, bytearray())[0] == 200
            # A reply is here a moment before its request is over, and on a busy machine that moment is long.
            while shared.totals()["requests"] == len(waited):
                pass
            waited.append(time.perf_counter() - began)
    settled(watched.server, shared, len(waited))
    told = json.loads(watched.ask("/status.json")[1])["phases"]
    assert told["total"]["count"] == told["app"]["count"] == len(waited)
    assert sum(MIXES[mix]) <= told["total"]["seconds"] <= sum(waited)
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        least, most = quantile(MIXES[mix], share), quantile(waited, share)
        assert least * (1 - BUCKET) <= told["total"][name] <= most * (1 + BUCKET), (name, least, most, told["total"])
        assert least * (1 - BUCKET) <= told["app"][name] <= told["total"][name], (name, told)
