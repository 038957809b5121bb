"""Lines for people, from the supervisor and from workers' own lives.

Knows: what is grave enough. Does not know: who reads. A log that cannot be written, such as on a full disk, must stop
nothing.
"""

from __future__ import annotations

import os

from forehand import lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50, "plain": 60}
threshold = LEVELS["info"]
form = lines.PLAIN
#: Where lines go instead of descriptor 2, with their level: Python's logging, where it is configured.
redirect: Callable[[str, str], None] | None = None


def is_debug() -> bool:
    """Whether somebody wants to know why (`--log-level debug`): asked before anything is made into words."""
    return threshold <= LEVELS["debug"]


def write(level: str, text: str) -> None:
    """One line, or several of one matter; `plain` has no stamp, for what an operator typed."""
    if LEVELS[level] < threshold:
        return
    if redirect is not None and level != "plain":
        redirect(level, text)
        return
    line = f"{text}\n" if level == "plain" else lines.line(form, level, text)
    try:
        os.write(2, line.encode(errors="backslashreplace"))
    except OSError:
        pass  # there is nowhere to say so


def set_up(plan: dict[str, Any]) -> None:
    """The least grave level that is written, and how lines look."""
    global threshold, form
    threshold = LEVELS[plan["log_level"]]
    form = lines.form(plan["log_format"], plan["log_colors"])
