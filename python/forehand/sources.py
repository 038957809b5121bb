"""Where settings come from: command line, environment, TOML, defaults, in this order.

Knows: how each is read and how its mistakes are told. Does not know: what an option does.
"""

from __future__ import annotations

import os

from forehand import errors
from forehand.errors import Problem, near
from forehand.settings import OPTIONS, Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FILES = ("forehand.toml", "pyproject.toml")


def gather(given: dict[str, Any], config: str | None, folder: str) -> Settings:
    """The settings in force. `given`: from the command line, judged. `config`: a file that was
    named; otherwise `forehand.toml` or `[tool.forehand]` of pyproject.toml in `folder`.

    Raises Problem for what cannot be used.
    """
    settings = Settings()
    _from_file(settings, config, folder)
    _from_environment(settings)
    for name, value in given.items():
        settings.put(name, value, "command line")
    return settings


def _from_environment(settings: Settings) -> None:
    known = {option.variable: option for option in OPTIONS.values()}
    if os.environ.get("WEB_CONCURRENCY"):
        # What platforms set for any server.
        try:
            settings.put("workers", OPTIONS["workers"].parse(os.environ["WEB_CONCURRENCY"]), "WEB_CONCURRENCY")
        except ValueError as error:
            raise Problem(errors.USAGE, f"the variable WEB_CONCURRENCY: {error}") from None
    for variable in sorted(os.environ):
        if not variable.startswith("FOREHAND_"):
            continue
        option = known.get(variable)
        if option is None:
            raise Problem(
                errors.USAGE,
                f"the variable {variable} names no option{near(variable, list(known))}",
                hint="unset it, or see `forehand --help` for the options; each is FOREHAND_ and its name",
            )
        try:
            settings.put(option.name, option.parse(os.environ[variable]), variable)
        except ValueError as error:
            raise Problem(errors.USAGE, f"the variable {variable}: {error}", hint=option.help) from None


def _from_file(settings: Settings, config: str | None, folder: str) -> None:
    candidates = [config] if config else [os.path.join(folder, name) for name in FILES]
    for path in candidates:
        if config is None and not os.path.isfile(path):
            continue
        table = _table(path, _read(path))
        if table is not None:
            for key, value in table.items():
                _put(settings, path, key, value)
            return


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(errors.CONFIG, f"the configuration file {path} cannot be read: {error}") from None


def _table(path: str, text: str) -> dict[str, Any] | None:
    """The options in a file; None where it is a pyproject.toml without ours."""
    try:
        import tomllib
    except ImportError:  # Python 3.10
        import tomli as tomllib  # type: ignore[import-not-found,no-redef]
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Problem(errors.CONFIG, f"{path} is not TOML: {error}") from None
    if os.path.basename(path) == "pyproject.toml":
        table = document.get("tool", {}).get("forehand")
        return dict(table) if isinstance(table, dict) else None
    return document


def _put(settings: Settings, path: str, key: str, value: Any) -> None:
    name = key.replace("-", "_")
    where = f"{path}:{_line(path, key)}"
    option = OPTIONS.get(name)
    if option is None:
        raise Problem(
            errors.CONFIG,
            f"{where}: '{key}' is no option{near(name, list(OPTIONS))}",
            hint="the keys are the options' names with underscores; see `forehand --print-config`",
        )
    try:
        settings.put(name, option.judge(value), where)
    except ValueError as error:
        raise Problem(errors.CONFIG, f"{where}: {key}: {error}", hint=option.help) from None


def _line(path: str, key: str) -> int:
    """The line of a key, for messages; tomllib does not tell."""
    section = os.path.basename(path) != "pyproject.toml"
    for number, line in enumerate(_read(path).splitlines(), 1):
        text = line.strip()
        if text.startswith("["):
            section = text == "[tool.forehand]" or os.path.basename(path) != "pyproject.toml"
        elif section and text.partition("=")[0].strip().strip("\"'") == key:
            return number
    return 1


def as_toml(settings: Settings) -> str:
    """All settings as a TOML file that means the same, with the source of each."""
    lines: list[str] = []
    group = ""
    for name, option in OPTIONS.items():
        if option.group != group:
            group = option.group
            lines += ["", f"# {group}"] if lines else [f"# {group}"]
        value = settings[name]
        if name in ("host", "port") and settings.sources[name] == "default":
            continue
        lines.append(f"{name} = {_literal(value)}  # {settings.sources[name]}")
    return "\n".join(lines) + "\n"


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, list):
        return "[" + ", ".join(_literal(member) for member in value) + "]"
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return '"' + "".join(escapes.get(c, c if c.isprintable() else f"\\u{ord(c):04x}") for c in str(value)) + '"'
