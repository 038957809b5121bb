"""What a record says: every figure of a report or a comparison, as a pure function of its facts.

A point that the generator spoiled is in no figure; it is counted as left out, and its reason is told. Nothing here
chooses the best of several rounds.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from forehand_lab import histograms, sharing, speaking
from forehand_lab.estimates import LEAST_PAIRS, Comparison, compared, estimate

Fact = Mapping[str, Any]
METRICS: dict[str, Callable[[Fact], float | None]] = {
    "replies/s": lambda fact: fact["result"]["totals"]["replies_per_s"],
    "CPU us/request": lambda fact: cpu_us(fact),
    "p50 ms": lambda fact: percentile_ms(fact, "50"),
    "p99 ms": lambda fact: percentile_ms(fact, "99"),
    "PSS MiB": lambda fact: peak_mib(fact),
}
# Samples of a long run are thinned to so many for a chart; the raw data keep all.
MOST_SAMPLES = 400
MOST_SECONDS = 400


def of(facts: Sequence[Fact], kind: str) -> list[Fact]:
    """The facts of a kind."""
    return [fact for fact in facts if fact["kind"] == kind]


def ranked(fact: Fact) -> bool:
    """Whether a point counts: the generator did its part."""
    return bool(fact["result"]["generator"]["verdict"] != "at_fault")


def is_noisy(fact: Fact) -> bool:
    """Whether something else used the machine while a point was measured: the marks that METHOD.md calls noisy."""
    return any(mark.startswith("noisy") for mark in fact["marks"])


def cpu_us(fact: Fact) -> float | None:
    """Microseconds of processor that the whole tree of the server used for each reply, also those beside."""
    replies = fact["result"]["totals"]["replies"] + sum(each["totals"]["replies"] for each in fact["beside"])
    return fact["cpu_s"] / replies * 1e6 if replies and fact["cpu_s"] > 0 else None


def peak_mib(fact: Fact) -> float | None:
    """The most memory that a sample of the point saw."""
    seen = [row["pss_kib"] for row in fact["samples"] if row["pss_kib"]]
    return max(seen) / 1024 if seen else None


def percentile_ms(fact: Fact, which: str) -> float | None:
    """A percentile of a single round, where it has samples enough."""
    text = fact["result"]["times"]["response"].get("hdr") or ""
    value = histograms.percentiles(histograms.merged([text])).get(which) if text else None
    return value / 1000 if value is not None else None


def grouped(facts: Sequence[Fact]) -> dict[tuple[str, float], list[Fact]]:
    """Points by server and point, in the order of rounds."""
    found: dict[tuple[str, float], list[Fact]] = {}
    for fact in of(facts, "point"):
        found.setdefault((fact["server"], fact["point"]), []).append(fact)
    return {key: sorted(found[key], key=lambda fact: fact["round"]) for key in sorted(found)}


def point(facts: Sequence[Fact]) -> dict[str, Any]:
    """All that a report says of one point of one server, over its rounds."""
    counted = [fact for fact in facts if ranked(fact)]
    totals = [fact["result"]["totals"] for fact in counted]
    started, failed = sum(each["started"] for each in totals), sum(each["failed"] for each in totals)
    errors: Counter[str] = Counter()
    for fact in counted:
        errors.update(fact["result"]["errors"])
    times = {
        name: histograms.merged(fact["result"]["times"][name].get("hdr", "") for fact in counted)
        for name in ("response", "service", "handshake")
        # A record of before there was TLS has no handshakes.
        if all(name in fact["result"]["times"] for fact in counted)
    }
    hits = [fact["hits"] for fact in counted if fact["hits"] is not None]
    return {
        "point": facts[0]["point"],
        "rounds": len(facts),
        "ranked": len(counted),
        "noisy": sum(map(is_noisy, facts)),
        "offered": statistics.median(each["offered_per_s"] for each in totals) if totals else None,
        **{key: shown(counted, metric) for key, metric in METRICS.items()},
        "started": started,
        "replies": sum(each["replies"] for each in totals),
        "failed_share": failed / started if started else None,
        "errors": dict(errors.most_common()),
        "response": histograms.percentiles(times["response"]),
        "service": histograms.percentiles(times["service"]),
        "tls": handshakes(totals, times.get("handshake")),
        "spectrum": histograms.spectrum(times["response"]),
        "hits": sum(hits) if hits else None,
        "beside": beside(counted),
        "marks": [f"round {fact['round']}: {mark}" for fact in facts for mark in fact["marks"]],
        "lower_bound": any(fact["result"]["generator"]["verdict"] == "at_ceiling" for fact in counted),
    }


def handshakes(totals: Sequence[Mapping[str, Any]], times: Any) -> dict[str, Any] | None:
    """Handshakes of TLS over all rounds, and how long they took; None where there were none."""
    counts = [each.get("connections", {}) for each in totals]
    made = sum(each.get("handshakes", 0) for each in counts)
    if not made:
        return None
    resumed = sum(each.get("resumed", 0) for each in counts)
    return {"handshakes": made, "resumed": resumed, "times": histograms.percentiles(times)}


def beside(facts: Sequence[Fact]) -> list[dict[str, Any]]:
    """What the loads that ran at the same time got: median rate and merged percentiles, by name."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for fact in facts:
        for each in fact["beside"]:
            for name in each["by_request"]:
                found.setdefault(name, []).append(each)
    return [
        {
            "name": name,
            "rate": asdict(middle)
            if (middle := estimate([each["totals"]["replies_per_s"] for each in results]))
            else None,
            "response": histograms.percentiles(
                histograms.merged(each["times"]["response"].get("hdr", "") for each in results)
            ),
            "failed": sum(each["totals"]["failed"] for each in results),
        }
        for name, results in found.items()
    ]


