"""Who takes part: names into contestants with environments, and for those who cannot, the reason.

Runs before anything is measured, for installing disturbs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from forehand_lab import HERE, interpreters
from forehand_lab.contestant import Contestant, asked_for, everybody
from forehand_lab.environments import Environment, obtained
from forehand_lab.problem import MISSING, USAGE, Problem
from forehand_lab.scenario import Scenario
from forehand_lab.speaking import SCHEMES, wanted

INSTALLERS = 4
# Of a server that runs already, of which nothing is known.
ELSEWHERE = Environment("", HERE, HERE, "", "", ())


@dataclass(frozen=True)
class Place:
    """A contestant with its environment, or with the reason why it has none."""

    contestant: Contestant
    environment: Environment | None
    why: str = ""


def named(text: str | None, scenario: Scenario) -> list[Contestant]:
    """The servers of a comma-separated list, or of the scenario. Raises Problem for an unknown name."""
    names = [name.strip() for name in text.split(",")] if text else list(scenario.servers)
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise Problem(USAGE, f"--servers names {', '.join(sorted(twice))} twice")
    return [asked_for(name) for name in names if name]


def checkouts(given: Iterable[str], contestants: list[Contestant]) -> dict[str, str]:
    """`--checkout NAME=DIR`, or a folder alone where one server only needs it."""
    wanting = [contestant for contestant in contestants if contestant.install.obtain]
    found = {}
    for text in given:
        name, equals, folder = text.partition("=")
        if equals:
            asked_for(name)
            found[name] = folder
        elif len(wanting) == 1:
            found[wanting[0].name] = text
        else:
            raise Problem(USAGE, f"--checkout {text}: whose is it?", "--checkout NAME=DIR")
    return found


def assembled(
    contestants: list[Contestant],
    scenario: Scenario,
    python: str | None,
    given: Mapping[str, str],
    tick: Callable[[Place], None] = lambda place: None,
) -> list[Place]:
    """All of them, installed a few at a time."""
    if python and (not interpreters.is_version(python) or not interpreters.found(python)):
        raise Problem(MISSING, f"--python {python}: there is no such interpreter here")

    setting = scenario.setting

    def one(contestant: Contestant) -> Place:
        spoken, asked = contestant.serves.scheme, wanted(scenario.load)
        if spoken != asked:
            why = f"speaks {SCHEMES[spoken]} as it is started, and this load {SCHEMES[asked]}"
            return Place(contestant, None, why + otherwise(contestant, scenario))
        if contestant.at:
            return Place(contestant, ELSEWHERE)
        if setting.own and setting.interface not in contestant.serves.interfaces:
            why = f"does not serve {setting.interface.upper()}, which this application speaks"
            return Place(contestant, None, why + otherwise(contestant, scenario))
        if not setting.own and not contestant.serves_application(setting.module):
            return Place(contestant, None, f"does not serve the application {setting.module}")
        if "static" in contestant.serves.interfaces and not is_static(scenario):
            return Place(contestant, None, "serves files only, and this scenario is no file")
        extra = () if "static" in contestant.serves.interfaces else setting.packages
        try:
            return Place(contestant, obtained(contestant, extra, python, given.get(contestant.name, "")))
        except Problem as problem:
            return Place(contestant, None, str(problem))

    with ThreadPoolExecutor(INSTALLERS) as pool:
        places = []
        for place in pool.map(one, contestants):
            tick(place)
            places.append(place)
        return places


def otherwise(contestant: Contestant, scenario: Scenario) -> str:
    """The same server under the name by which it takes part in this scenario, if it has one; for the end of a line."""
    setting = scenario.setting
    interfaces = {setting.interface} if setting.own else set(contestant.serves.interfaces)
    start = (contestant.folder, contestant.era, contestant.start.front)
    for other in everybody().values():
        fits = interfaces & set(other.serves.interfaces) and other.serves.scheme == wanted(scenario.load)
        if fits and (other.folder, other.era, other.start.front) == start:
            return f": {other.name} does"
    return ""


def is_static(scenario: Scenario) -> bool:
    """Whether a server of files can give the scenario's answers."""
    from forehand_lab.reference import FILES

    if scenario.setting.own:
        return False
    files = {(module, target) for module, target in FILES.values()} | {("counted", "/")}
    return all((scenario.setting.module, request.target) in files for request in scenario.requests)
