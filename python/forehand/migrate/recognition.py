"""What was given: which server's configuration, in which form; and from there to its settings.

Knows: names and looks of files, and which file here knows which server. Does not know: any option.
"""

from __future__ import annotations

import glob
import os
import re
import shlex

from forehand import errors
from forehand.errors import Problem
from forehand.migrate import (
    compose,
    daphne,
    fastapi,
    granian,
    gunicorn,
    gunicorn_file,
    gunicorn_flags,
    hypercorn,
    mod_wsgi,
    service,
    supervisord,
    unit,
    uvicorn,
    uwsgi,
    uwsgi_file,
    waitress,
)
from forehand.migrate.command_lines import Command, commands, split
from forehand.migrate.outcome import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Those whose every option is a flag.
FLAGGED = {
    "granian": granian.translate,
    "uvicorn": uvicorn.translate,
    "waitress-serve": waitress.translate,
    "waitress": waitress.translate,
    "mod_wsgi-express": mod_wsgi.translate,
    "hypercorn": hypercorn.translate,
    "daphne": daphne.translate,
    "fastapi": fastapi.translate,
}
SERVERS = ["gunicorn", "uwsgi", *FLAGGED]
UNDERSTOOD = (
    "understood are gunicorn.conf.py, uWSGI's .ini, .yaml, .json and .xml, NGINX Unit's .json, Procfile, systemd's "
    ".service,\nDockerfile, docker-compose.yml, supervisord's .conf, shell scripts, and quoted command lines of "
    + ", ".join(SERVERS)
)


def recognised(source: str, folder: str, environment: Mapping[str, str]) -> Outcome:
    """What came of a file or a command line. Raises Problem for what is neither."""
    outcome = _recognised(source, folder, environment)
    outcome.finish()
    return outcome


def _recognised(source: str, folder: str, environment: Mapping[str, str]) -> Outcome:
    path = os.path.join(folder, source)
    bare, _, section = path.rpartition(":")
    if os.path.isfile(path):
        return _file(path, folder, environment)
    if bare.lower().endswith(uwsgi_file.FORMS) and os.path.isfile(bare):
        return _uwsgi(f"{bare}:{section}", environment)
    found = commands(source, dict(environment), SERVERS) if re.search(r"[\s=]", source) or source in SERVERS else []
    if found:
        return _command(found[0], folder)
    if os.path.isdir(path):
        raise Problem(errors.CONFIG, f"{source} is a folder", hint=UNDERSTOOD)
    words = source.split()
    if len(words) == 1:
        raise Problem(errors.CONFIG, f"there is no file {source}", hint=UNDERSTOOD)
    raise Problem(errors.USAGE, f"no server that is known here is started by: {source}", hint=UNDERSTOOD)


def _file(path: str, folder: str, environment: Mapping[str, str]) -> Outcome:
    name = os.path.basename(path).lower()
    form = os.path.splitext(name)[1]
    if form == ".json":
        config = unit.read(service.read(path), path)
        if not {"listeners", "applications", "routes", "settings"} & config.keys():
            return _uwsgi(path, environment)
        outcome = Outcome("NGINX Unit")
        unit.translate(outcome, config, path)
        return outcome
    if form in (".yml", ".yaml") and compose.is_one(text := service.read(path)):
        return _one_of(list(compose.services(text)), path, folder, environment)
    if form in (".ini", ".conf", ".cfg") and supervisord.is_one(text := service.read(path)):
        return _one_of(list(supervisord.programs(text, path)), path, folder, environment)
    if form in uwsgi_file.FORMS:
        return _uwsgi(path, environment)
    if form == ".py" or "gunicorn" in name and form in (".conf", ".config", ".cfg"):
        return _gunicorn_file(path, folder, environment)
    text = service.read(path)
    if form == ".service" or "\nExecStart=" in text:
        return _service(service.unit(text), path, folder, environment)
    if "dockerfile" in name or "containerfile" in name:
        return _service(service.dockerfile(text), path, folder, environment)
    if "procfile" in name:
        return _service(service.procfile(text), path, folder, environment)
    if form in (".sh", ".bash", ".env", "") or text.startswith("#!"):
        return _service(service.script(text), path, folder, environment)
    raise Problem(errors.CONFIG, f"{path}: this form is not known", hint=UNDERSTOOD)


