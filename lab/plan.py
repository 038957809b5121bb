"""Decides: which server runs when, which load each point is, where a search for capacity goes next. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forehand_lab.reference import right
from forehand_lab.scenario import Profile, Request, Scenario
from forehand_lab.speaking import ANYBODY, wanted

# A reply's expected bytes go into the plan up to this size; beyond it the length is checked, and `verify`
# compared bytes.
INLINE_BODY = 65536
ERRORS_ALLOWED, P99_ALLOWED_US = 0.001, 100_000.0
STARTUP_SECONDS = 2.0


@dataclass(frozen=True)
class Turn:
    """A server started once: in which round, and in which order its points come."""

    round: int
    server: str
    points: tuple[float, ...]


def turns(servers: Sequence[str], profile: Profile, seed: int) -> list[Turn]:
    """Rounds interleaved, and in each the servers shuffled: a machine that drifts drifts for all of them.
     Points go up within a turn, as autobench has it: what a server suffered at a higher rate must not be charged to a
    lower.
    """
    chance = random.Random(seed)
    planned = []
    for number in range(1, profile.rounds + 1):
        order = list(servers)
        chance.shuffle(order)
        planned += [Turn(number, server, tuple(sorted(profile.points))) for server in order]
    return planned


def seconds_needed(planned: Sequence[Turn], profile: Profile, kind: str) -> float:
    """How long it takes, roughly: for the progress bar, which corrects it as it goes."""
    per_point = profile.seconds + 1.0
    if kind == "capacity":
        per_point *= 8
    return sum(STARTUP_SECONDS + profile.warmup_s + per_point * len(turn.points) for turn in planned)


def expectation(scenario: Scenario, request: Request) -> dict[str, Any]:
    """What the engine has to check of each reply."""
    if request.body is not None:
        return {"status": [request.status], "body": request.body}
    told = right(scenario, request)
    if told is None:
        return {"status": [request.status]}
    expected: dict[str, Any] = {"status": [told.status]}
    if not told.firm:
        return expected
    if request.method == "HEAD":
        expected["length"] = int(told.header("Content-Length") or 0)
    elif len(told.body) <= INLINE_BODY and is_text(told.body):
        expected["body"] = told.body.decode("utf-8")
    else:
        expected["length"] = len(told.body)
    return expected


def is_text(body: bytes) -> bool:
    """Whether a plan, which is JSON, can hold these bytes."""
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def asked(scenario: Scenario, request: Request) -> dict[str, Any]:
    """A request as the engine wants it."""
    body = request.sent_body()
    return {
        "name": request.name,
        "weight": request.weight,
        "method": request.method,
        "target": request.target,
        "headers": [["Accept", "*/*"], *map(list, request.headers)],
        "body": body.decode() if body else None,
        "chunked": request.chunked,
        "expect": expectation(scenario, request),
    }


def shape(scenario: Scenario, point: float) -> dict[str, Any]:
    """The `load` of a point."""
    load = scenario.load
    arrivals = load.get("arrivals", "uniform")
    if scenario.kind in ("closed", "mixed"):
        return {"kind": "closed", "connections": int(point), **depth(load)}
    calls = int(load.get("calls", 1))
    if scenario.kind == "sessions" or calls > 1:
        # A sweep's rate counts requests, as autobench's does; the engine's counts clients.
        rate = point if scenario.kind == "sessions" else point / calls
        think = float(load.get("think_s", 0))
        return {"kind": "sessions", "arrivals": arrivals, "rate": rate, "requests": calls, "think_s": think}
    streams = {"streams": int(load["streams"])} if "streams" in load else {}
    return {"kind": "open", "arrivals": arrivals, "rate": point, **streams}


def depth(load: Mapping[str, Any]) -> dict[str, int]:
    """How many requests a connection of a closed loop has on their way."""
    if load.get("http") == "2":
        return {"streams": int(load.get("streams", 1))}
    return {"pipeline": int(load.get("pipeline", 1))}


@dataclass(frozen=True)
class Aim:
    """Where the load of a turn goes, and from which processors."""

    port: int
    cpus: tuple[int, ...] = ()
    seed: int = 1
    host: str = "127.0.0.1"
    # In PEM, of a server within TLS; or ANYBODY.
    certificate: str = ""


def addressed(aim: Aim, load: Mapping[str, Any]) -> dict[str, Any]:
    """Where a load goes, and what it speaks there."""
    secure = wanted(load) == "https"
    told: dict[str, Any] = {
        "url": f"{'https' if secure else 'http'}://{aim.host}:{aim.port}/",
        "http": load.get("http", "1.1"),
    }
    if secure:
        believed = {"insecure": True} if aim.certificate == ANYBODY else {"ca": aim.certificate}
        told["tls"] = {**believed, "resume": bool(load.get("resume", False))}
    return told


def plan(scenario: Scenario, profile: Profile, point: float, aim: Aim) -> dict[str, Any]:
    """The engine's plan of a point; `requests` that run alone are left to `beside`."""
    timeout = float(scenario.load.get("timeout_s", 5.0))
    made: dict[str, Any] = {
        "format": 1,
        **addressed(aim, scenario.load),
        "load": shape(scenario, point),
        "duration_s": profile.seconds,
        "drain_s": profile.drain_s,
        "keep_alive": scenario.load.get("keep_alive"),
        "requests": [asked(scenario, request) for request in scenario.requests if not request.alone],
        "timeouts": {"connect_s": timeout, "first_byte_s": timeout, "body_s": timeout},
        "seed": aim.seed,
    }
    for key in ("slow_read", "slow_write"):
        if key in scenario.load:
            made[key] = dict(scenario.load[key])
    if aim.cpus:
        made["cpus"] = list(aim.cpus)
    return made


