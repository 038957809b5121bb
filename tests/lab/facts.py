"""Facts of a record, made by hand: what engine and sampler would have said, with figures that a test can check."""

from __future__ import annotations

from typing import Any

from hdrh.histogram import HdrHistogram


def encoded(*values_us: int) -> str:
    """A histogram of these, as the engine writes it."""
    histogram = HdrHistogram(1, 3_600_000_000, 3)
    for value in values_us:
        histogram.record_value(value)
    return histogram.encode().decode() if values_us else ""


def distribution(*values_us: int) -> dict[str, Any]:
    """A distribution of the result."""
    return {"count": len(values_us), "hdr": encoded(*values_us), "percentiles_us": {"99": max(values_us, default=None)}}


def result(*values_us: int, **more: Any) -> dict[str, Any]:
    """An engine's result with these response times, all in second 0."""
    count = len(values_us)
    failed = more.get("failed", 0)
    row = {
        "second": 0, "warmup": False, "offered": count, "started": count, "replies": count, "errors": {}, "faults": {},
        "open_connections": 3, "times": {"response": encoded(*values_us)},
    }  # fmt: skip
    return {
        "totals": {
            "offered": count + failed, "offered_per_s": more.get("rate", count), "started": count + failed,
            "replies": count, "failed": failed, "replies_per_s": more.get("rate", float(count)),
        },
        "errors": more.get("errors", {}),
        "generator": {"verdict": more.get("verdict", "fit"), "reasons": more.get("reasons", []), "faults": {}},
        "times": {name: distribution(*values_us) for name in ("response", "service", "transfer")},
        "by_request": {},
        "series": more.get("series", [row]),
    }  # fmt: skip


def point(server: str, round_: int, at: float = 100.0, **more: Any) -> dict[str, Any]:
    """A point of a record."""
    values = more.pop("values", (1000,) * 100)
    sample = {
        "t": 0.0, "pss_kib": 10240, "cpu_s": 0.0, "processes": 1, "threads": 1, "descriptors": 5, "load": 0.1,
        "free_mib": 1000,
    }  # fmt: skip
    return {
        "kind": "point", "at": 1.0, "round": round_, "server": server, "point": at, "plan": {}, "beside": [],
        "samples": [sample], "cpu_s": more.pop("cpu_s", 0.01), "hits": more.pop("hits", None),
        "noise": {"listen_overflows": 0}, "marks": more.pop("marks", []), "died": "", "result": result(*values, **more),
    }  # fmt: skip


def manifest(*servers: str, **more: Any) -> dict[str, Any]:
    """The first line of a record."""
    return {
        "kind": "manifest", "at": 1.0, "format": 1, "scenario": "hello", "title": "A record", "letter": "A1",
        "scenario_kind": "sweep", "question": "Which?", "expected": "That.", "source": "ours",
        "unit": "offered requests/s",
        "history": [], "history_unit": "", "faults": [], "setting": {"module": "pong"}, "load": {}, "profile": "quick",
        "points": [100.0], "seconds": 1.0, "rounds": 3, "warmup_s": 1.0, "drain_s": 1.0, "servers": list(servers),
        "python": None, "checkout": [], "threads": None, "seed": 7, "engine": "forehand-load",
        "machine": {"pinning": "servers on processor 0, the load on 1", "virtual": "no"}, **more,
    }  # fmt: skip


def contestant(server: str, why: str = "") -> dict[str, Any]:
    """The line that introduces a server."""
    return {
        "kind": "contestant", "at": 1.0, "server": server, "title": server.title(), "era": "today", "flavour": "thread",
        "note": "", "workers": 1, "why": why, "python": "3.11", "versions": [f"{server}==1"], "pinned": [],
    }  # fmt: skip