def _gunicorn_file(path: str, folder: str, environment: Mapping[str, str]) -> Outcome:
    outcome = Outcome("gunicorn")
    names = gunicorn_file.executed(path, folder, environment)
    values = gunicorn_file.settings(names)
    extra, _, _ = gunicorn_flags.read_words(split(environment.get("GUNICORN_CMD_ARGS", "")))
    if not values and not any(name in names for name in gunicorn.HOOKS):
        raise Problem(errors.CONFIG, f"{path} sets none of gunicorn's settings", hint=UNDERSTOOD)
    gunicorn.translate(outcome, {**values, **extra})
    gunicorn_file.tell(outcome, path, names, set(extra))
    return outcome


def _gunicorn(command: Command, folder: str) -> Outcome:
    outcome = Outcome("gunicorn")
    given, others, unknown = gunicorn_flags.read_words(command.words)
    extra, _, more = gunicorn_flags.read_words(split(command.environment.get("GUNICORN_CMD_ARGS", "")))
    outcome.target = others[0] if others else ""
    named = {**extra, **given}.get("config")
    name = str(named or "gunicorn.conf.py").removeprefix("file:")
    path = os.path.join(folder, name)
    names: dict[str, object] = {}
    if name.startswith("python:"):
        path = os.path.join(folder, name.removeprefix("python:").replace(".", "/") + ".py")
        name = path if os.path.isfile(path) else name
    if name.startswith("python:"):
        outcome.unsupported("config", name, "this module is not here: give its file to `forehand migrate`")
    elif os.path.isfile(path):
        names = gunicorn_file.executed(path, folder, command.environment)
        outcome.read.append(name)
    elif named:
        raise Problem(errors.CONFIG, f"the command line names {name}, which is not in {os.path.abspath(folder)}",
                      hint="run `forehand migrate` where gunicorn is started")  # fmt: skip
    values = {**gunicorn_file.settings(names), **extra, **given}
    if outcome.about("config"):
        del values["config"]
    if "workers" not in values and command.environment.get("WEB_CONCURRENCY"):
        values["workers"] = command.environment["WEB_CONCURRENCY"]
    gunicorn.translate(outcome, values)
    if names:
        gunicorn_file.tell(outcome, path, names, {*extra, *given})
    if "bind" not in values:
        _port(outcome, command)
    uvicorn.tell_unknown(outcome, gunicorn_flags.GRAMMAR, [*unknown, *more])
    return outcome


def _port(outcome: Outcome, command: Command) -> None:
    """Without an address gunicorn listens everywhere on $PORT, where platforms give one."""
    if port := command.environment.get("PORT"):
        outcome.put("bind", [f"0.0.0.0:{port}"], "PORT")
    else:
        outcome.not_needed(
            "bind", "", "where the variable PORT is set it listens on all addresses at that port, here too"
        )


def _uwsgi(named: str, environment: Mapping[str, str], pairs: uwsgi_file.Pairs | None = None) -> Outcome:
    outcome = Outcome("uWSGI")
    reading = uwsgi_file.Reading("", environment)
    if named:
        reading.file(named)
        outcome.read += reading.files
    _emperor([*reading.found, *(pairs or [])], os.path.dirname(reading.files[0]) if reading.files else ".")
    uwsgi.translate(outcome, [*reading.found, *(pairs or [])], reading.placed)
    for option, value, reason in dict.fromkeys(reading.unclear):
        outcome.differs(option or "a placeholder", value, reason)
    return outcome


