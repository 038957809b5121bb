"""The answer of a record, before all its figures: who, how much, and how sure that is.

One figure at one point, the same for all servers, chosen by rules that look at no name. Pure functions of facts; the
page, the terminal and JSON say what stands here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from forehand_lab import views
from forehand_lab.estimates import Comparison, compared, estimate
from forehand_lab.plan import ERRORS_ALLOWED, P99_ALLOWED_US

Fact = Mapping[str, Any]
# Who answers so much of what was offered has kept up: the rate of replies says nothing of such servers.
KEPT_UP = 0.98
# What stands in a row beside the figure of the answer.
BESIDE = ("replies/s", "CPU us/request", "PSS MiB")
# For programs: names of figures without blanks and slashes, in JSON as in CSV.
KEYS = {
    "replies/s": "replies_per_s", "CPU us/request": "cpu_us_per_request", "p50 ms": "p50_ms", "p99 ms": "p99_ms",
    "PSS MiB": "pss_mib",
}  # fmt: skip
WORDS = {
    "replies/s": "replies/s", "CPU us/request": "µs of CPU a request", "p50 ms": "ms (median)", "p99 ms": "ms (99 %)",
    "PSS MiB": "MiB", "capacity": "requests/s", "faults": "of the faults outlived",
}  # fmt: skip
MORE_IS_BETTER = ("replies/s", "capacity", "faults")


def of(facts: Sequence[Fact]) -> dict[str, Any]:
    """The answer: the figure, where it was measured, a row for each server, best first, and a sentence."""
    kind = facts[0]["scenario_kind"]
    if kind == "capacity":
        figure, at = "capacity", None
    elif kind == "faults":
        figure, at = "faults", None
    else:
        figure, at = headline(facts)
    rows = [row for name in facts[0]["servers"] if (row := row_of(facts, name, figure, at))]
    more = figure in MORE_IS_BETTER
    rows.sort(key=lambda row: (-row["mid"] if more else row["mid"], row["server"]))
    for row in rows[1:]:
        row.update(beside(facts, row["server"], rows[0]["server"], figure, at))
    told = {
        "figure": figure, "key": KEYS.get(figure, figure), "words": WORDS[figure], "more_is_better": more, "at": at,
        "unit": facts[0]["unit"], "rows": rows,
    }  # fmt: skip
    return {**told, "said": sentence(told), "doubts": doubts(facts, at)}


def headline(facts: Sequence[Fact]) -> tuple[str, float | None]:
    """The figure and the point that answer best: the rate of replies where the best server has most of them.

    Where all keep up with what is offered, the processor time that it took them; of clients that come and think, the
    response time at the greatest point.
    """
    groups = {key: shown for key, rows in views.grouped(facts).items() if (shown := views.point(rows))["ranked"]}
    if not groups:
        return "replies/s", None
    last = max(at for _, at in groups)
    if facts[0]["scenario_kind"] == "sessions":
        return "p99 ms", last
    if facts[0]["scenario_kind"] == "sweep":
        there = [point for (_, at), point in groups.items() if at == last]
        if all(point["replies/s"]["mid"] >= KEPT_UP * point["offered"] for point in there):
            return "CPU us/request", last
    return "replies/s", max(groups, key=lambda key: (groups[key]["replies/s"]["mid"], key[1]))[1]


def row_of(facts: Sequence[Fact], server: str, figure: str, at: float | None) -> dict[str, Any] | None:
    """What is known of one server; None where nothing of it counts."""
    title = next((fact["title"] for fact in views.of(facts, "contestant") if fact["server"] == server), server)
    workers = server.partition(":")[2]
    row: dict[str, Any] = {"server": server, "title": f"{title} × {workers}" if workers else title}
    if figure == "capacity":
        found = [fact["rate"] for fact in views.of(facts, "capacity") if fact["server"] == server]
        middle = estimate(found)
        return {**row, **asdict(middle), "noisy": 0, "measured": len(found)} if middle else None
    if figure == "faults":
        mine = [each for each in views.faults(facts) if each["server"] == server]
        if not mine:
            return None
        well, lost = (
            sum(each["back_s"] is not None for each in mine),
            sum(sum(each["collateral"].values()) for each in mine),
        )
        noisy = sum(bool(each["marks"]) for each in mine)
        return {
            **row,
            "mid": well,
            "low": None,
            "high": None,
            "rounds": len(mine),
            "lost": lost,
            "noisy": noisy,
            "measured": len(mine),
        }
    points = [fact for fact in views.of(facts, "point") if fact["server"] == server]
    here = [fact for fact in points if fact["point"] == at]
    shown = views.point(here) if here else None
    if not shown or not shown[figure]:
        return None
    return {
        **row, **shown[figure], "noisy": shown["noisy"], "measured": shown["rounds"],
        "failed_share": shown["failed_share"],
        "p99_ms": shown["response"]["99"] / 1000 if shown["response"]["99"] is not None else None,
        **{KEYS[name]: shown[name]["mid"] if shown[name] else None for name in BESIDE},
        "holds": held(facts, server) if facts[0]["scenario_kind"] == "sweep" else None,
        "lower_bound": shown["lower_bound"],
    }  # fmt: skip


def held(facts: Sequence[Fact], server: str) -> float | None:
    """The highest offered rate up to which all went well: 0.1 % errors, a 99th percentile of 100 ms, nobody waiting."""
    best = None
    for (name, at), rows in views.grouped(facts).items():
        shown = views.point(rows) if name == server else None
        if shown is None or not shown["ranked"]:
            continue
        p99 = shown["response"]["99"]
        if shown["failed_share"] > ERRORS_ALLOWED or p99 is None or p99 > P99_ALLOWED_US:
            break
        if shown["replies/s"]["mid"] < KEPT_UP * shown["offered"]:
            break
        best = at
    return best


def beside(facts: Sequence[Fact], server: str, first: str, figure: str, at: float | None) -> dict[str, Any]:
    """How a server stands to the first, and whether that can be told."""
    if figure == "faults":
        return {}
    found: Comparison | None
    if figure == "capacity":
        sides = [
            {fact["round"]: fact["rate"] for fact in views.of(facts, "capacity") if fact["server"] == name}
            for name in (server, first)
        ]
        both = sorted(set(sides[0]) & set(sides[1]))
        found = compared([sides[0][number] for number in both], [sides[1][number] for number in both])
    else:
        assert at is not None
        found = views.paired(facts, server, first).get((at, figure))
    if found is None:
        return {"ratio": None, "sure": None, "verdict": "no round in common", "together": 0}
    return {
        "together": found.rounds,
        "ratio": found.ratio, "ratio_low": found.low, "ratio_high": found.high, "p": found.p,
        "sure": None if found.too_few else found.verdict in ("higher", "lower"), "verdict": found.verdict,
    }  # fmt: skip


def sentence(told: Mapping[str, Any]) -> str:
    """Who, how much, how sure: for the top of a page, and the end of a run."""
    rows = told["rows"]
    if not rows:
        return "Nothing was measured that counts."
    first, others = rows[0], rows[1:]
    at = f" at {figure_of(told['at'])} {told['unit']}" if told["at"] is not None else ""
    said = f"{first['title']}: {figure_of(first['mid'])}{interval(first)} {told['words']}{at}"
    if not others:
        return f"{said}."
    said += f", {'the most' if told['more_is_better'] else 'the least'} of {len(rows)}."
    if told["figure"] == "faults":
        return said
    sure = [row for row in others if row.get("sure")]
    unsure = [row for row in others if row.get("sure") is False]
    few = [row for row in others if row.get("sure") is None]
    if len(few) == len(others):
        # Those that tell are rounds in which both took part, and counted.
        rounds, both = max(row["rounds"] for row in rows), max(row["together"] for row in others)
        counted = " in which both count," if both < rounds else ""
        with_them = f"With {both} round{'s' * (both != 1)}{counted}" if both else "Where no round counts for both,"
        return f"{said} {with_them} that may be chance: six are needed to tell servers apart."
    if len(sure) == len(others):
        said += f" {'The difference' if len(sure) == 1 else 'Each difference'} is more than chance."
    elif sure:
        said += f" That differs from {listed([row['title'] for row in sure])} by more than chance."
    if unsure:
        said += f" It cannot be told from {listed([row['title'] for row in unsure])}."
    if few:
        said += f" Of {listed([row['title'] for row in few])} there are too few rounds to tell."
    return said


def listed(names: Sequence[str]) -> str:
    """Names with commas and an and."""
    if len(names) > 4:
        return f"{len(names)} others"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def doubts(facts: Sequence[Fact], at: float | None) -> list[str]:
    """What a reader of the first line has to know before repeating it."""
    points = views.of(facts, "point")
    found = []
    noisy = sum(views.is_noisy(fact) for fact in points)
    if noisy:
        found.append(
            f"{noisy} of {len(points)} measurements are noisy: something else used this machine, or it is shared"
        )
    unranked = sum(not views.ranked(fact) for fact in points)
    if unranked:
        found.append(f"{unranked} of {len(points)} count in no figure: the load engine could not do its part")
    for server in facts[0]["servers"]:
        mine = [fact for fact in points if fact["server"] == server and fact["point"] == at]
        if mine and not any(map(views.ranked, mine)):
            found.append(f"{server}: none of its {len(mine)} rounds at {figure_of(at)} counts")
    lost = sorted({fact["server"] for fact in views.of(facts, "lost")})
    if lost:
        found.append(f"lost on the way: {', '.join(lost)}")
    return found


def figure_of(value: float | None) -> str:
    """A number as people read it."""
    if value is None:
        return "–"
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2g}" if abs(value) < 1 else f"{value:.2f}"


def interval(estimated: Mapping[str, Any]) -> str:
    """The interval of an estimate in brackets, or nothing."""
    if estimated["low"] is None:
        return ""
    return f" ({figure_of(estimated['low'])} – {figure_of(estimated['high'])})"


def everything(facts: Sequence[Fact]) -> dict[str, Any]:
    """The answer and all figures for programs: `--json`."""
    points = []
    for (server, at), rows in views.grouped(facts).items():
        shown = views.point(rows)
        points.append({
            "server": server, "point": at,
            **{key: shown[key] for key in ("rounds", "ranked", "noisy", "failed_share", "errors", "marks")},
            **{KEYS[name]: shown[name] for name in views.METRICS}, "offered_per_s": shown["offered"],
            "response_us": shown["response"], "service_us": shown["service"],
        })  # fmt: skip
    last, first = facts[-1], facts[0]
    left_out = {fact["server"]: fact["why"] for fact in views.of(facts, "contestant") if fact["why"]}
    for fact in views.of(facts, "verified"):
        if fact["why"] or fact["differences"]:
            left_out[fact["server"]] = fact["why"] or "; ".join(fact["differences"])
    return {
        "format": 1, "scenario": first["scenario"], "kind": first["scenario_kind"], "title": first["title"],
        "unit": first["unit"], "rounds": first["rounds"], "seconds": first["seconds"], "seed": first["seed"],
        "ended": last.get("how", "unfinished") if last["kind"] == "end" else "unfinished",
        "answer": of(facts), "points": points, "capacity": views.capacities(facts), "faults": views.faults(facts),
        "left_out": left_out,
        "lost": [
            {"server": fact["server"], "round": fact["round"], "why": fact["why"]}
            for fact in facts if fact["kind"] in ("lost", "killed")
        ],
    }  # fmt: skip
