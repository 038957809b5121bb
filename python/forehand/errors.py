"""What can go wrong before the first request, and with which exit status the process ends.

Knows: the causes. Does not know: how they are found.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

OK = 0
INTERNAL = 1
USAGE = 2
CONFIG = 3
APPLICATION = 4
ADDRESS = 5
PERMISSION = 6

MEANINGS = {
    OK: "stopped as asked; with --check: all is well",
    INTERNAL: "stopped by force while requests were running, or a fault of the server",
    USAGE: "the command line or a FOREHAND_ variable cannot be used",
    CONFIG: "the configuration file cannot be used",
    APPLICATION: "the application could not be loaded",
    ADDRESS: "an address could not be bound",
    PERMISSION: "the system does not permit it",
}


class Problem(Exception):
    """Something a person has to mend: what was tried, what is wrong, what to do next.

    `status` is the exit status. `traceback` is text that goes before the message: the
    application's own, never ours.
    """

    def __init__(self, status: int, message: str, *, hint: str = "", traceback: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.hint = hint
        self.traceback = traceback

    def __str__(self) -> str:
        """What a caller from Python sees: the message and what to do next."""
        return f"{self.args[0]}\n  {self.hint}" if self.hint else str(self.args[0])

    def text(self) -> str:
        """The whole message, as it is printed."""
        parts = [self.traceback.rstrip("\n")] if self.traceback else []
        parts.append(f"forehand: {self.args[0]}")
        if self.hint:
            parts.append("\n".join(f"  {line}" for line in self.hint.splitlines()))
        return "\n".join(parts)


def near(word: str, known: list[str]) -> str:
    """`; did you mean 'x'?` for the nearest of the known words, or nothing."""
    import difflib

    found = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean '{found[0]}'?" if found else ""


def own_frames(trace: TracebackType | None) -> TracebackType | None:
    """A traceback from the first frame that is neither ours nor the import system's; None where there is none."""
    import os

    here = os.path.dirname(__file__)
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith((here, "<frozen importlib")) and os.path.basename(os.path.dirname(file)) != "importlib":
            return trace
        trace = trace.tb_next
    return None
