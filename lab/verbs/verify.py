"""`forehand lab verify`: every server gives a scenario's right answers, or the differences are printed.

`run` asks the same before it measures, and leaves out who answers wrongly.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forehand_lab import lineup, machine, own
from forehand_lab import scenario as scenarios
from forehand_lab.behaviour import ABILITIES, capabilities, wrong_answers
from forehand_lab.launching import StartFailed, started
from forehand_lab.lineup import Place
from forehand_lab.problem import FAILED, OK
from forehand_lab.scenario import Scenario
from forehand_lab.terminal import console_of
from rich.console import Console
from rich.markup import escape


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which scenario, which servers."""
    parser.add_argument("scenario", nargs="?", default="hello", help="name or article (A1); default: hello")
    parser.add_argument("--servers", metavar="A,B", help="instead of the scenario's own")
    parser.add_argument("--json", action="store_true", help="what each said, for programs")
    own.arguments(parser)
    parser.add_argument("--python", metavar="3.X", help="interpreter for those that can have any")
    parser.add_argument(
        "--checkout", action="append", default=[], metavar="NAME=DIR", help="source of what cannot be had"
    )


def verified(place: Place, scenario: Scenario, log: Path, port: int = 0) -> dict[str, Any]:
    """What a server says and can do: the fact `verified` of a record."""
    assert place.environment
    told: dict[str, Any] = {
        "server": place.contestant.name,
        "differences": [],
        "capabilities": {},
        "why": "",
        "log": "",
    }
    try:
        with started(
            place.contestant, place.environment, scenario.setting, log, machine.cores().server, port
        ) as running:
            told["differences"] = wrong_answers(running.at, scenario)
            first = next((request.target for request in scenario.requests), "/")
            told["capabilities"] = capabilities(running.at, first)
            died = running.died()
            if died:
                told["why"], told["log"] = f"it died while it was asked: {died}", running.said()
    except StartFailed as failed:
        told["why"], told["log"] = str(failed), failed.log
    lacking = [need for need in scenario.needs if not told["capabilities"].get(need)]
    if lacking and not told["why"]:
        told["why"] = f"lacks {named(lacking)}, which this scenario needs"
    return told


def is_fit(told: dict[str, Any]) -> bool:
    """Whether it may be measured."""
    return not told["why"] and not told["differences"]


def show(console: Console, told: dict[str, Any]) -> None:
    """A line for a server, and one for each difference."""
    if is_fit(told):
        console.print(f"  [green]same[/]       {escape(told['server'])}: {escape(shown(told['capabilities']))}")
        return
    word = "differs" if told["differences"] else "left out"
    console.print(f"  [yellow]{word:<9}[/]  {escape(told['server'])}: {escape(told['why'] or 'answers wrongly')}")
    for difference in told["differences"]:
        console.print(f"             {escape(difference)}")
    for line in told["log"].splitlines()[-3:]:
        console.print(f"             | {escape(line)}")


def shown(capabilities: dict[str, bool]) -> str:
    """What it can and cannot, in words."""
    cannot = named([name for name, yes in capabilities.items() if not yes])
    return named([name for name, yes in capabilities.items() if yes]) + (f"; not: {cannot}" if cannot else "")


def named(abilities: Sequence[str]) -> str:
    """Abilities as people say them."""
    return ", ".join(ABILITIES.get(name, name) for name in abilities)


def everyone(console: Console, places: Sequence[Place], scenario: Scenario, logs: Path) -> list[dict[str, Any]]:
    """Each in turn, with its line."""
    facts = []
    for place in places:
        if place.environment is None:
            console.print(f"  [yellow]left out[/]   {escape(place.contestant.name)}: {escape(place.why)}")
            continue
        fact = verified(place, scenario, logs / f"verify-{place.contestant.name.replace(':', '-')}.log")
        show(console, fact)
        facts.append(fact)
    return facts


def act(asked: argparse.Namespace) -> int:
    """Verify; FAILED where one differs."""
    scenario = own.applied(asked, scenarios.asked_for(asked.scenario))
    contestants = lineup.named(asked.servers, scenario) if asked.servers else []
    console = console_of(stderr=asked.json)
    console.print(f"{escape(scenario.title)}: do all servers give the same answers?")
    scenario, contestants = own.lined_up(scenario, contestants, own.There.of_command(asked), asked.python, console)
    given = lineup.checkouts(asked.checkout, contestants)
    places = lineup.assembled(contestants, scenario, asked.python, given)
    with tempfile.TemporaryDirectory(prefix="lab-verify-") as folder:
        facts = everyone(console, places, scenario, Path(folder))
    left_out = {place.contestant.name: place.why for place in places if place.environment is None}
    fine = all(is_fit(fact) for fact in facts) and bool(facts) and not left_out
    if asked.json:
        told = {"format": 1, "scenario": scenario.name, "fine": fine, "servers": facts, "left_out": left_out}
        sys.stdout.write(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    return OK if fine else FAILED
