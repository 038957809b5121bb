"""Scenarios: what `scenarios/NAME.toml` says, judged, and the points that come of it.

Pure but for reading the files.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from forehand_lab import HERE
from forehand_lab.places import Setting
from forehand_lab.problem import USAGE, Problem, near

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = HERE / "scenarios"
PROFILES = ("quick", "full")
KINDS = ("sweep", "closed", "sessions", "mixed", "faults", "capacity")
TABLES = {
    "": {"title", "letter", "kind", "question", "expected", "source", "servers", "needs", "request",
         "history", "history_unit"},
    "application": {"module", "attribute", "threads", "backlog", "connections", "environ", "packages", "prepare"},
    "load": {
        "http", "keep_alive", "calls", "think_s", "pipeline", "timeout_s", "arrivals", "slow_read", "slow_write",
        "background_rate",
    },
    "profile": {"points", "seconds", "rounds", "warmup_s", "drain_s"},
    "request": {"name", "method", "target", "headers", "body_size", "chunked", "weight", "status", "body", "alone"},
    "fault": {"target", "expected", "times", "patience_s"},
}  # fmt: skip


@dataclass(frozen=True)
class Request:
    """A request of a scenario, and what to expect beyond what the application says by itself."""

    name: str = "request"
    method: str = "GET"
    target: str = "/"
    headers: tuple[tuple[str, str], ...] = ()
    body_size: int = 0
    chunked: bool = False
    weight: int = 1
    status: int = 200
    body: str | None = None
    # In a mixed scenario: this many connections of its own, beside those of the others.
    alone: int = 0

    def sent_body(self) -> bytes:
        """The body that is sent: letters, so that a proxy's log stays readable."""
        alphabet = b"abcdefghijklmnopqrstuvwxyz\n"
        return (alphabet * (self.body_size // len(alphabet) + 1))[: self.body_size]


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong in the application, and what a good server makes of it."""

    target: str
    expected: str
    times: int = 1
    patience_s: float = 3.0


@dataclass(frozen=True)
class Profile:
    """How long and how often. `points` are offered rates, numbers of connections, or rates of arriving clients."""

    points: tuple[float, ...]
    seconds: float
    rounds: int
    warmup_s: float = 1.0
    drain_s: float = 6.0


@dataclass(frozen=True)
class Scenario:
    """A question, and how it is asked."""

    name: str
    title: str
    letter: str
    kind: str
    question: str
    expected: str
    source: str
    servers: tuple[str, ...]
    needs: tuple[str, ...]
    setting: Setting
    requests: tuple[Request, ...]
    load: Mapping[str, Any]
    profiles: Mapping[str, Profile]
    faults: tuple[Fault, ...]
    history: tuple[Mapping[str, Any], ...]
    history_unit: str


def judged(table: Mapping[str, Any], where: str) -> None:
    """Raises Problem for a key that no scenario has, or a kind that there is not."""

    def check(part: Mapping[str, Any], section: str, more: set[str] = frozenset()) -> None:  # type: ignore[assignment]
        for key in part:
            if key not in TABLES[section] | more:
                shown = f"{section}.{key}" if section else key
                raise Problem(USAGE, f"{where}: there is no key '{shown}'{near(key, TABLES[section])}")

    check(table, "", {"application", "load", "profile", "fault"})
    check(table.get("application", {}), "application")
    check(table.get("load", {}), "load")
    for name, profile in table.get("profile", {}).items():
        if name not in PROFILES:
            raise Problem(USAGE, f"{where}: there is no profile '{name}'{near(name, PROFILES)}")
        check(profile, "profile")
    for section in ("request", "fault"):
        for part in table.get(section, ()):
            check(part, section)
    if table.get("kind") not in KINDS:
        raise Problem(USAGE, f"{where}: kind is one of {', '.join(KINDS)}")
    lacking = {"title", "question", "expected", "servers", "profile"} - set(table)
    if lacking:
        raise Problem(USAGE, f"{where}: {', '.join(sorted(lacking))} is missing")


def built(name: str, table: Mapping[str, Any]) -> Scenario:
    """The scenario that a table describes."""
    judged(table, f"scenarios/{name}.toml")
    application = dict(table.get("application", {}))
    environ = application.pop("environ", {})
    packages = application.pop("packages", ())
    setting = Setting(**application, environ=tuple(environ.items()), packages=tuple(packages))
    requests = []
    for part in table.get("request", ({},)):
        headers = tuple((key, value) for key, value in part.get("headers", ()))
        requests.append(Request(**{**part, "headers": headers}))
    profiles = {
        key: Profile(**{**value, "points": tuple(value.get("points", (1,)))}) for key, value in table["profile"].items()
    }
    return Scenario(
        name=name,
        title=table["title"],
        letter=table.get("letter", ""),
        kind=table["kind"],
        question=table["question"],
        expected=table["expected"],
        source=table.get("source", ""),
        servers=tuple(table["servers"]),
        needs=tuple(table.get("needs", ())),
        setting=setting,
        requests=tuple(requests),
        load=table.get("load", {}),
        profiles=profiles,
        faults=tuple(Fault(**part) for part in table.get("fault", ())),
        history=tuple(table.get("history", ())),
        history_unit=table.get("history_unit", ""),
    )


def from_file(path: Path) -> Scenario:
    """The scenario of a file; Problem where it cannot be used."""
    try:
        with path.open("rb") as file:
            return built(path.stem, tomllib.load(file))
    except tomllib.TOMLDecodeError as error:
        raise Problem(USAGE, f"{path}: {error}") from None
    except TypeError as error:
        raise Problem(USAGE, f"{path}: {error}") from None


@cache
def everything(folder: Path = FOLDER) -> dict[str, Scenario]:
    """All scenarios by name, in the order of the articles."""
    found = [from_file(path) for path in sorted(folder.glob("*.toml"))]
    found.sort(key=lambda scenario: (scenario.letter or "Z", scenario.name))
    return {scenario.name: scenario for scenario in found}


def asked_for(name: str) -> Scenario:
    """A scenario by its name, its article's letter, or a file. Raises Problem with the nearest name."""
    if name.endswith(".toml"):
        path = Path(name)
        if not path.is_file():
            raise Problem(USAGE, f"there is no file {name}")
        return from_file(path)
    known = everything()
    by_letter = {scenario.letter.upper(): scenario for scenario in reversed(known.values()) if scenario.letter}
    found = known.get(name) or by_letter.get(name.upper())
    if not found:
        raise Problem(USAGE, f"there is no scenario '{name}'{near(name, known)}", "`forehand lab list` names them all")
    return found


def unit(kind: str) -> str:
    """What a point of a kind of scenario is, for axes and tables."""
    return {
        "sweep": "offered requests/s",
        "closed": "connections",
        "sessions": "arriving clients/s",
        "mixed": "connections of the fast view",
        "faults": "background requests/s",
        "capacity": "most requests/s offered",
    }[kind]
