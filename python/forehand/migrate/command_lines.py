"""Command lines: which server they start, and with which options.

Knows: shells' quoting, assignments before a command, what people put before a server's name, and how flags
are written. Does not know: what a flag of a server means; the servers' own files do.
"""

from __future__ import annotations

import os
import re
import shlex

from forehand import errors
from forehand.errors import Problem, near

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.S)
# Words that stand before a command and run it. Of those with a number that many words belong to them.
BEFORE = {
    "exec": 0, "env": 0, "nohup": 0, "sudo": 0, "time": 0, "nice": 0, "ionice": 0, "dumb-init": 0, "tini": 0,
    "catchsegv": 0, "ddtrace-run": 0, "opentelemetry-instrument": 0, "poetry": 1, "pipenv": 1, "uv": 1, "pdm": 1,
    "hatch": 1, "rye": 1, "conda": 1, "newrelic-admin": 1, "honcho": 1, "doppler": 1, "xvfb-run": 0, "chpst": 0,
}  # fmt: skip
PYTHON = re.compile(r"python[\d.]*$|pypy[\d.]*$")


class Command:
    """A server's name, the path it was called by, its words, and the variables that are known."""

    __slots__ = ("environment", "folder", "name", "path", "words")

    def __init__(self, path: str, words: list[str], environment: Mapping[str, str]) -> None:
        self.path = path
        self.name = os.path.basename(path)
        self.words = words
        self.environment = environment
        self.folder = "."  # where it is started


def split(line: str) -> list[str]:
    """The words of a line, as a shell would find them. Raises Problem."""
    try:
        return shlex.split(line.replace("\\\n", " "), comments=False)
    except ValueError as error:
        raise Problem(errors.USAGE, f"the command line {line!r} cannot be read: {error}") from None


def commands(line: str, known: dict[str, str], servers: list[str]) -> list[Command]:
    """The commands in a line that start one of the servers; a line may have several, after && or ;
    What the line exports or assigns is added to `known`, for the lines after it."""
    found: list[Command] = []
    for words in _parts(split(line)):
        command = _command(words, known, servers)
        if command:
            found.append(command)
    return found


def _parts(words: list[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for word in words:
        ends = word in ("&&", "||", ";", "|", "&") or word.endswith(";")
        # An empty word is one that stands in quotes: a flag's value.
        if word.rstrip(";") not in ("", "&&", "||", "|", "&") or not word:
            parts[-1].append(word.rstrip(";") if word.endswith(";") else word)
        if ends:
            parts.append([])
    return [part for part in parts if part]


def _command(words: list[str], known: dict[str, str], servers: list[str]) -> Command | None:
    rest = list(words)
    own = dict(known)
    while rest:
        word = rest.pop(0)
        assigned = ASSIGNMENT.fullmatch(word)
        name = os.path.basename(word)
        if word == "export" and rest and not own.keys() - known.keys():
            known.update({found[1]: found[2] for found in map(ASSIGNMENT.fullmatch, rest) if found})
            return None
        if assigned and "/" not in assigned[1]:
            own[assigned[1]] = assigned[2]
        elif name in ("sh", "bash", "dash") and rest[:1] and re.fullmatch(r"-\w*c", rest[0]) and len(rest) > 1:
            inner = commands(rest[1], own, servers)
            return inner[0] if inner else None
        elif PYTHON.match(name) and "-m" in rest:
            module, rest = rest[rest.index("-m") + 1 : rest.index("-m") + 2], rest[rest.index("-m") + 2 :]
            beside = os.path.dirname(word)
            return Command(os.path.join(beside, module[0]), rest, own) if module and module[0] in servers else None
        elif server(name, servers):
            return Command(os.path.join(os.path.dirname(word), server(name, servers)), rest, own)
        elif name in BEFORE:
            del rest[: BEFORE[name]]
            while rest and rest[0].startswith("-"):
                rest.pop(0)
        elif not any(server(os.path.basename(later), servers) for later in rest):
            # What runs the server may be anything that is not listed; what starts none is no server.
            break
    # Assignments alone, such as an environment file's line.
    if all(ASSIGNMENT.fullmatch(word) for word in words):
        known.update(own)
        if "GUNICORN_CMD_ARGS" in own and "gunicorn" in servers:
            return Command("gunicorn", [], own)
    return None


def server(name: str, servers: list[str]) -> str:
    """The server that a program's name stands for: `gunicorn3` and `uwsgi_python3` are ones; or nothing."""
    for known in servers:
        if name == known or re.fullmatch(re.escape(known) + r"(-core|_python\w*|[\d.]+|-[\d.]+)", name):
            return known
    return ""


class Grammar:
    """How a server writes its flags: those with a value (its name in the table), and switches (a name and what
    they say). A long flag may be shortened as long as it stays the only one, as argparse and optparse have it."""

    def __init__(
        self,
        valued: Mapping[str, str],
        switches: Mapping[str, tuple[str, object]],
        *,
        bare: tuple[str, ...] = (),
        pairs: tuple[str, ...] = (),
    ) -> None:
        self.valued = valued
        self.switches = switches
        self.bare = bare  # flags whose value may be missing
        self.pairs = pairs  # flags with two values

    def read(self, words: list[str]) -> tuple[list[tuple[str, object]], list[str], list[str]]:
        """(name, value) of each flag in order, the other words, and the flags that nobody knows."""
        given: list[tuple[str, object]] = []
        others: list[str] = []
        unknown: list[str] = []
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word == "--":
                return given, others + rest, unknown
            if not word.startswith("-") or word == "-":
                others.append(word)
                continue
            flag, equals, value = self._parted(word, rest)
            if flag in self.switches:
                given.append(self.switches[flag])
            elif flag in self.bare:
                given.append((self.valued[flag], value if equals else True))
            elif flag in self.valued:
                if not equals and not rest:
                    raise Problem(errors.USAGE, f"{flag} has no value in the command line that was given")
                value = value if equals else rest.pop(0)
                if flag in self.pairs and rest:
                    value += " " + rest.pop(0)
                given.append((self.valued[flag], value))
            else:
                # A word that follows an unknown flag is more likely its value than a target.
                own = not equals and len(rest) > 1 and not rest[0].startswith("-")
                unknown.append(f"{word} {rest.pop(0)}" if own else word)
        return given, others, unknown

    def _parted(self, word: str, rest: list[str]) -> tuple[str, str, str]:
        if not word.startswith("--") and len(word) > 2:
            flag = word[:2]
            if flag in self.switches:
                rest.insert(0, "-" + word[2:])  # -Rw 4
                return flag, "", ""
            # -w4, and -w=4, which argparse reads as 4 too
            return (flag, "=", word[2:].removeprefix("=")) if flag in self.valued else (word, "", "")
        flag, equals, value = word.partition("=")
        known = [*self.valued, *self.switches]
        if flag not in known and len(flag) > 3:
            longer = [name for name in known if name.startswith(flag)]
            flag = longer[0] if len(longer) == 1 else flag
        return flag, equals, value

    def nearest(self, flag: str) -> str:
        """`; did you mean ...?` for an unknown flag."""
        return near(flag.split("=")[0].split(" ")[0], [*self.valued, *self.switches])
