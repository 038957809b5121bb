"""docker-compose.yml and compose.yaml: the commands of services, with their variables and folders.

Knows: as much of YAML as these files use: mappings by indentation, lists in both forms, quoted and folded texts.
Does not know: servers' flags; images, whose own command is their Dockerfile's.
"""

from __future__ import annotations

import json
import re
import shlex

from forehand.migrate.service import Service

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    # Indentation, and the line without it.
    Lines = list[tuple[int, str]]

KEY = re.compile(r"""("[^"]*"|'[^']*'|[^\s:#'"\[{][^:#]*?)\s*:(?:\s+(.*)|)$""")

QUOTED = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:''|[^'])*')\s*(?:#.*)?$""")


def is_one(text: str) -> bool:
    """Whether a YAML file looks like Compose's."""
    return re.search(r"^services:\s*(#.*)?$", text, re.M) is not None


def services(text: str) -> Iterator[tuple[str, Service]]:
    """The services that say what they run, by name."""
    found = _mapping(_lines(text)).get("services")
    for name, table in (found if isinstance(found, dict) else {}).items():
        if not isinstance(table, dict) or not (table.get("command") or table.get("entrypoint")):
            continue
        service = Service(f"Compose service {name}")
        words = [_command(table[key]) for key in ("entrypoint", "command") if table.get(key)]
        # Compose reads $$ as a dollar sign of the container's shell.
        service.lines = [" ".join(words).replace("$$", "$")]
        service.environment = _environment(table.get("environment"))
        if isinstance(table.get("working_dir"), str):
            service.settings.append(("chdir", table["working_dir"], "working_dir"))
        for key in ("environment", "env_file", "user", "ports", "build", "image"):
            if key in table:
                service.remarks.append((key, "", "leave it in the Compose file"))
        yield name, service


def _command(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(shlex.quote(word) if "$" not in word else f'"{word}"' for word in map(str, value))
    return str(value)


def _environment(value: Any) -> dict[str, str]:
    if isinstance(value, dict):
        return {name: text for name, text in value.items() if isinstance(text, str) and text}
    pairs = [str(pair).partition("=") for pair in (value if isinstance(value, list) else [])]
    return {name: text for name, equals, text in pairs if equals}


def _lines(text: str) -> Lines:
    return [(len(line) - len(line.lstrip()), line.strip()) for line in text.expandtabs().splitlines()]


def _mapping(lines: Lines) -> dict[str, Any]:
    """A mapping of the lines of one block; what is no key at its indentation belongs to the key before it."""
    found: dict[str, Any] = {}
    outer = next((deep for deep, line in lines if line and not line.startswith("#")), 0)
    at = 0
    while at < len(lines):
        deep, line = lines[at]
        at += 1
        key = KEY.match(line)
        if not key or deep > outer or line.startswith(("#", "- ")):
            continue
        end = at
        # A list may stand at its key's own indentation.
        while end < len(lines) and (not lines[end][1] or lines[end][0] > deep or lines[end][1].startswith(("- ", "#"))):
            end += 1
        found[key[1].strip("\"'")] = _value((key[2] or "").strip(), lines[at:end])
        at = end
    return found


def _value(first: str, block: Lines) -> Any:
    first = re.sub(r"^[&!]\S+\s*", "", first)
    inside = [(deep, line) for deep, line in block if line]
    if first[:1] in ("|", ">"):
        # Commands that a folded text has on lines of their own are one command; a shell's lines end where they end.
        return (" " if first[0] == ">" else "\n").join(line for _, line in inside)
    inside = [(deep, line) for deep, line in inside if not line.startswith("#")]
    if first[:1] == "[":
        return _flow(" ".join([first, *(line for _, line in inside)]))
    if first and not first.startswith("#"):
        # A plain text goes on over lines that are further in.
        return _plain(" ".join([first, *(line for _, line in inside)]))
    if inside and inside[0][1].startswith("- "):
        return [_plain(line[2:]) for deep, line in inside if deep == inside[0][0] and line.startswith("- ")]
    if inside and not KEY.match(inside[0][1]):
        return _plain(" ".join(line for _, line in inside))
    return _mapping(block)


def _plain(text: str) -> str:
    """A text, with or without quotes, without the comment behind it."""
    found = QUOTED.match(text.strip())
    if not found:
        return re.sub(r"\s+#.*$", "", text.strip())
    inner = found[1][1:-1]
    return inner.replace("''", "'") if found[1][0] == "'" else inner.replace('\\"', '"').replace("\\\\", "\\")


def _flow(text: str) -> list[str]:
    """`["a", 'b', c]`."""
    inner = text[1 : text.rindex("]")] if "]" in text else text[1:]
    try:
        return [str(member) for member in json.loads(f"[{inner}]")]
    except ValueError:
        parts = re.findall(r""""(?:\\.|[^"\\])*"|'[^']*'|[^,\s][^,]*""", inner)
        return [_plain(part) for part in parts]
