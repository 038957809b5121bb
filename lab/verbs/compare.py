"""`forehand lab compare`: two servers of a record, round by round: how much apart, and whether that can be told."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from forehand_lab import records, views
from forehand_lab.estimates import Comparison
from forehand_lab.problem import USAGE, Problem, near
from rich.console import Console
from rich.table import Table


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which record, which two."""
    parser.add_argument("record", nargs="?", default="latest", help="folder or file; default: the latest")
    parser.add_argument("--servers", metavar="A,B", help="default: each of the record with its first")


def act(asked: argparse.Namespace) -> int:
    """Print a table for each pair."""
    facts = records.read(asked.record)
    console = Console(highlight=False)
    for one, other in pairs(facts, asked.servers):
        console.print(shown(facts, one, other))
    console.print(
        "A ratio above 1: the first has more. The interval is a bootstrap over rounds, p an exact test of flipped"
        " signs; `not ranked` rounds are left out.",
        style="dim",
    )
    return 0


def pairs(facts: Sequence[Mapping[str, Any]], named: str | None) -> list[tuple[str, str]]:
    """The pairs that are asked for. Raises Problem for a server that the record has not."""
    known = [name for name in facts[0]["servers"] if any(server == name for server, _ in views.grouped(facts))]
    if not named:
        if len(known) < 2:
            raise Problem(USAGE, f"the record has points of {len(known)} servers: two are needed")
        return [(name, known[0]) for name in known[1:]]
    names = [name.strip() for name in named.split(",")]
    if len(names) != 2:
        raise Problem(USAGE, f"--servers {named}: two names with a comma between them")
    for name in names:
        if name not in known:
            raise Problem(
                USAGE, f"the record has no points of '{name}'{near(name, known)}", f"it has {', '.join(known)}"
            )
    return [(names[0], names[1])]


def shown(facts: Sequence[Mapping[str, Any]], one: str, other: str) -> Table:
    """The table of a pair."""
    unit = facts[0]["unit"]
    table = Table(unit, "figure", f"{one} / {other}", "95 % interval", "p", "rounds", "verdict", title_justify="left")
    table.title = f"{one} beside {other}"
    for (point, metric), comparison in views.paired(facts, one, other).items():
        table.add_row(f"{point:g}", metric, *row(comparison))
    return table


def row(comparison: Comparison) -> tuple[str, str, str, str, str]:
    """A comparison in cells. Pure."""
    interval = f"{comparison.low:.3f} – {comparison.high:.3f}" if comparison.low is not None else "–"
    p = f"{comparison.p:.3f}" if comparison.p is not None else "–"
    return f"{comparison.ratio:.3f}", interval, p, str(comparison.rounds), comparison.verdict