def shown(facts: Sequence[Fact], metric: Callable[[Fact], float | None]) -> dict[str, Any] | None:
    """A metric over rounds, for a chart."""
    values = [value for fact in facts if (value := metric(fact)) is not None]
    middle = estimate(values)
    return asdict(middle) if middle else None


def over_time(facts: Sequence[Fact]) -> dict[str, Any]:
    """A point second by second: histograms merged over rounds; connections and samples of the middle round."""
    counted = [fact for fact in facts if ranked(fact)] or list(facts)
    middle = counted[len(counted) // 2]
    seconds: dict[int, list[Mapping[str, Any]]] = {}
    for fact in counted:
        for row in fact["result"]["series"]:
            seconds.setdefault(row["second"], []).append(row)
    picked = thinned(sorted(seconds), MOST_SECONDS)
    by_second = {second: histograms.merged(row["times"]["response"] for row in seconds[second]) for second in picked}
    told = {row["second"]: row for row in middle["result"]["series"]}
    return {
        "second": picked,
        "heat": [histograms.heat(by_second[second]) for second in picked],
        "p50": [histograms.percentiles(by_second[second])["50"] for second in picked],
        "p99": [histograms.percentiles(by_second[second])["99"] for second in picked],
        "replies": [told.get(second, {}).get("replies") for second in picked],
        "failed": [sum(told[second]["errors"].values()) if second in told else None for second in picked],
        "open": [told.get(second, {}).get("open_connections") for second in picked],
        "samples": samples(middle["samples"]),
    }


def thinned(rows: Sequence[Any], most: int) -> list[Any]:
    """At most so many, evenly spread."""
    step = max(1, -(-len(rows) // most))
    return list(rows[::step])


def samples(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Samples as columns; CPU as share of one processor over the last five samples."""
    picked = thinned(range(len(rows)), MOST_SAMPLES)
    columns: dict[str, list[Any]] = {
        "t": [rows[n]["t"] for n in picked],
        "mib": [round(rows[n]["pss_kib"] / 1024, 1) for n in picked],
        "load": [rows[n]["load"] for n in picked],
        "free": [rows[n]["free_mib"] for n in picked],
        "threads": [rows[n]["threads"] for n in picked],
        "descriptors": [rows[n]["descriptors"] for n in picked],
        "cpu": [],
    }
    for n in picked:
        back = max(0, n - 5)
        spent = rows[n]["t"] - rows[back]["t"]
        used = rows[n]["cpu_s"] - rows[back]["cpu_s"]
        columns["cpu"].append(round(100 * used / spent, 1) if spent > 0 else None)
    return columns


def paired(facts: Sequence[Fact], one: str, other: str) -> dict[tuple[float, str], Comparison]:
    """For each point and metric how `one` stands to `other`, from the rounds in which both count."""
    groups = grouped(facts)
    found = {}
    for at in sorted({point for server, point in groups if server in (one, other)}):
        sides = [
            {fact["round"]: fact for fact in groups.get((server, at), []) if ranked(fact)} for server in (one, other)
        ]
        rounds = sorted(set(sides[0]) & set(sides[1]))
        for name, metric in METRICS.items():
            pairs = [(metric(sides[0][number]), metric(sides[1][number])) for number in rounds]
            whole = [(a, b) for a, b in pairs if a is not None and b is not None]
            comparison = compared([a for a, _ in whole], [b for _, b in whole]) if whole else None
            if comparison:
                found[at, name] = comparison
    return found


def faults(facts: Sequence[Fact]) -> list[dict[str, Any]]:
    """The durability table: a row for each server and fault, over rounds."""
    found: dict[tuple[str, str], list[Fact]] = {}
    for fact in of(facts, "fault"):
        found.setdefault((fact["server"], fact["target"]), []).append(fact)
    return [
        {
            "server": server,
            "target": target,
            "told": sorted({told for row in rows for told in row["told"]}),
            "collateral": dict(sum((Counter(row["collateral"]) for row in rows), Counter())),
            "started": sum(row["background"]["started"] for row in rows),
            "worst_ms": statistics.median(row["worst_ms"] for row in rows),
            "back_s": None
            if any(row["back_s"] is None for row in rows)
            else statistics.median(row["back_s"] for row in rows),
            "died": sorted({row["died"] for row in rows if row["died"]}),
            "replaced": max(row["replaced"] for row in rows),
            "grown_mib": round(statistics.median((row["pss_kib"][1] - row["pss_kib"][0]) / 1024 for row in rows), 1),
            "marks": sorted({mark for row in rows for mark in row["marks"]}),
            "rounds": len(rows),
        }
        for (server, target), rows in sorted(found.items())
    ]


def capacities(facts: Sequence[Fact]) -> dict[str, dict[str, Any]]:
    """The capacity of each server over rounds."""
    found: dict[str, list[float]] = {}
    for fact in of(facts, "capacity"):
        found.setdefault(fact["server"], []).append(fact["rate"])
    return {server: asdict(middle) for server, rates in sorted(found.items()) if (middle := estimate(rates))}


def whole(facts: Sequence[Fact]) -> dict[str, Any]:
    """Everything that the report draws of a record."""
    groups = grouped(facts)
    manifest = dict(facts[0])
    names = list(manifest["servers"])
    verified = {fact["server"]: fact for fact in of(facts, "verified")}
    servers = {fact["server"]: dict(fact) for fact in of(facts, "contestant")}
    last = facts[-1]
    return {
        "manifest": manifest,
        "servers": [{**servers.get(name, {"server": name}), "verified": verified.get(name)} for name in names],
        "points": {name: [point(rows) for (server, _), rows in groups.items() if server == name] for name in names},
        "time": {
            name: {f"{at:g}": over_time(rows) for (server, at), rows in groups.items() if server == name}
            for name in names
        },
        "faults": faults(facts),
        "capacity": capacities(facts),
        "starts": {name: starts(facts, name) for name in names},
        "lost": [
            {**fact, "log": last_words(fact.get("log", ""))} for fact in facts if fact["kind"] in ("lost", "killed")
        ],
        "ended": last.get("how", "unfinished") if last["kind"] == "end" else "unfinished",
        "checks": checks(facts),
        "hosts": hosts(facts),
        "heat_edges_us": histograms.HEAT_EDGES_US,
        "speaks": speaking.said(manifest["load"]),
    }


def last_words(log: str) -> str:
    """What a server said at last, without the lines that only underline others, as Python's tracebacks do."""
    said = [line.strip() for line in log.splitlines()]
    return "\n".join([line for line in said if line.strip("^~ ")][-2:])


def clocks(facts: Sequence[Fact], none_with: Callable[[str, str, str], dict[str, Any]]) -> list[dict[str, Any]]:
    """Where the load came from several machines: whether they began at one moment, as far as clocks tell."""
    if not facts[0].get("hosts"):
        return []
    return [none_with("clocks:", "hosts that began at one moment", "have a clock or a start beyond 5 ms")]


def hosts(facts: Sequence[Fact]) -> list[dict[str, Any]]:
    """The machines that the load came from, where it was several: what each is, and what it did."""
    done = {row["host"]: row for row in sharing.summary(of(facts, "point"))}
    return [{**host, **done.get(host["host"], {"points": 0})} for host in facts[0].get("hosts") or ()]


def starts(facts: Sequence[Fact], server: str) -> float | None:
    """Median seconds from starting a server to its first answer."""
    seen = [fact["ready_s"] for fact in of(facts, "start") if fact["server"] == server]
    return statistics.median(seen) if seen else None


def checks(facts: Sequence[Fact]) -> list[dict[str, Any]]:
    """The checklist of METHOD.md, filled in from the record: what was kept, and what was not."""
    manifest, points = facts[0], of(facts, "point")
    machine = manifest["machine"]
    one_core = "one processor" in machine["pinning"]
    differing = [fact["server"] for fact in of(facts, "verified") if fact["differences"]]
    open_loop = manifest["scenario_kind"] in ("sweep", "sessions", "capacity", "faults")
    number, seed = manifest["rounds"], manifest["seed"]
    rounds = f"{number} round{'s' * (number != 1)}, interleaved and shuffled by seed {seed}"

    def row(fine: bool | None, what: str, said: str) -> dict[str, Any]:
        return {"fine": fine, "what": what, "said": said}

    def none_with(beginning: str, what: str, said: str) -> dict[str, Any]:
        found = sum(any(mark.startswith(beginning) for mark in fact["marks"]) for fact in points)
        return row(not found if points else None, what, f"{found} of {len(points)} points {said}")

    waiting = "open loop: times count from the planned start"
    saturated = "closed loop: percentiles are those of a saturated server"
    unranked = sum(not ranked(fact) for fact in points)
    return [
        row(
            not differing,
            "the same answers from all",
            f"left out: {', '.join(differing)}" if differing else "compared byte for byte",
        ),
        row(not one_core, "server and load on processors of their own", machine["pinning"]),
        row(manifest["rounds"] >= LEAST_PAIRS, f"rounds enough to tell servers apart ({LEAST_PAIRS})", rounds),
        row(True if open_loop else None, "load that does not wait for the server", waiting if open_loop else saturated),
        row(
            not unranked if points else None,
            "the generator did its part",
            f"{unranked} of {len(points)} points are not ranked",
        ),
        none_with("noisy", "a quiet machine", "are marked noisy"),
        none_with("unsteady", "steady points", "changed by more than a tenth within"),
        none_with("the listen queue", "listen queues that held", "saw an overflow"),
        none_with(
            "not proved", "replies that Python gave", "without proof; counted where the scenario's application counts"
        ),
        *clocks(facts, none_with),
        row(machine["virtual"] == "no", "a machine of its own", f"virtual: {machine['virtual']}"),
    ]
