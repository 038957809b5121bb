"""What a person has to mend, and how it is said: what was tried, what is wrong, what to do next.

Knows: the exit statuses and the nearest word. Does not know: who raises a problem.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

OK = 0
FAILED = 1
USAGE = 2
MISSING = 3
BUSY = 4
SYSTEM = 5
INTERRUPTED = 130

MEANINGS = {
    OK: "done",
    FAILED: "done, and something was found: a server that answers wrongly, a truth test that fails",
    USAGE: "the command line, a scenario or a record cannot be used",
    MISSING: "something is not installed and cannot be",
    BUSY: "another run is going on",
    SYSTEM: "the system does not let it: disk, ports, permissions",
    INTERRUPTED: "interrupted; what was measured is kept",
}


class Problem(Exception):
    """One clear line, and a hint. `status` is the exit status."""

    def __init__(self, status: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.hint = hint

    def text(self) -> str:
        """As it is printed."""
        return f"forehand lab: {self}" + (f"\n  {self.hint}" if self.hint else "")


def near(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest known word, or nothing."""
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean '{found[0]}'?" if found else ""
