"""Writes docs/settings.md from the table of options, to standard output."""

from __future__ import annotations

from typing import Any

from forehand.option import Option
from forehand.settings import GROUPS, OPTIONS


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
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
