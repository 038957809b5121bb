"""What an option is: its names, its kind, and how a text becomes its value.

Knows: kinds and their words. Does not know: which options there are (`settings.py`).
"""

from __future__ import annotations

from forehand.digits import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Option:
    """One option: `kind` is str, int, bool, size, time, list, choice, count or workers. `brief` is what the short help
    says of it; without one only the long help has it. `bare` is the value of a flag that is given without one, and of
    `true` in a file; `off` that of `--no-…` and `false`. Of a list, `split` makes its members of a text and `tables` of
    what a file has, where commas and pairs would not do."""

    __slots__ = (
        "aliases",
        "bare",
        "brief",
        "check",
        "choices",
        "default",
        "group",
        "help",
        "kind",
        "metavar",
        "name",
        "off",
        "split",
        "tables",
    )

    def __init__(
        self,
        name: str,
        kind: str,
        default: Any,
        group: str,
        help: str,
        *,
        metavar: str = "",
        aliases: tuple[str, ...] = (),
        choices: tuple[str, ...] = (),
        check: Callable[[Any], object] | None = None,
        brief: str = "",
        bare: str = "",
        off: str = "",
        split: Callable[[str], list[str]] | None = None,
        tables: Callable[[Any], list[Any]] | None = None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.group = group
        self.help = help
        self.metavar = metavar or {"int": "N", "size": "BYTES", "time": "SECONDS", "choice": "NAME"}.get(kind, "TEXT")
        self.aliases = aliases
        self.choices = choices
        self.check = check
        self.brief = brief
        self.bare = bare
        self.off = off
        self.split = split
        self.tables = tables

    @property
    def flag(self) -> str:
        """The long flag."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """The environment variable."""
        return "FOREHAND_" + self.name.upper()

    @property
    def keys(self) -> tuple[str, ...]:
        """The names that a TOML file may use: its own first, then those of its long aliases. Each is a variable
        too, behind `FOREHAND_` and in capitals."""
        others = [alias[2:].replace("-", "_") for alias in self.aliases if alias.startswith("--")]
        return (self.name, *others)

    def parse(self, text: str) -> Any:
        """The value of a text from the command line or the environment. ValueError says what is allowed."""
        return self.validated((self.split or PARSERS[self.kind])(text))

    def validated(self, value: Any) -> Any:
        """A value of the right type, if it is one that can be used."""
        types: dict[str, type] = {"str": str, "choice": str, "list": list, "bool": bool}
        expected: Any = types.get(self.kind, (int, float))
        if self.tables is not None:
            value = self.tables(value)
        if isinstance(value, dict) and self.kind == "list":
            # A table in TOML: its pairs.
            value = [f"{key}={member}" for key, member in value.items()]
        if isinstance(value, str) and self.kind != "str" and self.kind != "choice":
            value = PARSERS[self.kind](value)
        if value == "auto" and self.kind in ("count", "workers"):
            return value
        if self.bare and isinstance(value, bool):
            value = self.bare if value else self.off
        good = isinstance(value, expected) and (self.kind == "bool" or not isinstance(value, bool))
        if not good and self.kind == "list" and isinstance(value, (int, float)) and not isinstance(value, bool):
            raise ValueError(f'{value!r} is a number, and text is wanted: "{value}"')
        if not good and self.kind == "str" and isinstance(value, int) and not isinstance(value, bool):
            # Not which text: 0o660 is 432 here.
            raise ValueError(f"{value} is a number, and text in quotes is wanted")
        if not good:
            raise ValueError(f"{value!r} is not {WORDS[self.kind]}")
        if self.kind in ("int", "size", "time", "count", "workers") and value < 0:
            raise ValueError(f"{value!r} is below zero")
        if self.kind in ("int", "size", "count", "workers") and value != int(value):
            raise ValueError(f"{value!r} is not a whole number")
        if self.choices and self.kind == "choice" and value.lower() in self.choices:
            # `INFO`, as the logging module has it, is `info`.
            value = value.lower()
        for member in value if self.kind == "list" else [value]:
            if self.kind == "list" and not isinstance(member, str):
                raise ValueError(f"{member!r} is not text")
            if self.choices and member not in self.choices:
                from forehand.errors import near

                raise ValueError(
                    f"'{member}' is none of {', '.join(self.choices)}{near(member.lower(), list(self.choices))}"
                )
        if self.check is not None:
            self.check(value)
        return value


WORDS = {
    "str": "text",
    "choice": "one of the names",
    "int": "a whole number",
    "bool": "true or false",
    "size": "a size such as 65536, 64K, 1M or 1G",
    "time": "a time such as 30, 0.5, 30s or 500ms",
    "list": "a list of names",
    "count": "a whole number or 'auto'",
    "workers": "a number of processes or 'auto'",
}


def joined(value: Any) -> Any:
    """Of a text that has commas between its members, what a file may have in its place: a list."""
    return ",".join(value) if isinstance(value, list) and all(isinstance(one, str) for one in value) else value


def _int(text: str) -> int:
    try:
        return int(number(text))
    except ValueError:
        raise ValueError(f"'{text}' is not {WORDS['int']}") from None


def _bool(text: str) -> bool:
    known = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if text.lower() not in known:
        raise ValueError(f"'{text}' is not {WORDS['bool']}")
    return known[text.lower()]


def _scaled(text: str, units: dict[str, float], words: str) -> float:
    digits = text.strip().rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = text.strip()[len(digits) :].lower()
    try:
        amount = float(number(digits, float))
    except ValueError:
        raise ValueError(f"'{text}' is not {words}") from None
    if unit not in units or amount != amount or amount in (float("inf"), float("-inf")):
        raise ValueError(f"'{text}' is not {words}")
    return amount * units[unit]


SIZES: dict[str, float] = {
    "": 1,
    "b": 1,
    "k": 1 << 10,
    "kb": 1 << 10,
    "kib": 1 << 10,
    "m": 1 << 20,
    "mb": 1 << 20,
    "mib": 1 << 20,
}
SIZES.update({"g": 1 << 30, "gb": 1 << 30, "gib": 1 << 30})
TIMES: dict[str, float] = {"": 1, "s": 1, "ms": 0.001, "m": 60, "min": 60, "h": 3600}


def _size(text: str) -> int:
    return int(_scaled(text, SIZES, WORDS["size"]))


def _time(text: str) -> float:
    return _scaled(text, TIMES, WORDS["time"])


def _auto(kind: str) -> Callable[[str], int | str]:
    """A number of such a kind, or `auto`."""

    def parse(text: str) -> int | str:
        try:
            return "auto" if text.strip().lower() == "auto" else int(number(text))
        except ValueError:
            raise ValueError(f"'{text}' is not {WORDS[kind]}") from None

    return parse


def _list(text: str) -> list[str]:
    return [member.strip() for member in text.split(",") if member.strip()]


PARSERS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "choice": str,
    "int": _int,
    "bool": _bool,
    "size": _size,
    "time": _time,
    "list": _list,
    "count": _auto("count"),
    "workers": _auto("workers"),
}
