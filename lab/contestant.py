"""Contestants: what `contestant.toml` says, and the name by which one is asked for.

Pure but for reading the files. Does not install or start anything.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from forehand_lab import HERE
from forehand_lab.problem import USAGE, Problem, near
from forehand_lab.speaking import SCHEMES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = HERE / "contestants"
FLAVOURS = ("process", "thread", "callback", "lightweight", "native", "static")
NAME = re.compile(r"(?P<base>[a-z][\w-]*?)(?:@(?P<era>\w+))?(?::(?P<workers>\d+))?")
MOST_WORKERS = 64

# What a table may hold; a misspelt key is an error and not a default.
KEYS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "": {"title": str, "flavour": str, "era": str, "note": str},
    "install": {"python": list, "packages": list, "programs": list, "obtain": str},
    "start": {
        "command": list, "workers": int, "environ": dict, "files": list, "front": str, "upstream": str,
        "settle": (int, float), "values": dict,
    },
    "serves": {"interfaces": list, "applications": list, "scheme": str},
}  # fmt: skip


@dataclass(frozen=True)
class Install:
    """How the server comes here. `obtain` is why it cannot, unless a checkout is given."""

    python: tuple[str, ...] = ("any",)
    packages: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    obtain: str = ""


@dataclass(frozen=True)
class Start:
    """How it is started. Words of `command` have {places} that the launcher fills in."""

    command: tuple[str, ...]
    workers: int = 1
    environ: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    front: str = ""
    upstream: str = "http"
    settle: float = 10.0
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Serves:
    """What it can be asked to serve, and how it is spoken to; `applications` empty means all."""

    interfaces: tuple[str, ...] = ("wsgi",)
    applications: tuple[str, ...] = ()
    scheme: str = "http"


@dataclass(frozen=True)
class Contestant:
    """A server as it is measured: one folder, one variant, one era, a number of workers."""

    name: str
    folder: Path
    title: str
    flavour: str
    era: str
    note: str
    install: Install
    start: Start
    serves: Serves
    # Host and port of a server that runs already, and is neither started nor ended.
    at: tuple[str, int] | None = None
    # What that shows within TLS, in PEM; or ANYBODY.
    certificate: str = ""

    @property
    def obtainable(self) -> bool:
        """Whether the lab can install it by itself."""
        return not self.install.obtain

    def serves_application(self, module: str) -> bool:
        """Whether it can be asked for this application of lab/apps."""
        return not self.serves.applications or module in self.serves.applications


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Tables merged key by key; what `over` says goes before."""
    made = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(made.get(key), dict)
        made[key] = merged(made[key], value) if both and key not in ("environ", "values") else value
    return made


def judged(table: Mapping[str, Any], where: str) -> None:
    """Raises Problem for a key or a type that no contestant has."""
    for section, keys in KEYS.items():
        part = table.get(section, {}) if section else {k: v for k, v in table.items() if k not in KEYS}
        for key, value in part.items():
            if section == "" and key in ("variants", "eras"):
                continue
            if key not in keys:
                raise Problem(USAGE, f"{where}: there is no key '{section}.{key}'".replace("'.", "'") + near(key, keys))
            if not isinstance(value, keys[key]):
                raise Problem(USAGE, f"{where}: {section}.{key} is a {type(value).__name__}")
    if table.get("flavour") not in FLAVOURS:
        raise Problem(USAGE, f"{where}: flavour is one of {', '.join(FLAVOURS)}")
    if table.get("serves", {}).get("scheme", "http") not in SCHEMES:
        raise Problem(USAGE, f"{where}: serves.scheme is one of {', '.join(SCHEMES)}")
    if not table.get("start", {}).get("command"):
        raise Problem(USAGE, f"{where}: [start] has no command")


def built(name: str, folder: Path, table: Mapping[str, Any]) -> Contestant:
    """The contestant that a merged table describes."""
    judged(table, str(folder / "contestant.toml"))

    def section(key: str) -> dict[str, Any]:
        return {k: tuple(v) if isinstance(v, list) else v for k, v in table.get(key, {}).items()}

    return Contestant(
        name=name,
        folder=folder,
        title=table["title"],
        flavour=table["flavour"],
        era=table.get("era", "today"),
        note=table.get("note", ""),
        install=Install(**section("install")),
        start=Start(**section("start")),
        serves=Serves(**section("serves")),
    )


def everybody() -> dict[str, Contestant]:
    """All contestants by name: the lab's own, and those of the folders that $FOREHAND_LAB_CONTESTANTS names."""
    more = [Path(text) for text in os.environ.get("FOREHAND_LAB_CONTESTANTS", "").split(os.pathsep) if text]
    found: dict[str, Contestant] = {}
    for folder in (FOLDER, *more):
        if not folder.is_dir():
            raise Problem(USAGE, f"$FOREHAND_LAB_CONTESTANTS: there is no folder {folder}")
        found.update(of_folder(folder))
    return found


@cache
def of_folder(folder: Path) -> dict[str, Contestant]:
    """The contestants of a folder: each with its variants, and each of these with its eras where they go together."""
    found: dict[str, Contestant] = {}
    for path in sorted(folder.glob("*/contestant.toml")):
        with path.open("rb") as file:
            try:
                table = tomllib.load(file)
            except tomllib.TOMLDecodeError as error:
                raise Problem(USAGE, f"{path}: {error}") from None
        variants, eras = table.pop("variants", {}), table.pop("eras", {})
        name = path.parent.name
        found[name] = built(name, path.parent, table)
        for variant, over in variants.items():
            found[f"{name}-{variant}"] = built(f"{name}-{variant}", path.parent, merged(table, over))
        for era, over in eras.items():
            of_then = merged(table, over)
            found[f"{name}@{era}"] = built(f"{name}@{era}", path.parent, of_then)
            for variant, other in variants.items():
                if not {"command", "values"} & set(other.get("start", {})):
                    made = merged(merged(table, other), over)
                    made["title"] = f"{of_then['title']}, {variant}"
                    full = f"{name}-{variant}@{era}"
                    found[full] = built(full, path.parent, made)
    return found


def asked_for(name: str, among: Mapping[str, Contestant] | None = None) -> Contestant:
    """The contestant of a name, with its number of workers. Raises Problem with the nearest name."""
    known = everybody() if among is None else among
    parts = NAME.fullmatch(name)
    plain = name.partition(":")[0]
    if parts is None or plain not in known:
        raise Problem(USAGE, f"there is no server '{name}'{near(plain, known)}", "`forehand lab list` names them all")
    found = known[plain]
    if not parts["workers"]:
        return found
    workers = int(parts["workers"])
    if not 1 <= workers <= MOST_WORKERS:
        raise Problem(USAGE, f"{name}: workers are 1 to {MOST_WORKERS}")
    if workers > 1 and not has_workers(found):
        raise Problem(USAGE, f"{name}: {found.title} is a single process, and cannot have {workers} workers")
    start = Start(**{**vars(found.start), "workers": workers})
    return Contestant(**{**vars(found), "name": name, "start": start})


def has_workers(contestant: Contestant) -> bool:
    """Whether its command or one of its files has a place for the number of workers."""
    files = [(contestant.folder / name).read_text() for name in contestant.start.files]
    return any("{workers}" in text for text in (*contestant.start.command, *files))
