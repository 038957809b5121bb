"""Lines for people, from the supervisor and from workers' own lives.

Knows: what is grave enough. Does not know: who reads. A log that cannot be written, such as on a full disk or into a
pipe that nobody empties, must stop nothing.
"""

from __future__ import annotations

from forehand import _core, lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50, "plain": 60}
threshold = LEVELS["info"]
form = lines.PLAIN
#: How long a line waits for room; behind one that has got none the next ones do not wait.
PATIENCE_MS = 500
#: Lines that have got none since the last one that was written.
lost = 0
#: Why the last line could not be written; empty: it was.
failure = ""
#: Where lines go instead of descriptor 2, with their level: Python's logging, where it is configured.
redirect: Callable[[str, str], None] | None = None


def is_debug() -> bool:
    """Whether somebody wants to know why (`--log-level debug`): asked before anything is made into words."""
    return threshold <= LEVELS["debug"]


def write(level: str, text: str) -> None:
    """One line, or several of one matter; `plain` has no stamp, for what an operator typed, unless programs read."""
    if LEVELS[level] < threshold:
        return
    if redirect is not None:
        redirect("info" if level == "plain" else level, text)
        return
    if level == "plain" and form != lines.JSON:
        line = f"{text}\n"
    else:
        line = lines.line(form, "info" if level == "plain" else level, text)
    put(line)


def fail(text: str) -> None:
    """Why the server ends before it has begun, maybe behind a traceback. Standard error has it in any case: whoever has
    started it looks there."""
    trace, found, rest = text.rpartition("\nforehand: ")
    if redirect is not None:
        redirect("critical", text)
    if form == lines.JSON:
        put(lines.line(form, "critical", f"forehand: {rest}" if found else text, trace))
    else:
        put(f"{text}\n")


def put(text: str) -> None:
    """What ends with its line, into standard error: whole, unless nobody makes room there, when it is counted."""
    global lost, failure
    line = text.encode(errors="backslashreplace")
    if lost:
        were = "line was" if lost == 1 else "lines were"
        line = lines.line(form, "warning", f"{lost} {were} lost here: nobody read them").encode() + line
    try:
        _core.write_within(2, line, 0 if lost else PATIENCE_MS)
    except TimeoutError:
        lost += 1
    except OSError as error:
        # There is nowhere to say so, but to who asks for the status.
        failure = (error.strerror or str(error)).partition(" (os error")[0]
    else:
        lost, failure = 0, ""


def set_up(plan: dict[str, Any]) -> None:
    """The least grave level that is written, and how lines look."""
    global threshold, form
    threshold = LEVELS[plan["log_level"]]
    form = lines.form(plan["log_format"], plan["log_colors"])
