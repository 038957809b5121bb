"""`forehand lab compare`: two servers of a record, or two records: how much apart, and whether that can be told.

With --fail-below it is a gate: its exit status says whether NEW is worse than BASE by more than is allowed and more
than chance.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from forehand_lab import gate, records, views
from forehand_lab.gate import Difference, Fact
from forehand_lab.problem import FAILED, OK, USAGE, Problem, near
from forehand_lab.terminal import columns, console_of
from rich.console import Console
from rich.markup import escape


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which records, which servers, and how much worse is too much."""
    parser.add_argument(
        "records", nargs="*", metavar="RECORD", help="one: its servers; two: BASE and NEW; default: the latest"
    )
    parser.add_argument("--servers", metavar="A,B", help="one record: these two; two records: A of BASE, B of NEW")
    parser.add_argument(
        "--fail-below", type=float, metavar="X",
        help="exit status 1 if NEW keeps less than X (0.95) of what BASE is worth, by more than chance",
    )  # fmt: skip
    parser.add_argument(
        "--figures", metavar="A,B", help="that --fail-below looks at; default: replies_per_s,cpu_us_per_request"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def act(asked: argparse.Namespace) -> int:
    """Print a table for each pair, or JSON; the gate's status."""
    least = asked.fail_below
    if least is not None and not 0 < least <= 1:
        raise Problem(USAGE, f"--fail-below: more than 0 and at most 1, not {least:g}", "0.95 allows five per cent")
    if asked.figures and least is None:
        raise Problem(USAGE, "--figures is for --fail-below", "a comparison alone shows all")
    figures = gate.figures_named(asked.figures)
    differences, doubts, between = compared(asked)
    looked_at = [each for each in differences if least is not None and (each.missing or each.figure in figures)]
    failed = [each for each in looked_at if least is not None and each.fails(least)]
    untold = [each for each in looked_at if least is not None and each.untold(least)]
    # What was not named need not be there: processor time is not known of a server elsewhere.
    silent = {*(figures if asked.figures else figures[:1])} - {each.figure for each in looked_at}
    if asked.json:
        told = {
            "format": 1, "records": asked.records or ["latest"], "fail_below": least, "doubts": doubts,
            "comparisons": [each.as_dict(least if each.figure in figures else None) for each in differences],
            "passed": None if least is None else not (failed or untold or silent),
        }  # fmt: skip
        sys.stdout.write(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    else:
        shown(console_of(), differences, doubts, between)
    if least is not None:
        return judged(failed, untold, sorted(silent), least)
    return OK


def compared(asked: argparse.Namespace) -> tuple[list[Difference], list[str], bool]:
    """All differences that were asked for; what makes them doubtful; whether they are between two records."""
    if len(asked.records) > 2:
        raise Problem(USAGE, f"{len(asked.records)} records: a comparison has one, or BASE and NEW")
    read = [records.read(name) for name in asked.records or ["latest"]]
    if len(read) == 1:
        facts = read[0]
        both = pairs(facts, asked.servers)
        named = [name for pair in both for name in pair]
        return [each for pair in both for each in gate.within(facts, *pair)], gate.uncounted(facts, named), False
    base, new = read
    both = pairs_between(base, new, asked.servers)
    doubts = gate.unlike(base[0], new[0]) + gate.uncounted(base, [old for old, _ in both])
    return gate.between(base, new, both), doubts, True


def judged(failed: Sequence[Difference], untold: Sequence[Difference], silent: Sequence[str], least: float) -> int:
    """The gate: what failed in a line each. What cannot be told does not pass in silence."""
    for each in failed:
        at = f"{each.new} at {each.point:g}"
        has = "BASE" if each.base == each.new else each.base
        worth = (
            f"it is in {has} and not in {'NEW' if each.base == each.new else each.new}"
            if each.kept is None
            else f"{each.kept:.3f} of BASE is left"
        )
        sys.stderr.write(f"worse: {at}: {each.figure}: {worth}, {least:g} is asked for\n")
    if failed:
        return FAILED
    if silent:
        message = f"{', '.join(silent)} cannot be compared at any point: nothing is proved"
        raise Problem(USAGE, message, "`forehand lab results RECORD` says which rounds count, and why others do not")
    if untold:
        message = f"{len(untold)} figures cannot be told with so few rounds: nothing is proved"
        raise Problem(
            USAGE, message, "six rounds have to count in both: measure with --rounds 6, or more where some do not count"
        )
    return OK


def measured(facts: Sequence[Fact]) -> list[str]:
    """The servers of a record that have points."""
    return [name for name in facts[0]["servers"] if any(server == name for server, _ in views.grouped(facts))]


def two_names(text: str) -> tuple[str, str]:
    """`A,B`. Raises Problem for anything else."""
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2:
        raise Problem(USAGE, f"--servers {text}: two names with a comma between them")
    return names[0], names[1]


def known_in(name: str, known: Sequence[str], record: str) -> None:
    """Raises Problem for a server that a record has no points of."""
    if name not in known:
        raise Problem(USAGE, f"{record} has no points of '{name}'{near(name, known)}", f"it has {', '.join(known)}")


def pairs(facts: Sequence[Fact], named: str | None) -> list[tuple[str, str]]:
    """The pairs of a record that are asked for. Raises Problem for a server that it has not."""
    known = measured(facts)
    if not named:
        if len(known) < 2:
            only = f"points of {known[0]} alone" if known else "no points"
            raise Problem(
                USAGE,
                f"the record has {only}: two servers are needed, or two records",
                "forehand lab compare BASE NEW; or measure both in one run: --servers A,B",
            )
        return [(name, known[0]) for name in known[1:]]
    one, other = two_names(named)
    for name in (one, other):
        known_in(name, known, "the record")
    return [(one, other)]


def pairs_between(base: Sequence[Fact], new: Sequence[Fact], named: str | None) -> list[tuple[str, str]]:
    """(server of BASE, server of NEW): those named, or each of BASE's with its namesake."""
    before, after = measured(base), measured(new)
    if named:
        one, other = two_names(named)
        known_in(one, before, "BASE")
        known_in(other, after, "NEW")
        return [(one, other)]
    if len(before) == len(after) == 1:
        return [(before[0], after[0])]
    if not set(before) & set(after):
        raise Problem(USAGE, "the records have no server in common", "name one of each: --servers A,B")
    # Whoever is not in NEW any more is told as missing, and not passed over.
    return [(name, name) for name in before]


def shown(console: Console, differences: Sequence[Difference], doubts: Sequence[str], between: bool) -> None:
    """A table for each pair, and what its words mean."""
    for pair in dict.fromkeys((each.new, each.base) for each in differences):
        names = f"{pair[0]} of NEW beside {pair[1]} of BASE" if between else f"{pair[0]} beside {pair[1]}"
        console.print(escape(names), style="bold")
        rows = [row(each) for each in differences if (each.new, each.base) == pair]
        heads = ("at", "figure", "ratio", "95 % interval", "p", "rounds", "verdict")
        console.print(escape(columns(heads, rows, console.width)), soft_wrap=True)
        console.print()
    for doubt in doubts:
        console.print(escape(doubt), style="yellow")
    way = "the deals of all rounds into two groups" if between else "flipped signs within rounds"
    console.print(
        f"A ratio above 1: the first has more. The interval is a bootstrap, p an exact test of {way};"
        " rounds that are not ranked are left out.",
        style="dim",
    )


def row(difference: Difference) -> tuple[Any, ...]:
    """A difference in cells. Pure."""
    found, point = difference.found, f"{difference.point:g}"
    if found is None:
        return point, difference.figure, "", "", "", "", gate.verdict(difference)
    interval = f"{found.low:.3f} – {found.high:.3f}" if found.low is not None else "–"
    p = f"{found.p:.3f}" if found.p is not None else "–"
    noisy = f", {difference.noisy} noisy" if difference.noisy else ""
    return point, difference.figure, f"{found.ratio:.3f}", interval, p, str(found.rounds), found.verdict + noisy
