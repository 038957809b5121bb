"""Writes python/forehand/typed.py from the table of options, to standard output; with the word `stub`
python/forehand/__init__.pyi, which has each option as a keyword: not every editor looks into a TypedDict."""

from __future__ import annotations

import sys

import forehand
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


def stub() -> str:
    """What editors see of the package: the same names, with all keywords spelled out."""
    options = [option for option in OPTIONS.values() if option.name != "application"]
    keywords = [f"        {key}: {_kind(option)} = ...," for option in options for key in option.keys]
    application = "application: str | Callable[..., Any],"
    lines = [
        '"""What editors and type checkers see of `forehand`: its public names, with every option as a keyword.',
        "",
        "Made by `make docs` from the one definition (`settings.py`).",
        '"""',
        "",
        "from collections.abc import Callable",
        "from typing import Any, Literal",
        "",
        "from forehand import embedded",
        "from forehand import errors as errors",
        "from forehand import logging as logging",
        "from forehand.current import request as request",
        "",
        "__version__: str",
        f"__all__ = {forehand.__all__!r}",
        "",
        "class RequestTimeout(BaseException): ...",
        "",
        "class Server(embedded.Server):",
        f"    def __init__(self, {application}",
        "        *,",
        *keywords,
        "    ) -> None: ...",
        "",
        f"def serve({application}",
        "    *,",
        *keywords,
        ") -> int: ...",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(stub() if sys.argv[1:] == ["stub"] else module(), end="")
