"""Configuration files: TOML as it is read, and as it is written.

Knows: where in a file our settings stand. Does not know: what they are called.
"""

from __future__ import annotations

import os

from forehand import errors
from forehand.errors import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def read(path: str) -> str:
    """The text of a configuration file. Raises Problem."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise Problem(errors.CONFIG, f"the configuration file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise Problem(errors.CONFIG, f"the configuration file {path} is not TOML, which is UTF-8: {error}") from None


def table(path: str, text: str) -> dict[str, Any] | None:
    """The options in a file; None where it is a pyproject.toml without ours. Raises Problem."""
    try:
        import tomllib
    except ImportError:  # Python 3.10
        import tomli as tomllib  # type: ignore[import-not-found,no-redef]
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        hint = ""
        if not path.endswith(".toml"):
            hint = f"another server's configuration is translated: forehand migrate {path} > forehand.toml"
        elif str(error).startswith("Invalid value"):
            # What is not quoted is no value, unless it is a number, a word such as true, a list or a table.
            hint = 'texts stand in quotes: application = "shop.wsgi"'
        raise Problem(errors.CONFIG, f"{path} is not TOML: {error}", hint=hint) from None
    if os.path.basename(path) == "pyproject.toml":
        table = document.get("tool", {}).get("forehand")
        return dict(table) if isinstance(table, dict) else None
    for name, inner in (("forehand", document.get("forehand")), ("tool.forehand", document.get("tool"))):
        if isinstance(inner, dict):
            raise Problem(
                errors.CONFIG,
                f"{path}: options stand at the top of this file, and not below [{name}]",
                hint="take that line out; [tool.forehand] is for pyproject.toml",
            )
    return document


def literal(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, list):
        return "[" + ", ".join(literal(member) for member in value) + "]"
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return '"' + "".join(escapes.get(c, c if c.isprintable() else _escaped(c)) for c in str(value)) + '"'


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}"


def write(text: str) -> None:
    """A document to standard output: in UTF-8, as TOML is, whatever the locale, but for a terminal, which has its own
    characters."""
    import sys

    encoding = sys.stdout.encoding if sys.stdout.isatty() else "utf-8"
    data = text.encode(encoding, errors="backslashreplace")
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
