"""`forehand lab list`: contestants, scenarios, records."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from forehand_lab import interpreters, records
from forehand_lab.contestant import Contestant, everybody
from forehand_lab.environments import programs_missing
from forehand_lab.problem import Problem
from forehand_lab.scenario import everything
from forehand_lab.terminal import columns, console_of
from rich.console import Console
from rich.markup import escape


def arguments(parser: argparse.ArgumentParser) -> None:
    """What to list."""
    parser.add_argument("what", nargs="?", choices=("servers", "scenarios", "records"), help="only these")
    parser.add_argument("--json", action="store_true", help="print JSON, with everything that is known of each")


def availability(contestant: Contestant) -> str:
    """Whether it can be measured here, and if not why. Asks no package index."""
    if contestant.install.obtain:
        return f"with --checkout DIR only: {contestant.install.obtain}"
    lacking = programs_missing(contestant)
    if lacking:
        return f"needs {', '.join(lacking)}"
    if interpreters.first(contestant.install.python) is None:
        return f"needs Python {' or '.join(contestant.install.python)}"
    return "here" if not contestant.install.packages else "installed when asked for"


def servers() -> list[dict[str, Any]]:
    """Each contestant."""
    return [
        {
            "server": name, "is": each.title, "era": each.era, "flavour": each.flavour, "note": each.note,
            "can it be had": availability(each), "packages": list(each.install.packages),
        }
        for name, each in everybody().items()
    ]  # fmt: skip


def scenarios() -> list[dict[str, Any]]:
    """Each scenario."""
    return [
        {
            "article": each.letter, "scenario": name, "question": each.question, "kind": each.kind,
            "servers": list(each.servers),
        }
        for name, each in everything().items()
    ]  # fmt: skip


def kept() -> list[dict[str, Any]]:
    """Each record; one that cannot be read says why."""
    found: list[dict[str, Any]] = []
    for path in sorted(records.folder().glob(f"*/{records.FILE}")):
        row: dict[str, Any] = {"record": str(path.parent), "scenario": "", "servers": [], "points": 0, "ended": ""}
        try:
            facts = list(records.lines(path))
        except Problem as problem:
            found.append({**row, "ended": str(problem)})
            continue
        if facts:
            points = sum(fact["kind"] in ("point", "fault") for fact in facts)
            ended = facts[-1].get("how", "unfinished") if facts[-1]["kind"] == "end" else "unfinished"
            first = facts[0]
            row.update(scenario=first["scenario"], servers=first["servers"], points=points, ended=ended)
            found.append(row)
    return found


# What a person gets to see of each, in this order.
LISTS = {
    "servers": (servers, ("server", "is", "can it be had")),
    "scenarios": (scenarios, ("article", "scenario", "question")),
    "records": (kept, ("record", "scenario", "servers", "points", "ended")),
}


def shown(console: Console, what: str, rows: list[dict[str, Any]]) -> None:
    """A heading, and a line for each."""
    heads = LISTS[what][1]

    def cell(value: Any) -> str:
        return ", ".join(value) if isinstance(value, list) else str(value)

    console.print(what.capitalize(), style="bold")
    cells = [
        [", ".join(row[head]) if isinstance(row[head], list) else str(row[head]) for head in heads] for row in rows
    ]
    console.print(escape(columns(heads, cells, console.width)), soft_wrap=True)


def act(asked: argparse.Namespace) -> int:
    """Print."""
    wanted = [asked.what] if asked.what else list(LISTS)
    found = {what: LISTS[what][0]() for what in wanted}
    if asked.json:
        sys.stdout.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
        return 0
    console = console_of()
    for number, (what, rows) in enumerate(found.items()):
        if number:
            console.print()
        shown(console, what, rows)
    return 0
