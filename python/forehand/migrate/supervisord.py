"""supervisord's files: the commands of programs, with their variables, folders and users. Facts: its documentation.

Knows: sections, and what %(here)s and its like stand for. Does not know: servers' flags.
"""

from __future__ import annotations

import os
import re

from forehand.migrate.command_lines import split
from forehand.migrate.service import Service

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SECTION = re.compile(r"^\[(?:fcgi-)?program:([^\]]+)\]", re.M)
KEPT = ("user", "autostart", "autorestart", "stdout_logfile", "stderr_logfile", "environment", "stopsignal",
        "stopwaitsecs")  # fmt: skip


def is_one(text: str) -> bool:
    """Whether a file has programs of supervisord's."""
    return SECTION.search(text) is not None


def programs(text: str, path: str) -> Iterator[tuple[str, Service]]:
    """The programs by name."""
    parts = re.split(r"^\[([^\]]+)\][^\n]*$", text, flags=re.M)
    for section, body in zip(parts[1::2], parts[2::2], strict=True):
        kind, _, name = section.partition(":")
        if kind not in ("program", "fcgi-program"):
            continue
        values = {key: _filled(value, name, path) for key, value in _options(body)}
        service = Service(f"supervisord program {name}")
        service.lines = [values.get("command", "")]
        for word in split(values.get("environment", "").replace(",", " ")):
            variable, equals, value = word.partition("=")
            if equals:
                service.environment[variable] = value
        for key, ours in (("directory", "chdir"), ("umask", "umask")):
            if values.get(key):
                service.settings.append((ours, values[key], key))
        if values.get("numprocs", "1") != "1":
            service.differing.append(("numprocs", values["numprocs"], "one server is enough: `workers` says how many "
                                      "processes it has, and numprocs = 1 goes with it"))  # fmt: skip
        service.remarks += [(key, values[key], "leave it with supervisord") for key in KEPT if key in values]
        yield name, service


def _options(body: str) -> Iterator[tuple[str, str]]:
    """Keys with values; lines that are further in go on, and `;` after a space begins a comment."""
    key, value = "", ""
    for line in body.splitlines():
        bare = re.sub(r"(^|\s);.*$", "", line)
        if not bare.strip() or bare.startswith("#"):
            continue
        if key and bare[:1].isspace():
            value += " " + bare.strip().rstrip("\\")
            continue
        if key:
            yield key, value
        key, _, value = (part.strip() for part in bare.partition("="))
        value = value.rstrip("\\")
    if key:
        yield key, value


def _filled(value: str, name: str, path: str) -> str:
    here = os.path.dirname(os.path.abspath(path))
    for word, text in (("here", here), ("program_name", name), ("process_num", "0"), ("group_name", name)):
        value = re.sub(rf"%\({word}\)\d*[sd]", lambda _, text=text: text, value)  # type: ignore[misc]
    # The variables of supervisord's own surroundings are the shell's here.
    return re.sub(r"%\(ENV_(\w+)\)s", r"${\1}", value).replace("%%", "%")
