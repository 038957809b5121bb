"""Where settings come from: command line, environment, TOML, what platforms set, defaults, in this order.

Knows: how each is read and how its mistakes are told. Does not know: what an option does.
"""

from __future__ import annotations

import os

from forehand import env_file, errors, toml
from forehand.errors import Problem, near
from forehand.settings import DEFAULT, FILE, GIVEN, OPTIONS, PLATFORM, VARIABLE, Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from forehand.option import Option

FILES = ("forehand.toml", "pyproject.toml")


def gather(given: dict[str, Any], config: str | None, folder: str) -> Settings:
    """The settings in force. `given`: from the command line, judged. `config`: a file that was
    named; otherwise `forehand.toml` or `[tool.forehand]` of pyproject.toml in `folder`.

    Raises Problem for what cannot be used.
    """
    settings = Settings()
    for name, value in given.items():
        settings.put(name, value, "command line", GIVEN)
    _from_file(settings, config, folder)
    _from_environment(settings, os.environ)
    take_env_file(settings, folder)
    return settings


def take_env_file(settings: Settings, folder: str) -> None:
    """The variables of `env_file`, for the server and for the application. Raises Problem."""
    if settings["env_file"]:
        settings.file_variables = env_file.variables(os.path.join(folder, settings["env_file"]))
        _from_environment(settings, settings.file_variables, f" in {settings['env_file']}")


#: What platforms set for any server, as gunicorn and uvicorn take them: only where nothing else sets the option.
PLATFORMS = {"WEB_CONCURRENCY": "workers", "PORT": "port", "FORWARDED_ALLOW_IPS": "forwarded_allow_ips"}


#: Variables of the lab and of the build, which somebody may have set for good.
OF_OTHERS = ("FOREHAND_LAB_", "FOREHAND_LOAD", "FOREHAND_WITHOUT_ENGINE", "FOREHAND_WITH_SYMBOLS")


def _from_environment(settings: Settings, environment: Mapping[str, str], where: str = "") -> None:
    known = {f"FOREHAND_{key.upper()}": option for option in OPTIONS.values() for key in option.keys}
    for variable, name in PLATFORMS.items():
        if environment.get(variable):
            _put_text(settings, OPTIONS[name], environment, variable, PLATFORM, where)
    for variable in sorted(environment):
        if not variable.startswith("FOREHAND_") or variable.startswith(OF_OTHERS):
            continue
        option = known.get(variable)
        if option is None:
            raise Problem(
                errors.USAGE,
                f"the variable {variable}{where} names no option{near(variable, list(known))}",
                hint=f"{'remove' if where else 'unset'} it, or see `forehand --help-all` for the options; each is "
                "FOREHAND_ and its name",
            )
        earlier = settings.sources[option.name]
        if settings.ranks[option.name] == VARIABLE and earlier != variable:
            if earlier in environment:
                named = f"the variables {earlier} and {variable}{where}"
                raise Problem(errors.USAGE, f"{named} are the same option: {'remove' if where else 'unset'} one")
            continue  # one that is set has its value before what a file says, by whatever name
        _put_text(settings, option, environment, variable, VARIABLE, where)


def _put_text(
    settings: Settings, option: Option, environment: Mapping[str, str], variable: str, rank: int, where: str
) -> None:
    try:
        settings.put(option.name, option.parse(environment[variable]), variable, rank)
    except ValueError as error:
        raise Problem(errors.USAGE, f"the variable {variable}{where}: {error}", hint=option.help) from None


def _from_file(settings: Settings, config: str | None, folder: str) -> None:
    candidates = [config] if config else [os.path.join(folder, name) for name in FILES]
    for path in candidates:
        if config is None and not os.path.isfile(path):
            continue
        table = toml.table(path, toml.read(path))
        if table is not None:
            taken: dict[str, str] = {}
            known = {name: option for option in OPTIONS.values() for name in option.keys}
            for key, value in table.items():
                _put(settings, (path, key), value, known, taken)
            return


def _put(
    settings: Settings, place: tuple[str, str], value: Any, known: dict[str, Option], taken: dict[str, str]
) -> None:
    """The value of a file's key. `known`: the options by their keys; `taken`: which key of this file has said each."""
    path, key = place
    name = key.replace("-", "_")
    where = f"{path}:{_line(path, key)}"
    option = known.get(name)
    if option is None:
        from forehand.migrate import other_servers

        raise Problem(
            errors.CONFIG,
            f"{where}: " + (other_servers.key(name, value) or f"'{key}' is not an option{near(name, list(known))}"),
            hint="the keys are the options' names with underscores; see `forehand --print-config`",
        )
    if option.name in taken:
        raise Problem(errors.CONFIG, f"{where}: '{key}' and '{taken[option.name]}' are the same option: name one")
    taken[option.name] = key
    try:
        settings.put(option.name, option.validated(value), where, FILE)
    except ValueError as error:
        from forehand.migrate import other_servers

        known_there = other_servers.choice(option, value, toml=True)
        raise Problem(errors.CONFIG, f"{where}: {known_there or f'{key}: {error}'}", hint=option.help) from None


def _line(path: str, key: str) -> int:
    """The line of a key, or of its table, for messages; tomllib does not tell."""
    ours = "tool.forehand." if os.path.basename(path) == "pyproject.toml" else ""
    table = ""
    for number, line in enumerate(toml.read(path).splitlines(), 1):
        text = line.strip()
        if text.startswith("["):
            table = text.strip("[]").partition("]")[0].strip() + "."
            names = table
        else:
            names = table + text.partition("=")[0].strip()
        first = names.removeprefix(ours).partition(".")[0].strip().strip("\"'")
        if names.startswith(ours) and first == key:
            return number
    return 1


def as_toml(settings: Settings) -> str:
    """All settings as a TOML file that means the same, with the source of each."""
    lines: list[str] = []
    # Of the two ways to name an address a file may have one.
    single = settings.ranks["bind"] < max(settings.ranks["host"], settings.ranks["port"])
    left_out = {"bind"} if single else {"host", "port"}
    if settings.ranks["port"] == DEFAULT:
        left_out.add("port")
    if not settings["tls_client_ca"]:
        # Where nobody is asked it would be a contradiction.
        left_out.add("tls_client_verify")
    for group in dict.fromkeys(option.group for option in OPTIONS.values()):
        lines += ["", f"# {group}"] if lines else [f"# {group}"]
        for name, option in OPTIONS.items():
            if option.group == group and name not in left_out:
                value = settings.single_host() if name == "host" else settings[name]
                lines.append(f"{name} = {toml.literal(value)}  # {settings.sources[name]}")
    return "\n".join(lines) + "\n"
