"""What came of a migration, as text: TOML that loads, and the remarks as comments in it.

Knows: how a forehand.toml looks. Does not know: where values came from.
The remarks stand in the file itself, so that whoever reads it next year finds them.
"""

from __future__ import annotations

import os
import shlex
import textwrap

from forehand.migrate.outcome import KINDS, VARIABLE, Outcome, in_shell
from forehand.toml import literal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

WIDTH = 110
VALUE = 60


def written(outcome: Outcome, source: str) -> str:
    """A forehand.toml for an outcome; `source` is what was migrated."""
    lines = [f"# Made by `forehand migrate` from {_sources(outcome, source)} ({outcome.server})."]
    lines += [f"# Start it with: {_start(outcome)}", ""]
    values = {name: f"{name} = {literal(value)}" for name, value in sorted(outcome.settings.items())}
    if _in_the_file(outcome):
        lines += [f"application = {literal(outcome.target)}"]
    column = min(40, max((len(text) for text in values.values()), default=0))
    for name, text in values.items():
        lines.append(f"{text:<{column}}  # {_shortened(outcome.origins[name])}")
    if not values and not _in_the_file(outcome):
        lines.append("# Nothing needs to be set: what was given is the default here.")
    if outcome.path_timeouts:
        lines += ["", "[request_timeouts]"]
        lines += [f"{literal(path)} = {literal(seconds)}" for path, seconds in sorted(outcome.path_timeouts.items())]
    for kind in KINDS:
        remarks = [remark for remark in outcome.remarks if remark.kind == kind]
        if remarks:
            lines += ["", f"# {kind}:"]
            for remark in remarks:
                lines += _wrapped(f"{remark.option}{_value(remark.value)}: {remark.reason}")
    # TOML has no control characters, not even in comments; in values they are escaped already.
    return "".join("".join(c if c.isprintable() else " " for c in line) + "\n" for line in lines)


def _start(outcome: Outcome) -> str:
    named = outcome.target or "MODULE:ATTRIBUTE"
    target = [] if _in_the_file(outcome) else [in_shell(named) if VARIABLE.search(named) else shlex.quote(named)]
    return " ".join([shlex.quote(outcome.program), *target, *outcome.flags])


def _in_the_file(outcome: Outcome) -> bool:
    """Whether the file can name the application: TOML has no variables."""
    return bool(outcome.target) and "application" not in outcome.settings and not VARIABLE.search(outcome.target)


def _sources(outcome: Outcome, source: str) -> str:
    """All that was read: what was given, and the files that it led to."""
    others = [name for name in dict.fromkeys(map(os.path.basename, outcome.read)) if name != os.path.basename(source)]
    return " and ".join([_shortened(source), *map(_shortened, others)])


def _value(value: object) -> str:
    return "" if value is None or isinstance(value, bool) or value in ("", "true") else f" = {_shortened(str(value))}"


def _shortened(text: str) -> str:
    """On one line, and not for ever: values may be whole dictionaries."""
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= VALUE else text[: VALUE - 1] + "…"


def _wrapped(text: str) -> Iterator[str]:
    return iter(textwrap.wrap(text, WIDTH, initial_indent="# - ", subsequent_indent="#   ", break_on_hyphens=False))
