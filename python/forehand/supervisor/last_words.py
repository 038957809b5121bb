"""Where a worker stood that a signal like SIGSEGV has ended.

Knows: what `faulthandler` has written into the worker's file for stacks in its last moment. Does not know: why. Runs in
the supervisor.
"""

from __future__ import annotations

import os

#: Of one that has ended so much is read from the end of its file, in bytes: up to a hundred stacks of a hundred lines.
LAST = 1 << 20
#: How `faulthandler` begins.
BEGIN = "Fatal Python error: "
#: ... and the stack of the thread that it happened in, which is among those of the others.
THREAD = "Current thread 0x"
LIBRARY = os.path.dirname(os.__file__) + os.sep
OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def read(fd: int) -> str:
    """The end of what is in the file."""
    size = os.fstat(fd).st_size
    return os.pread(fd, LAST, max(0, size - LAST)).decode(errors="replace")


def place(text: str) -> str:
    """The line of the application's own that had it happen, and the one in a library where it did, as words behind `was
    ended by signal 11`; empty: nothing is known, as where the application has a fault handler of its own."""
    _, begin, last = text.rpartition(BEGIN)
    frames = _frames(last.partition(THREAD)[2] or last) if begin else []
    theirs = [one for one in frames if not one.startswith((LIBRARY, OWN, "<"))]
    own = next((one for one in theirs if not any(part in one for part in INSTALLED)), theirs[0] if theirs else "")
    if not own:
        # As where somebody has sent the signal to the process: it is the main thread, which waits, that it comes to.
        return ""
    return f" at {own}" if own == frames[0] else f" at {own}, which was in {frames[0]}"


def thread(text: str) -> int:
    """The thread that it happened in, as Python names threads; zero: it is not known."""
    _, begin, last = text.rpartition(BEGIN)
    _, found, rest = last.partition(THREAD)
    digits = rest.partition(" ")[0]
    try:
        return int(digits, 16) if begin and found else 0
    except ValueError:
        return 0


def _frames(text: str) -> list[str]:
    """The first stack, the innermost first: `  File "shop.py", line 57 in broken`."""
    frames = []
    for line in text.splitlines():
        file, found, rest = line.removeprefix('  File "').partition('", line ')
        number, _, name = rest.partition(" in ")
        if found and number.isdigit():
            frames.append(f"{file}:{number} in {name}")
        elif frames:
            break
    return frames
