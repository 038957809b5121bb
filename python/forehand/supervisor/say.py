"""Lines for people, from the supervisor and from workers' own lives.

Knows: the form of a line, which is that of `server/log.rs`. Does not know: who reads. A log
that cannot be written, such as on a full disk, must stop nothing.
"""

from __future__ import annotations

import os
import time

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50, "plain": 60}
least = LEVELS["info"]


def say(level: str, text: str) -> None:
    """One line, or several of one matter; `plain` has no stamp, for what an operator typed."""
    if LEVELS[level] < least:
        return
    if level == "plain":
        line = f"{text}\n"
    else:
        now = time.time()
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now))
        line = f"{stamp}.{int(now % 1 * 1000):03d}Z [{os.getpid()}] {level}: {text}\n"
    try:
        os.write(2, line.encode(errors="backslashreplace"))
    except OSError:
        pass  # there is nowhere to say so


def set_level(name: str) -> None:
    """The least grave level that is told."""
    global least
    least = LEVELS[name]
