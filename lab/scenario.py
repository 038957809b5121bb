"""Scenarios: what `scenarios/NAME.toml` says, judged, and the points that come of it.

Pure but for reading the files.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from forehand_lab import HERE
from forehand_lab.places import Setting
from forehand_lab.problem import USAGE, Problem, near
from forehand_lab.speaking import VERSIONS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = HERE / "scenarios"
PROFILES = ("quick", "full")
INTERFACES = ("auto", "wsgi", "asgi")
HINT = f"{FOLDER / 'README.md'} has every key"
KINDS = ("sweep", "closed", "sessions", "mixed", "faults", "capacity")
_NUMBER = (int, float)
# What a file may say, and of which type: scenarios/README.md has the meanings.
TABLES: dict[str, dict[str, type | tuple[type, ...]]] = {
    "": {
        "title": str, "letter": str, "kind": str, "question": str, "expected": str, "source": str, "servers": list,
        "needs": list, "history": list, "history_unit": str,
    },
    "application": {
        "module": str, "attribute": str, "path": str, "interface": str, "threads": int, "backlog": int,
        "connections": int, "environ": dict, "packages": list, "prepare": str,
    },
    "load": {
        "http": str, "keep_alive": bool, "calls": int, "think_s": _NUMBER, "pipeline": int, "timeout_s": _NUMBER,
        "streams": int, "tls": bool, "resume": bool, "arrivals": str, "slow_read": dict, "slow_write": dict,
        "background_rate": _NUMBER,
    },
    "profile": {"points": list, "seconds": _NUMBER, "rounds": int, "warmup_s": _NUMBER, "drain_s": _NUMBER},
    "request": {
        "name": str, "method": str, "target": str, "headers": list, "body_size": int, "chunked": bool, "weight": int,
        "status": int, "body": str, "alone": int,
    },
    "fault": {"target": str, "expected": str, "times": int, "patience_s": _NUMBER},
}  # fmt: skip
NEEDED = {"": ("kind", "profile"), "profile": ("points", "seconds", "rounds"), "fault": ("target", "expected")}


@dataclass(frozen=True)
class Answer:
    """What a request is answered with: status, the headers that matter, body."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    # Whether the application says the same each time: if not, only status and type can be asked of a server.
    firm: bool = True

    def header(self, name: str) -> str:
        """A header's value, or nothing."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")


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
    # As it was written, so that a record can be gone on with when the file is elsewhere, or not there any more.
    table: Mapping[str, Any] = field(default_factory=dict)
    # Of an application of one's own: what it says when it is called without a server.
    answers: Mapping[Request, Answer] = field(default_factory=dict)


def judged(table: Mapping[str, Any], where: str) -> None:
    """Raises Problem for a key that no scenario has, one that lacks, a wrong type, or a kind that there is not."""

    def check(part: Any, section: str, shown: str = "") -> None:
        shown = shown or section
        if not isinstance(part, Mapping):
            raise Problem(USAGE, f"{where}: [{shown}] is a table", HINT)
        tables = ("application", "load", "profile", "fault", "request") if not section else ()
        for key, value in part.items():
            named = f"{shown}.{key}" if shown else key
            known = (*TABLES[section], *tables)
            if key not in known:
                raise Problem(USAGE, f"{where}: there is no key '{named}'{near(key, known)}", HINT)
            wanted = TABLES[section].get(key)
            if wanted and (not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool)):
                raise Problem(USAGE, f"{where}: {named} is {said_type(wanted)}, not {value!r}", HINT)
        for key in NEEDED.get(section, ()):
            if key not in part:
                raise Problem(USAGE, f"{where}: {f'{shown}.{key}' if shown else key} is missing", HINT)

    check(table, "")
    check(table.get("application", {}), "application")
    check(table.get("load", {}), "load")
    if not isinstance(table["profile"], Mapping) or not table["profile"]:
        raise Problem(USAGE, f"{where}: there is no [profile.quick]", HINT)
    for name, profile in table["profile"].items():
        if name not in PROFILES:
            raise Problem(USAGE, f"{where}: there is no profile '{name}'{near(name, PROFILES)}", HINT)
        check(profile, "profile", f"profile.{name}")
    for section in ("request", "fault"):
        parts = table.get(section, ())
        if not isinstance(parts, Sequence):
            raise Problem(USAGE, f"{where}: a {section} is written as [[{section}]]", HINT)
        for part in parts:
            check(part, section)
    if table["kind"] not in KINDS:
        raise Problem(USAGE, f"{where}: kind is one of {', '.join(KINDS)}, not {table['kind']!r}", HINT)
    spoken(table.get("load", {}), where)
    if table.get("application", {}).get("interface", "auto") not in INTERFACES:
        raise Problem(USAGE, f"{where}: application.interface is one of {', '.join(INTERFACES)}", HINT)


def spoken(load: Mapping[str, Any], where: str) -> None:
    """Raises Problem for protocols that do not go together."""
    http = load.get("http", "1.1")
    if http not in VERSIONS:
        raise Problem(USAGE, f"{where}: load.http is one of {', '.join(VERSIONS)}, not {http!r}", HINT)
    if http != "2" and load.get("streams", 1) != 1:
        raise Problem(USAGE, f'{where}: load.streams needs load.http = "2"', HINT)
    if http == "2" and (load.get("pipeline", 1) != 1 or "slow_read" in load or "slow_write" in load):
        raise Problem(USAGE, f"{where}: load.pipeline, slow_read and slow_write are for HTTP/1", HINT)
    if load.get("resume") and not load.get("tls"):
        raise Problem(USAGE, f"{where}: load.resume needs load.tls", HINT)


def said_type(wanted: type | tuple[type, ...]) -> str:
    """A type as people say it."""
    words: dict[Any, str] = {str: "text", int: "a whole number", bool: "true or false", list: "a list", dict: "a table"}
    return words.get(wanted, "a number")


def set_as(application: Mapping[str, Any]) -> Setting:
    """The setting of an [application], or of a record's first line."""
    given = {key: value for key, value in application.items() if key not in ("environ", "packages")}
    environ = application.get("environ", {})
    pairs = environ.items() if isinstance(environ, Mapping) else map(tuple, environ)
    return Setting(**given, environ=tuple(pairs), packages=tuple(application.get("packages", ())))


