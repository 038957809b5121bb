"""How long requests took, as /metrics has it and as the load engine has seen it, for five mixes.

    python bench/quantiles.py [--requests 2000] [--json]

The engine plays each mix on a server of its own; then a Prometheus server (Debian's package prometheus) reads them all
and is asked for quantiles: of `http_server_request_duration_seconds` by OpenTelemetry's buckets, and of
`forehand_request_seconds` as a native histogram. Beside them stands what the engine has measured of the same requests,
from their first byte sent to the last of the reply. Bounds: the engine's quantile lies in the bucket in which
Prometheus finds it, or at its edge; the native one is within 5 % of it; as many were counted as were asked. Exit
status 1: one of them does not hold. Times of an engine that says itself that it was held up are shown, and not judged.
"""

from __future__ import annotations

import argparse
import bisect
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# Servers are started as the tests start them.
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE.parent / "tests/inside")]

from scraper import Prometheus, last, status_address  # noqa: E402
from serving import Serving  # noqa: E402

#: The one that is named, or that of `make load`.
ENGINE = Path(os.environ.get("FOREHAND_LOAD") or HERE.parent / "target/release/forehand-load")
SHARES = (50, 90, 99)
#: How far a native histogram may be from what the engine has seen, and a bound from a quantile that lies at it.
NATIVE, EDGE = 0.05, 0.02
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
CLOSED = {"kind": "closed", "connections": 8}
#: By its name: the load, and views with their weights.
MIXES: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "alike": (CLOSED, {"/sleep/0.02": 1}),
    "two modes": (CLOSED, {"/sleep/0.003": 4, "/sleep/0.06": 1}),
    "a long tail": (CLOSED, {"/sleep/0.006": 90, "/sleep/0.03": 8, "/sleep/0.15": 2}),
    "on a processor": ({"kind": "closed", "connections": 1}, {"/burn/0.003": 3, "/burn/0.012": 1}),
    "at random moments": (
        {"kind": "open", "arrivals": "poisson", "rate": 150},
        {"/sleep/0.012": 3, "/sleep/0.04": 1},
    ),
}  # fmt: skip


def played(server: Serving, mix: str, requests: int) -> dict[str, Any]:
    """The engine's result, in which everything must have had its reply."""
    load, views = MIXES[mix]
    plan = {
        "url": server.url, "load": {**load, "count": requests}, "duration_s": 600.0, "threads": 1,
        "requests": [{"name": path, "target": path, "weight": weight} for path, weight in views.items()],
    }  # fmt: skip
    command = [str(ENGINE), "--plan", "/dev/stdin"]
    said = subprocess.run(command, input=json.dumps(plan).encode(), stdout=subprocess.PIPE, check=True).stdout
    found: dict[str, Any] = json.loads(said)
    if found["errors"] or found["totals"]["replies"] != found["totals"]["started"]:
        raise SystemExit(f"{mix}: not everything was answered: {found['totals']} {found['errors']}")
    return found


def quantiles(prometheus: Prometheus, instance: str, mix: str, found: dict[str, Any]) -> dict[str, Any]:
    """Of one server: what was counted, and for each share what the three say, in seconds."""
    every = last(f'http_server_request_duration_seconds_count{{instance="{instance}"}}')
    asked = found["totals"]["started"]
    # A reply is with its client a moment before it is counted.
    prometheus.until(lambda: prometheus.number(f"sum({every})") >= asked)
    told: dict[str, Any] = {"mix": mix, "asked": asked, "counted": int(prometheus.number(f"sum({every})"))}
    told["views"] = {path: one["replies"] for path, one in found["by_request"].items()}
    told["fit"] = found["generator"]["verdict"] != "at_fault"
    told["longest"] = found["times"]["service"]["max_us"] / 1e6
    buckets = last(f'http_server_request_duration_seconds_bucket{{instance="{instance}"}}')
    native = f'forehand_request_seconds{{instance="{instance}"}}'
    for share in SHARES:
        told[f"p{share}"] = {
            "engine": found["times"]["service"]["percentiles_us"][str(share)] / 1e6,
            "classic": prometheus.number(f"histogram_quantile({share / 100}, sum by (le) ({buckets}))"),
            "native": prometheus.comes(f"histogram_quantile({share / 100}, {native})"),
        }
    return told


def measured(requests: int) -> list[dict[str, Any]]:
    """All mixes, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        servers: list[Serving] = []
        try:
            for _ in MIXES:
                options = ("--workers", "1", "--status-bind", "127.0.0.1:0")
                servers.append(Serving("phases:application", *options, cwd=HERE.parent / "tests/apps"))
            addresses = [status_address(server) for server in servers]
            # It takes some seconds until it knows whom to read.
            with Prometheus(Path(folder), *addresses, native=True) as prometheus:
                found = [played(server, mix, requests) for server, mix in zip(servers, MIXES, strict=True)]
                return [quantiles(prometheus, *each) for each in zip(addresses, MIXES, found, strict=True)]
        finally:
            for server in servers:
                server.kill()


def is_in_its_bucket(engine: float, classic: float) -> bool:
    """The engine's quantile lies where Prometheus has found it, as far as bounds go."""
    bucket = bisect.bisect_left(BOUNDS, classic)
    least, most = (0, *BOUNDS)[bucket], (*BOUNDS, float("inf"))[bucket]
    return least * (1 - EDGE) <= engine <= most * (1 + EDGE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=2000, help="of each mix")
    parser.add_argument("--json", action="store_true", help="what was found, and no judgement")
    given = parser.parse_args()
    if not ENGINE.exists():
        raise SystemExit(f"{ENGINE} is missing: make load")
    found = measured(given.requests)
    if given.json:
        print(json.dumps(found))
        return 0
    wrong = False
    print(f"{'mix':18} {'asked':>6} {'counted':>7}   engine (ms), native beside it, in its bucket")
    for one in found:
        line = f"{one['mix']:18} {one['asked']:6} {one['counted']:7}"
        wrong |= one["asked"] != one["counted"]
        for share in SHARES:
            engine, classic, native = (one[f"p{share}"][name] for name in ("engine", "classic", "native"))
            beside, inside = native / engine - 1, is_in_its_bucket(engine, classic)
            wrong |= one["fit"] and (abs(beside) > NATIVE or not inside)
            line += f"   p{share} {engine * 1000:6.1f} {beside:+6.1%} {'yes' if inside else 'NO'}"
        print(line if one["fit"] else f"{line}   the engine was held up")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
