"""Writes docs/settings.md from the table of options and the engine's counters, to standard output."""

from __future__ import annotations

import re
from typing import Any

from forehand import _core
from forehand.option import Option
from forehand.settings import COUNTED, GROUPS, LIMITS, OPTIONS


def _default(option: Option) -> str:
    value: Any = ",".join(option.default) if option.kind == "list" else option.default
    if isinstance(value, bool):
        return "on" if value else "off"
    if option.kind == "time":
        return f"{value:g} s"
    if option.kind == "size" and value:
        for unit, size in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
            if value % size == 0:
                return f"{value // size}{unit}"
    return str(value) if value != "" else "none"


def page() -> str:
    """The whole page."""
    lines = [
        "# Settings",
        "",
        "Made by `make docs` from the table of options (`python/forehand/settings.py`, `crates/wire/src/limits.rs`).",
        "",
        "Each option is a flag, a variable and a TOML key: `--access-log`, `FOREHAND_ACCESS_LOG`, `access_log`. The",
        "command line takes precedence, then variables, then `forehand.toml` or `[tool.forehand]` of `pyproject.toml`.",
    ]
    for group, words in GROUPS.items():
        lines += [
            "",
            f"## {group}",
            "",
            words[0].upper() + words[1:] + ".",
            "",
            "| option | default | |",
            "| --- | --- | --- |",
        ]
        for option in OPTIONS.values():
            if option.group == group:
                names = ", ".join(f"`{flag}`" for flag in (option.flag, *option.aliases))
                help_ = option.help.replace("|", "\\|")
                lines.append(f"| {names} | {_default(option)} | {help_} |")
    lines += _counters()
    return "\n".join(lines) + "\n"


def _counters() -> list[str]:
    """What happens how often, and which limits that shows."""
    limits: dict[str, list[str]] = {}
    for name, counters in COUNTED.items():
        for counter in counters:
            limits.setdefault(counter, []).append(f"`{LIMITS[name].flag}`")
    # Which limit it belongs to has a column of its own.
    told = {name: re.sub(r" \([^()]*`[^()]*\)", "", meaning) for name, meaning in _core.counters()}
    told |= {name: "Requests and connections refused for this reason." for name in limits if name not in told}
    return [
        "",
        "## Counters",
        "",
        "Each worker counts from its start. `forehand status` shows the counters of limits that were reached, summed",
        "and by worker, `--verbose` all of them, `--json` all for programs; `forehand.Server.counters()` has those of",
        "a server inside a program. Refusals have a counter for each reason, such as",
        '`http_parse_errors_total{reason="bad-host"}`, which appears with the first of them.',
        "",
        "| counter | counts | limits |",
        "| --- | --- | --- |",
        *(f"| `{name}` | {meaning} | {', '.join(limits.get(name, ()))} |" for name, meaning in told.items()),
    ]


if __name__ == "__main__":
    print(page(), end="")
