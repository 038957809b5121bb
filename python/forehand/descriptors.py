"""Descriptors of a process that serves: the first three, and room for all others, made before its threads are.

Knows: the kernel's table of a process's open files. Does not know: what is open. Runs on the main thread, at the start.

A table that is full is replaced by one of twice the size, at 64, 128, 256 ... descriptors. In a process with several
threads the kernel waits then until no processor looks at the old one: 15 to 40 ms, and more where the processors are
busy, for which whoever accepts connections stands still.
"""

from __future__ import annotations

import os
import sys

#: So many descriptors have room from the start: 32 KiB of the kernel's memory. Whoever has more grows as before.
ROOM = 4096


def make_room(one: int) -> None:
    """Have the table grow now, as far as the process may open so many (RLIMIT_NOFILE). `one`: any open descriptor."""
    last = min(ROOM, os.sysconf("SC_OPEN_MAX")) - 1
    try:
        os.fstat(last)  # it is in use: the table reaches to it
    except OSError:
        try:
            os.close(os.dup2(one, last, inheritable=False))
        except OSError:
            pass  # then it grows as it must


def fill_gaps() -> None:
    """Put /dev/null where standard input, output or error is closed (`2>&-`): the next socket would be opened there,
    and have the log's lines, and all that an application prints."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            # The lowest that is free.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, open(number, mode, closefd=False))
