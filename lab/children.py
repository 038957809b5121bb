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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

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


class Once:
    """A block in which Ctrl-C is raised once: those that come later wait for the block's end.

    It is for blocks that end what they have started in a `finally`, which says `over = True` before anything else: from
    then on nothing is raised. Python looks for signals at calls and at jumps back, so that none comes between the end
    of what was tried and that line.
    """

    def __init__(self) -> None:
        self.over = False
        self._raised = False
        self._later = False
        self._before: Any = None

    def __enter__(self) -> Self:
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        if not (_waiting or ignored) and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._came)
        return self

    def _came(self, number: int, frame: object) -> None:
        if self.over or self._raised:
            self._later = True
        else:
            self._raised = True
            raise KeyboardInterrupt

    def __exit__(self, kind: object, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        if self._later and kind is None:
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
