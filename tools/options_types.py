"""Writes python/forehand/typed.py from the table of options, to standard output."""

from __future__ import annotations

from forehand.option import Option, joined
from forehand.settings import OPTIONS

KINDS = {
    "str": "str", "int": "int", "bool": "bool", "size": "int | str", "time": "float | str", "list": "str | list[str]",
    "count": 'int | Literal["auto"]',
    "workers": 'int | Literal["auto"]',
}  # fmt: skip


def _kind(option: Option) -> str:
    if option.kind == "choice":
        return "Literal[" + ", ".join(f'"{choice}"' for choice in option.choices) + "]"
    if option.tables is joined:
        return KINDS["list"]
    if option.kind == "list" and (option.metavar == "PAIRS" or "=" in option.metavar):
        return KINDS["list"] + " | dict[str, Any]"
    return KINDS[option.kind] + (" | bool" if option.bare else "")


def module() -> str:
    """The whole module."""
    lines = [
        '"""The options of `forehand.serve` and `forehand.Server`, for editors and type checkers.',
        "",
        "Made by `make docs` from the one definition (`settings.py`). Sizes are bytes or a text such as `10M`; times",
        "are seconds or a text such as `500ms`.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Any, Literal, TypedDict",
        "",
        "",
        "class Options(TypedDict, total=False):",
        '    """All of them; docs/settings.md says what each is for."""',
        "",
    ]
    for option in OPTIONS.values():
        if option.name == "application":
            continue  # it is the argument
        lines += [f"    {key}: {_kind(option)}" for key in option.keys]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(module(), end="")
