"""`forehand lab list`: contestants, scenarios, records."""

from __future__ import annotations

import argparse

from forehand_lab import interpreters, records
from forehand_lab.contestant import Contestant, everybody
from forehand_lab.environments import programs_missing
from forehand_lab.problem import Problem
from forehand_lab.scenario import everything
from rich.console import Console
from rich.table import Table


def arguments(parser: argparse.ArgumentParser) -> None:
    """What to list."""
    parser.add_argument("what", nargs="?", choices=("servers", "scenarios", "records"), help="only these")


def availability(contestant: Contestant) -> str:
    """Whether it can be measured here, and if not why. Asks no package index."""
    if contestant.install.obtain:
        return f"not obtainable: {contestant.install.obtain}: pass --checkout DIR"
    lacking = programs_missing(contestant)
    if lacking:
        return f"needs {', '.join(lacking)}"
    if interpreters.first(contestant.install.python) is None:
        return f"needs Python {' or '.join(contestant.install.python)}"
    return "here" if not contestant.install.packages else "installed when asked for"


def servers() -> Table:
    """A row for each contestant."""
    table = Table("server", "is", "era", "flavour", "to be had", title="Contestants", title_justify="left")
    for name, contestant in everybody().items():
        table.add_row(name, contestant.title, contestant.era, contestant.flavour, availability(contestant))
    return table


def scenarios() -> Table:
    """A row for each scenario."""
    table = Table("article", "scenario", "question", title="Scenarios", title_justify="left")
    for name, scenario in everything().items():
        table.add_row(scenario.letter, name, scenario.question)
    return table


def kept() -> Table:
    """A row for each record."""
    table = Table("record", "scenario", "servers", "points", "ended", title="Records", title_justify="left")
    for path in sorted(records.folder().glob(f"*/{records.FILE}")):
        try:
            facts = list(records.lines(path))
        except Problem as problem:
            table.add_row(str(path.parent), str(problem), "", "", "")
            continue
        if not facts:
            continue
        points = sum(fact["kind"] in ("point", "fault") for fact in facts)
        ended = facts[-1].get("how", "unfinished") if facts[-1]["kind"] == "end" else "unfinished"
        table.add_row(str(path.parent), facts[0]["scenario"], ", ".join(facts[0]["servers"]), str(points), ended)
    return table


def act(asked: argparse.Namespace) -> int:
    """Print."""
    console = Console()
    if asked.what in (None, "servers"):
        console.print(servers())
    if asked.what in (None, "scenarios"):
        console.print(scenarios())
    if asked.what in (None, "records"):
        console.print(kept())
    return 0
