"""Processes that the lab starts: none is left behind, whenever Ctrl-C comes and however the lab ends.

Python raises KeyboardInterrupt between any two instructions of the main thread: also inside `Popen`, when the process
runs already and nobody has its name yet, and in the middle of ending one.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
from collections.abc import Iterator

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_waiting = False


@contextlib.contextmanager
def unhurried() -> Iterator[None]:
    """A block that begins or ends processes as a whole: Ctrl-C waits, and is raised when the block is left.

    Blocks inside such a block are part of it. In other threads, to which Ctrl-C never comes, it does nothing; nor does
    it where SIGINT is ignored, as in a script's background.
    """
    global _waiting
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if _waiting or ignored or threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    _waiting = True
    try:
        yield
    finally:
        _waiting = False
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def in_child(cpus: frozenset[int] = frozenset()) -> None:
    """Between fork and exec: a group of its own, the end with the lab, and these processors, if any are named.

    SIGINT has its usual effect again: a lab in the background of a script was told to ignore it, which a child would
    inherit, and it is what asks the engine to end.

    Its own group, so that the terminal's Ctrl-C comes to the lab alone, which then ends the whole group. Not a session:
    servers of 2010 call setpgrp, which a session's leader may not.
    """
    os.setpgrp()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if cpus:
        os.sched_setaffinity(0, cpus)
