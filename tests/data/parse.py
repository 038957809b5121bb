"""Reads the cases of this folder; the format is in README.md."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPEAT = re.compile(r"\{([^{}]*)\*(\d+)\}")
ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.)")
LETTERS = {"r": "\r", "n": "\n", "t": "\t", "0": "\0", "\\": "\\"}


@dataclass
class Expected:
    """A request that must come out: its line, some headers, its body."""

    line: bytes
    headers: list[tuple[str, bytes]] = field(default_factory=list)
    body: bytes = b""


@dataclass
class Case:
    """One case."""

    name: str
    send: bytes = b""
    end: bool = False
    relax: list[str] = field(default_factory=list)
    strict: list[str] = field(default_factory=list)
    limits: dict[str, int] = field(default_factory=dict)
    requests: list[Expected] = field(default_factory=list)
    refuse: tuple[int, str] | None = None


def unescape(text: str) -> bytes:
    """Undo escapes and repetitions."""
    text = text.encode().decode("latin-1")
    text = REPEAT.sub(lambda found: found[1] * int(found[2]), text)
    return ESCAPE.sub(lambda found: chr(int(found[1][1:], 16)) if found[1][0] == "x" and len(found[1]) == 3
                      else LETTERS[found[1]], text).encode("latin-1")  # fmt: skip


def cases() -> list[Case]:
    """All cases of all files."""
    found: list[Case] = []
    for path in sorted(HERE.glob("*.txt")):
        for line in path.read_text().splitlines():
            if not line or line.startswith("#"):
                continue
            if line.startswith("== "):
                found.append(Case(line[3:]))
                continue
            key, _, value = line.partition(":")
            _put(found[-1], key, value.removeprefix(" "))
    return found


def _put(case: Case, key: str, value: str) -> None:
    if key == "send":
        case.send += unescape(value)
    elif key == "end":
        case.end = True
    elif key in ("relax", "strict"):
        getattr(case, key).append(value)
    elif key == "limit":
        name, _, number = value.partition(" ")
        case.limits[name] = int(number)
    elif key == "request":
        case.requests.append(Expected(unescape(value)))
    elif key == "header":
        name, _, text = value.partition(" =")
        case.requests[-1].headers.append((name, unescape(text.removeprefix(" "))))
    elif key == "body":
        case.requests[-1].body = unescape(value)
    elif key == "refuse":
        status, _, reason = value.partition(" ")
        case.refuse = (int(status), reason)
    elif key != "why":
        raise ValueError(f"'{key}' is no key")