def beside(scenario: Scenario, profile: Profile, aim: Aim) -> list[dict[str, Any]]:
    """Plans that run at the same time: each request that has connections alone."""
    made = []
    for request in scenario.requests:
        if request.alone:
            other = plan(scenario, profile, request.alone, aim)
            made.append(
                {
                    **other,
                    "requests": [asked(scenario, request)],
                    "load": {"kind": "closed", "connections": request.alone},
                }
            )
    return made


def warming(scenario: Scenario, profile: Profile, aim: Aim) -> dict[str, Any] | None:
    """A load before the first point whose result is thrown away; None where the profile has none."""
    if profile.warmup_s <= 0:
        return None
    made = plan(scenario, profile, 1, aim)
    calm = {"load": {"kind": "closed", "connections": 8}, "duration_s": profile.warmup_s, "drain_s": 2.0}
    without = {key: value for key, value in made.items() if key not in ("slow_read", "slow_write")}
    return {**without, **calm, "requests": made["requests"] or [asked(scenario, scenario.requests[0])]}


def acceptable(result: Mapping[str, Any]) -> bool:
    """Whether a point keeps the objective: at most 0.1 % errors, p99 of response at most 100 ms, and it kept up."""
    totals = result["totals"]
    response = result["times"]["response"]
    p99 = (response.get("percentiles_us") or {}).get("99")
    if not totals["started"] or p99 is None or result["generator"]["verdict"] == "at_fault":
        return False
    return bool(totals["failed"] / totals["started"] <= ERRORS_ALLOWED and p99 <= P99_ALLOWED_US)


def next_rate(tried: Sequence[tuple[float, bool]], most: float, precision: float = 0.04) -> float | None:
    """The rate that a search for capacity tries next; None when it is found to within `precision`.

    Doubles from a sixteenth of the most while all is well, then halves the interval between the best and the worst.
    """
    good = [rate for rate, fine in tried if fine]
    bad = [rate for rate, fine in tried if not fine]
    if not tried:
        return round(most / 16)
    if not bad:
        return None if max(good) >= most else min(most, round(max(good) * 2))
    low, high = max((rate for rate in good if rate < min(bad)), default=0.0), min(bad)
    if high - low <= max(precision * high, 1.0):
        return None
    return round((low + high) / 2)


def capacity(tried: Sequence[tuple[float, bool]]) -> float:
    """The highest rate that kept the objective, below the lowest that did not."""
    bad = [rate for rate, fine in tried if not fine]
    return max((rate for rate, fine in tried if fine and (not bad or rate < min(bad))), default=0.0)
