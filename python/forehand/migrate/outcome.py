"""What came of a migration: settings, and a word about everything that is not among them.

Knows: our options, and which of them a value suits. Does not know: other servers.
Every value is judged by the table of options before it is taken, so that what is written loads.
"""

from __future__ import annotations

import re
import shlex

from forehand.errors import Problem
from forehand.listen import judge
from forehand.settings import OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    # What becomes of one option of another server: (outcome, the option's name there, its value).
    Rule = Callable[["Outcome", str, Any], None]

# Three ways in which an option does not simply become one of ours.
UNSUPPORTED = "No counterpart"
DIFFERENT = "Different here"
NOT_NEEDED = "Nothing to set"
KINDS = (UNSUPPORTED, DIFFERENT, NOT_NEEDED)

# Texts that each of their origins adds to.
GROWING = ("pythonpath",)

# A shell's variable, which a TOML file cannot have.
VARIABLE = re.compile(r"\$(\{[^}]*\}|\w+)")


class Remark:
    """A word about one option of the other server: which, of which value, and why."""

    __slots__ = ("kind", "option", "reason", "value")

    def __init__(self, kind: str, option: str, value: object, reason: str) -> None:
        self.kind = kind
        self.option = option
        self.value = value
        self.reason = reason

    def __repr__(self) -> str:
        return f"{self.kind}: {self.option} = {self.value!r}: {self.reason}"


class Outcome:
    """Settings with the option that each came from, remarks, the target, and how to start."""

    def __init__(self, server: str) -> None:
        self.server = server
        self.target = ""
        self.program = "forehand"
        self.settings: dict[str, Any] = {}
        self.origins: dict[str, str] = {}
        self.path_timeouts: dict[str, float] = {}
        self.flags: list[str] = []
        self.read: list[str] = []  # files that were read besides the one that was given
        self._given: list[tuple[str, str, str]] = []  # what the flags are of: our option, value, origin
        self.remarks: list[Remark] = []
        self.tls: dict[str, list[tuple[str, Any]]] = {}  # what was noted for `tls.py`, with its origin

    def take(self, rule: Rule, origin: str, value: Any) -> None:
        """Carry out a rule for a value that may be of a kind that the other server refuses too."""
        try:
            rule(self, origin, value)
        except (TypeError, ValueError, AttributeError) as error:
            self.unsupported(origin, value, f"this value cannot be read: {error}")

    def put(self, name: str, value: Any, origin: str) -> None:
        """Take a value for our option, or say why it cannot be taken. Lists grow; the rest is replaced.
        Of a value with a shell's variable the command line takes care: TOML has none."""
        option = OPTIONS[name]
        if isinstance(value, str) and option.kind != "str":
            value = value.strip()
        shell = value if isinstance(value, str) else ""
        if VARIABLE.search(shell) and option.kind != "bool":
            self._flag(name, shell, origin)
            self.differs(origin, value, f"TOML has no variables: {option.flag} is on the command line above")
            return
        try:
            if option.kind == "list":
                value = [*self.settings.get(name, []), *([value] if isinstance(value, str) else value)]
                value = list(dict.fromkeys(value))
            elif isinstance(value, str):
                value = option.parse(value)
            elif option.kind == "str":
                value = str(value)
            value = option.validated(value)
            _check_members(name, value)
        except ValueError as error:
            reason = f"{name} cannot have this value: {error}"
            if name == "bind":
                # Left out, the server would listen where nobody has asked it to.
                self._flag(name, shell or str(value[-1]), origin)
                reason += ". The command line above has it, and does not start until it is an address"
            self.unsupported(origin, value, reason)
            return
        if name in self.settings and option.kind != "list" and name not in GROWING and self.origins[name] != origin:
            # One key, fed twice.
            if self.settings[name] == value:
                origin = f"{self.origins[name]}, {origin}"
            else:
                reason = f"{name} can be set once, and {origin} has set it"
                for earlier in self.origins[name].split(", "):
                    self.unsupported(earlier, self.settings[name], reason)
        self.settings[name] = value
        seen = self.origins.get(name, "").split(", ") if option.kind == "list" else []
        self.origins[name] = ", ".join(dict.fromkeys([*filter(None, seen), origin]))

    def _flag(self, name: str, value: str, origin: str) -> None:
        """Let the command line give an option: its variables are for the shell, and nothing else of it is."""
        quoted = in_shell(value) if VARIABLE.search(value) else shlex.quote(value)
        self._given.append((name, value, origin))
        self.flags.append(f"{OPTIONS[name].flag} {quoted}")

    def finish(self) -> None:
        """When all is taken: one way to say where to listen, and one place for each list."""
        if "bind" in self.settings or any(name == "bind" for name, _, _ in self._given):
            self._drop("host", "port")
        self._agree()
        given = [name for name, _, _ in self._given if OPTIONS[name].kind == "list"]
        if {"tls_cert", "tls_key"} & set(given):
            # A key is that of the certificate at its place, so that both are in one list or the other.
            given += ["tls_cert", "tls_key"]
        for name in dict.fromkeys(given):
            # A list on the command line goes before the file's, and has to be whole.
            for value in self.settings.pop(name, []):
                self._flag(name, value, self.origins[name])
            self.origins.pop(name, None)
        for name, _, _ in self._given:
            if OPTIONS[name].kind != "list":
                self.settings.pop(name, None)
                self.origins.pop(name, None)

    def _agree(self) -> None:
        """Leave out what our settings refuse beside one another (`contradictions.py`), and say so."""
        doubled = [name for name in ("loop", "lifespan") if self.settings.get("interface") == "wsgi"]
        doubled += ["workers"] if self.settings.get("workers") == 0 else []
        doubled += ["interface"] if self.settings.get("worker_class") == "gevent" else []
        doubled += ["factory"] if self.target.endswith(")") else []
        for name in doubled:
            if name in self.settings:
                value = self.settings.pop(name)
                self.not_needed(self.origins.pop(name), value, f"{name} has no effect with the other options")

    def _drop(self, *names: str) -> None:
        """Leave out what the address that is bound goes before."""
        reason = "another option names the address, and takes precedence here as it does there"
        for name in names:
            for value in [self.settings.pop(name)] if name in self.settings else []:
                self.not_needed(self.origins.pop(name), value, reason)
            for given in [given for given in self._given if given[0] == name]:
                at = self._given.index(given)
                del self._given[at], self.flags[at]
                self.remarks = [remark for remark in self.remarks if remark.option != given[2]]
                self.not_needed(given[2], given[1], reason)

    def binds_unix(self) -> bool:
        """Whether an address is a unix socket's, in the file or on the command line."""
        given = [value for name, value, _ in self._given if name == "bind"]
        return any("unix:" in address for address in [*self.settings.get("bind", []), *given])

    def raise_limit(self, name: str, value: Any, origin: str) -> None:
        """Take a limit where it is wider than ours already is; 0 often means none, which we do not have."""
        own = OPTIONS[name].default
        try:
            wanted = OPTIONS[name].validated(value)
        except ValueError as error:
            self.unsupported(origin, value, f"{name} cannot have this value: {error}")
            return
        if not wanted:
            self.unsupported(origin, value, f"there is always a limit here; {name} is {own}")
        elif wanted > own:
            self.put(name, value, origin)
        else:
            self.not_needed(origin, value, f"{name} is {own} already")

    def unsupported(self, origin: str, value: object, reason: str) -> None:
        """This has no counterpart."""
        self.remarks.append(Remark(UNSUPPORTED, origin, value, reason))

    def differs(self, origin: str, value: object, reason: str) -> None:
        """This is taken, or taken care of, but means something else here."""
        self.remarks.append(Remark(DIFFERENT, origin, value, reason))

    def not_needed(self, origin: str, value: object, reason: str) -> None:
        """This needs nothing: it is so already, or there is nothing that it could change."""
        self.remarks.append(Remark(NOT_NEEDED, origin, value, reason))

    def took(self, name: str, origin: str) -> bool:
        """Whether our option has its value from there."""
        return origin in self.origins.get(name, "").split(", ")

    def took_any(self, origin: str) -> bool:
        """Whether any of our options has its value from there."""
        return any(origin in origins.split(", ") for origins in self.origins.values())

    def about(self, option: str) -> list[Remark]:
        """The remarks about an option of the other server."""
        return [remark for remark in self.remarks if remark.option == option]


