"""A load that several hosts share: the plan in parts, and the parts' results as one, without loss. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from forehand_lab import histograms

# Beyond these a point is marked: moments of different hosts are not known, or not kept, better.
UNCERTAIN_S, SPREAD_S = 0.005, 0.005
TIMES = ("response", "service", "connect", "handshake", "first_byte", "transfer")
VERDICTS = ("fit", "at_ceiling", "at_fault")
PERCENTILES = ("50", "75", "90", "95", "99", "99.9", "99.99")
Result = Mapping[str, Any]


def parts(plan: Mapping[str, Any], hosts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The plan of each host that takes part: the engine deals planned moments round by itself. A closed loop, or a
    bound on connections, with fewer connections than hosts leaves out the last of them.
    """
    load = plan["load"]
    connections = load.get("connections") or load.get("max_connections") or len(hosts)
    taking = list(hosts)[: max(1, min(len(hosts), connections))]
    return {host: {**plan, "part": [number, len(taking)]} for number, host in enumerate(taking, 1)}


def merged(results: Mapping[str, Result]) -> dict[str, Any]:
    """One result of those of all hosts: counts are added, histograms merged bucket for bucket."""
    all_of_them = list(results.values())
    first = all_of_them[0]
    window = max(each["window_s"] for each in all_of_them)
    totals = added(each["totals"] for each in all_of_them)
    for count, rate in (("offered", "offered_per_s"), ("replies_in_window", "replies_per_s")):
        totals[rate] = totals[count] / window if window else None
    ends = {each["ended"] for each in all_of_them}
    return {
        "format": first["format"],
        "engine": first["engine"],
        "address": first["address"],
        "ended": next(iter(ends)) if len(ends) == 1 else "interrupted" if "interrupted" in ends else "planned",
        "started_at": min(each["started_at"] for each in all_of_them),
        "window_s": window,
        "elapsed_s": max(each["elapsed_s"] for each in all_of_them),
        "totals": totals,
        "errors": added(each["errors"] for each in all_of_them),
        "generator": generator({host: each["generator"] for host, each in results.items()}),
        "times": {name: distribution([each["times"][name] for each in all_of_them]) for name in TIMES},
        "by_request": by_request([each["by_request"] for each in all_of_them]),
        "series": series([each["series"] for each in all_of_them]),
    }


def added(tables: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Tables of counts, and of tables of counts, added up; what is no whole number is left out."""
    found: dict[str, Any] = {}
    for table in tables:
        for key, value in table.items():
            if isinstance(value, Mapping):
                found[key] = added([found.get(key, {}), value])
            elif isinstance(value, int) and not isinstance(value, bool):
                found[key] = found.get(key, 0) + value
    return found


def distribution(told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Distributions as one, in the engine's own form."""
    counted = [each for each in told if each["count"]]
    count = sum(each["count"] for each in counted)
    if not count:
        return {
            "count": 0, "min_us": None, "mean_us": None, "max_us": None, "percentiles_us": dict.fromkeys(PERCENTILES),
            "hdr": "",
        }  # fmt: skip
    histogram = histograms.merged(each["hdr"] for each in counted)
    return {
        "count": count,
        "min_us": min(each["min_us"] for each in counted),
        "mean_us": round(sum(each["mean_us"] * each["count"] for each in counted) / count, 1),
        "max_us": max(each["max_us"] for each in counted),
        "percentiles_us": {name: float(histogram.get_value_at_percentile(float(name))) for name in PERCENTILES},
        "hdr": histogram.encode().decode(),
    }


def generator(told: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The generators as one: it is as doubtful as the worst of them."""
    each = list(told.values())
    return {
        "verdict": max((one["verdict"] for one in each), key=VERDICTS.index),
        "reasons": [f"{host}: {reason}" for host, one in told.items() for reason in one["reasons"]],
        "faults": added(one["faults"] for one in each),
        "lateness": distribution([one["lateness"] for one in each]),
        "heartbeat": distribution([one["heartbeat"] for one in each]),
        "most_queued": sum(one["most_queued"] for one in each),
        "cpu_s": sum(one["cpu_s"] for one in each),
        "threads": sum(one["threads"] for one in each),
        "busiest_thread_share": max(one["busiest_thread_share"] for one in each),
        "memory_peak_bytes": sum(one["memory_peak_bytes"] for one in each),
    }


def by_request(told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What came of each kind of request."""
    return {
        name: {
            "replies": sum(each[name]["replies"] for each in told),
            "errors": added(each[name]["errors"] for each in told),
            "response": distribution([each[name]["response"] for each in told]),
        }
        for name in told[0]
    }


def series(told: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Second by second: second k of all hosts is the same, for they began at one moment."""
    seconds: dict[int, list[Mapping[str, Any]]] = {}
    for rows in told:
        for row in rows:
            seconds.setdefault(row["second"], []).append(row)
    found = []
    for second, rows in sorted(seconds.items()):
        counts = added({key: value for key, value in row.items() if key not in ("second", "times")} for row in rows)
        times = {name: histogram_of([row["times"][name] for row in rows]) for name in TIMES}
        empty: dict[str, Any] = {"errors": {}, "faults": {}}
        found.append({**empty, **counts, "second": second, "warmup": rows[0]["warmup"], "times": times})
    return found


def histogram_of(texts: Sequence[str]) -> str:
    """Encoded histograms as one; nothing of nothing."""
    filled = [text for text in texts if text]
    if len(filled) < 2:
        return filled[0] if filled else ""
    encoded: str = histograms.merged(filled).encode().decode()
    return encoded


def spread_s(hosts: Sequence[Mapping[str, Any]]) -> float:
    """How far apart hosts began, by the lab's clock."""
    moments = [host["started_at"] for host in hosts]
    return max(moments) - min(moments) if moments else 0.0


def marks(result: Result) -> list[str]:
    """What a reader should know of the hosts' clocks and starts at this point, in sentences."""
    hosts = result.get("hosts") or []
    found = [
        f"clocks: that of host {host['host']} is known to within {host['uncertainty_s'] * 1000:.1f} ms only"
        for host in hosts
        if host["uncertainty_s"] > UNCERTAIN_S
    ]
    apart = spread_s(hosts)
    if apart > SPREAD_S:
        found.append(f"clocks: the hosts began {apart * 1000:.1f} ms apart")
    return found


def summary(points: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each host over all points of a record: what it did, and how its clock was known."""
    found: dict[str, dict[str, Any]] = {}
    errors: dict[str, Counter[str]] = {}
    for fact in points:
        for host in fact["result"].get("hosts") or ():
            row = found.setdefault(
                host["host"], {"host": host["host"], "points": 0, "started": 0, "replies": 0, "failed": 0,
                               "uncertainty_ms": 0.0, "off_plan_ms": 0.0},
            )  # fmt: skip
            row["points"] += 1
            for name in ("started", "replies", "failed"):
                row[name] += host[name]
            row["uncertainty_ms"] = max(row["uncertainty_ms"], round(host["uncertainty_s"] * 1000, 3))
            off = abs(host["started_at"] - host["planned_at"]) * 1000
            row["off_plan_ms"] = max(row["off_plan_ms"], round(off, 3))
            errors.setdefault(host["host"], Counter()).update({host["verdict"]: 1})
    return [{**row, "verdicts": dict(errors[name])} for name, row in sorted(found.items())]