def asked_as(parts: Sequence[Mapping[str, Any]]) -> tuple[Request, ...]:
    """The requests of [[request]] tables, or of a record's first line."""
    return tuple(
        Request(**{**part, "headers": tuple((key, value) for key, value in part.get("headers", ()))}) for part in parts
    )


def built(name: str, table: Mapping[str, Any], where: str) -> Scenario:
    """The scenario that a table describes; `where` is the file that it came from, for messages."""
    judged(table, where)
    profiles = {key: Profile(**{**value, "points": tuple(value["points"])}) for key, value in table["profile"].items()}
    return Scenario(
        name=name,
        title=table.get("title", name),
        letter=table.get("letter", ""),
        kind=table["kind"],
        question=table.get("question", ""),
        expected=table.get("expected", ""),
        source=table.get("source", ""),
        servers=tuple(table.get("servers", ())),
        needs=tuple(table.get("needs", ())),
        setting=set_as(table.get("application", {})),
        requests=asked_as(table.get("request", ({},))),
        load=table.get("load", {}),
        profiles=profiles,
        faults=tuple(Fault(**part) for part in table.get("fault", ())),
        history=tuple(table.get("history", ())),
        history_unit=table.get("history_unit", ""),
        table=table,
    )


def from_file(path: Path) -> Scenario:
    """The scenario of a file; Problem where it cannot be used."""
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except tomllib.TOMLDecodeError as error:
        raise Problem(USAGE, f"{path}: {error}") from None
    except OSError as error:
        raise Problem(USAGE, f"{path}: {error.strerror}") from None
    application = table.get("application")
    if isinstance(application, dict) and isinstance(application.get("path"), str):
        # As its author means it: from the file, and not from where the lab is called.
        application["path"] = str((path.parent / application["path"]).resolve())
    return built(path.stem, table, str(path))


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