def in_shell(value: str) -> str:
    """A value in quotes of a shell, which fills its variables in and runs nothing of it."""
    return '"' + re.sub(r'(["\\`]|\$(?!\{|\w))', r"\\\1", value) + '"'


def _check_members(name: str, value: Any) -> None:
    """What the table of options leaves to the start: addresses, and pairs of variables. ValueError."""
    for member in value if name in ("bind", "status_bind", "env") else []:
        if name == "env" and not member.partition("=")[1]:
            raise ValueError(f"'{member}' is not NAME=VALUE")
        if name != "env":
            try:
                judge(member)
            except Problem as problem:
                raise ValueError(problem.args[0]) from None


def same(name: str, remark: str = "") -> Rule:
    """A rule: our option has the same meaning, but for what the remark says."""

    def rule(outcome: Outcome, origin: str, value: Any) -> None:
        outcome.put(name, value, origin)
        if remark and outcome.took(name, origin):
            outcome.differs(origin, value, remark)

    return rule


def wider(name: str) -> Rule:
    """A rule: ours is the same limit, and wide enough for most."""
    return lambda outcome, origin, value: outcome.raise_limit(name, value, origin)


def bound(name: str, default: int) -> Rule:
    """A rule: ours is the same limit, and as narrow as somebody has chosen, who has not written their default down; 0
    means none, which we do not have."""

    def rule(outcome: Outcome, origin: str, value: Any) -> None:
        if int(value) in (0, default, OPTIONS[name].default):
            outcome.raise_limit(name, int(value), origin)
        else:
            outcome.put(name, value, origin)

    return rule


def unsupported(reason: str) -> Rule:
    """A rule: there is no counterpart, and what to do instead."""
    return lambda outcome, origin, value: outcome.unsupported(origin, value, reason)


def differs(reason: str) -> Rule:
    """A rule: nothing is set, and what is otherwise here."""
    return lambda outcome, origin, value: outcome.differs(origin, value, reason)


def not_needed(reason: str) -> Rule:
    """A rule: it is so already."""
    return lambda outcome, origin, value: outcome.not_needed(origin, value, reason)


def switch(on: Rule) -> Rule:
    """A rule for an option that says nothing where it is off, false or empty."""

    def rule(outcome: Outcome, origin: str, value: Any) -> None:
        if value and str(value).lower() not in ("0", "false", "no", "off", "none"):
            on(outcome, origin, value)

    return rule
