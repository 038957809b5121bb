"""Files with a server's command line in them: Procfile, systemd unit, shell script, Dockerfile.

Knows: where in such a file the command stands, and which variables and users the file gives it.
Does not know: servers' flags.
"""

from __future__ import annotations

import json
import re

from forehand import errors
from forehand.errors import Problem
from forehand.migrate.command_lines import split
from forehand.migrate.outcome import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


SOCKET = (
    "systemd opens what its ListenStream= names, and that is taken: bind names the same, or is left out; what it names "
    "beside is opened by the server itself"
)


class Service:
    """What a file says: lines that may start a server, and what goes with them."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.lines: list[str] = []
        self.environment: dict[str, str] = {}
        self.settings: list[tuple[str, str, str]] = []  # our option, value, where it is said
        self.remarks: list[tuple[str, str, str]] = []  # option, value, why
        self.differing: list[tuple[str, str, str]] = []  # the same, where the page needs a second look

    def tell(self, outcome: Outcome) -> None:
        """What the file itself adds to an outcome; the server's own options go before it."""
        for name, value, origin in self.settings:
            if name not in outcome.settings:
                outcome.put(name, value, origin)
        for option, value, reason in self.differing:
            outcome.differs(option, value, reason)
        for option, value, reason in self.remarks:
            outcome.not_needed(option, value, reason)


def joined(text: str) -> list[str]:
    """Lines without comments, where a backslash at the end goes on."""
    lines = re.sub(r"\\\n[ \t]*", " ", text).splitlines()
    return [line.strip() for line in lines if line.strip() and not line.strip().startswith(("#", ";"))]


def procfile(text: str) -> Service:
    """`web: COMMAND` and its like; web first."""
    service = Service("Procfile")
    named = [line.partition(":")[::2] for line in joined(text) if re.match(r"[\w-]+:", line)]
    for _, command in sorted(named, key=lambda pair: pair[0] != "web"):
        service.lines.append(command.strip())
    return service


def unit(text: str) -> Service:
    """The service of a systemd unit: ExecStart, Environment, User, WorkingDirectory."""
    service = Service("systemd unit")
    for line in joined(text):
        key, equals, value = (part.strip() for part in line.partition("="))
        if not equals:
            continue
        if key == "ExecStart" and value:
            command = value.lstrip("@-:+!").replace("%%", "\0")
            for specifier in dict.fromkeys(re.findall(r"%[a-zA-Z]", command)):
                reason = "systemd replaces it, and TOML has no such thing: write the value itself, or use a flag"
                service.differing.append((specifier, "", reason))
            service.lines.append(command.replace("\0", "%"))
        elif key == "Environment":
            for word in split(value):
                name, _, text = word.partition("=")
                service.environment[name] = text
                if name not in ("PATH", "VIRTUAL_ENV", "GUNICORN_CMD_ARGS"):
                    service.remarks.append((f"Environment={name}", "", "leave it in the unit"))
        elif key == "EnvironmentFile":
            service.remarks.append((key, value, "leave it in the unit; it is not read here"))
        elif key == "WorkingDirectory" and value != "~":
            service.settings.append(("chdir", value, key))
        elif key in ("Requires", "BindsTo", "Wants", "Sockets"):
            for name in (word for word in value.split() if word.endswith(".socket")):
                if not any(option == name for option, _, _ in service.differing):
                    service.differing.append((name, "", SOCKET))
        elif key in ("User", "Group"):
            service.remarks.append((key, value, "leave it in the unit: systemd changes to it before the server starts"))
        elif key == "KillSignal" and value.removeprefix("SIG") in ("QUIT", "3"):
            service.differing.append((key, value, "SIGQUIT stops at once, and running requests are cut off: take this "
                                      "line out, as SIGTERM lets them end"))  # fmt: skip
        elif key in ("ExecReload", "Type", "KillMode", "KillSignal", "PIDFile"):
            service.remarks.append((key, value, "deploy/forehand.service has what suits Forehand"))
    return service


def script(text: str) -> Service:
    """A shell script's lines; `export` and assignments count for those that follow."""
    service = Service("shell script")
    service.lines = joined(text)
    return service


def dockerfile(text: str) -> Service:
    """CMD and ENTRYPOINT of a Dockerfile, in both of their forms, with ENV and WORKDIR."""
    service = Service("Dockerfile")
    start: dict[str, str] = {}
    for line in joined(text):
        word, _, rest = line.partition(" ")
        if word.upper() in ("CMD", "ENTRYPOINT"):
            try:
                words = json.loads(rest)
                rest = " ".join(_quoted(part) for part in words)
            except ValueError:
                pass
            start[word.upper()] = rest
        elif word.upper() == "ENV":
            for pair in split(rest) if "=" in rest else [rest.strip().replace(" ", "=", 1)]:
                name, _, value = pair.partition("=")
                service.environment[name] = value
        elif word.upper() == "WORKDIR":
            service.settings.append(("chdir", rest.strip(), "WORKDIR"))
        elif word.upper() == "USER":
            service.remarks.append(("USER", rest, "leave it in the Dockerfile"))
    service.lines = [" ".join(filter(None, (start.get("ENTRYPOINT", ""), start.get("CMD", ""))))]
    return service


def _quoted(word: str) -> str:
    import shlex

    return shlex.quote(word) if "$" not in word else f'"{word}"'


def filled(line: str, environment: Mapping[str, str]) -> str:
    """A line with the variables filled in that the file itself gives; the rest stays for the shell."""

    def value(match: re.Match[str]) -> str:
        name = match[1].strip("{}")
        return environment.get(name, match[0])

    return re.sub(r"\$(\{\w+\}|\w+)", value, line)


def read(path: str) -> str:
    """A file's text. Raises Problem."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(errors.CONFIG, f"{path} cannot be read: {error}") from None