def _emperor(pairs: uwsgi_file.Pairs, folder: str) -> None:
    """Raise Problem for a file that starts others: each of those has a page of its own."""
    places = [value for key, value in pairs if key == "emperor"]
    if not places or any(key in uwsgi.TARGET for key, _ in pairs):
        return
    place = os.path.join(folder, places[0])
    pattern = os.path.join(place, "*") if os.path.isdir(place) else place
    vassals = [path for path in sorted(glob.glob(pattern)) if path.lower().endswith(uwsgi_file.FORMS)]
    lines = [f"forehand migrate {shlex.quote(path)} > {shlex.quote(_stem(path) + '.toml')}" for path in vassals]
    if not lines:
        lines = [f"for file in {shlex.quote(places[0])}/*.ini; do forehand migrate \"$file\" > "
                 '"$(basename "$file" .ini).toml"; done']  # fmt: skip
    raise Problem(errors.CONFIG, f"this is an emperor, which serves nothing itself: {places[0]} has its vassals",
                  hint="each becomes a forehand.toml and a service of its own (deploy/forehand.service):\n"
                  + "\n".join(lines))  # fmt: skip


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _uwsgi_command(command: Command, folder: str) -> Outcome:
    """uWSGI's own command line: every option is a flag, and a file is one too."""
    pairs: uwsgi_file.Pairs = []
    file = ""
    short = {"-s": "socket", "-p": "processes", "-w": "module", "-H": "home", "-M": "master", "-b": "buffer-size",
             "-l": "listen", "-d": "daemonize", "-t": "harakiri", "-z": "socket-timeout", "-L": "disable-logging",
             "-C": "chmod-socket", "-T": "enable-threads", "-R": "max-requests", "-i": "single-interpreter",
             "-x": "xml", "-y": "yaml", "-j": "json"}  # fmt: skip
    rest = list(command.words)
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.partition("=")
        if not word.startswith("-"):
            file = word if word.lower().partition(":")[0].endswith(uwsgi_file.FORMS) else file
            continue
        name = short.get(flag, flag.lstrip("-"))
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("-") else "true"
        if name in uwsgi_file.LOADS:
            file = value
        else:
            pairs.append((name, value))
    return _uwsgi(os.path.join(folder, file) if file else "", command.environment, pairs)


def _command(command: Command, folder: str) -> Outcome:
    if command.name == "gunicorn":
        outcome = _gunicorn(command, folder)
    elif command.name == "uwsgi":
        outcome = _uwsgi_command(command, folder)
    else:
        outcome = Outcome(command.name)
        command.folder = folder
        FLAGGED[command.name](outcome, command)
    if "/" in command.path and outcome.program == "forehand":
        outcome.program = os.path.join(os.path.dirname(command.path), "forehand")
    return outcome


def _one_of(
    found: list[tuple[str, service.Service]], path: str, folder: str, environment: Mapping[str, str]
) -> Outcome:
    """Of several services of a file the first that starts a server; the others that do are named."""
    chosen: Outcome | None = None
    for name, one in found:
        try:
            outcome = _service(one, path, folder, environment)
        except Problem as problem:
            if "starts a server" not in problem.args[0]:
                raise
            continue
        if chosen is None:
            chosen = outcome
        else:
            chosen.unsupported(
                name, outcome.target, "it starts a server too: give its command line to `forehand migrate`"
            )
    if chosen is None:
        raise Problem(errors.CONFIG, f"{path}: no service of this file starts a server that is known here",
                      hint="of an image the command is in its Dockerfile: forehand migrate Dockerfile")  # fmt: skip
    return chosen


def _places(found: service.Service, path: str, folder: str) -> list[str]:
    """Folders in which a file's command may be started, as they are on this machine, the likeliest first."""
    own = os.path.dirname(path) or os.curdir
    if found.kind in ("Procfile", "Dockerfile") or found.kind.startswith("Compose"):
        return [own, folder]
    declared = [value for name, value, _ in found.settings if name == "chdir" and os.path.isdir(value)]
    return [*declared, folder, own]


def _started_in(command: Command, places: list[str], folder: str) -> str:
    """The first of some folders that has a file which the command names, or reads unasked; `folder`: none has."""
    named = [word.partition("=")[2] or word for word in command.words]
    named = [name.removeprefix("file:").partition(":")[0] for name in named]
    if command.name == "gunicorn":
        named.append("gunicorn.conf.py")
    return next((place for place in places if any(os.path.isfile(os.path.join(place, one)) for one in named)), folder)


def _service(found: service.Service, path: str, folder: str, environment: Mapping[str, str]) -> Outcome:
    known = {**environment, **found.environment}
    for line in found.lines:
        try:
            here = commands(service.filled(line, found.environment), known, SERVERS)
        except Problem:
            continue  # a line of a script that goes on over several, or that is no command at all
        # Variables alone start nothing where a later line may start a server.
        if here and (here[0].words or line == found.lines[-1]):
            place = _started_in(here[0], _places(found, path, folder), folder)
            outcome = _command(here[0], place)
            found.tell(outcome)
            outcome.server = f"{found.kind}, {outcome.server}"
            return outcome
    raise Problem(
        errors.CONFIG, f"{path}: no line of this {found.kind} starts a server that is known here", hint=UNDERSTOOD
    )
