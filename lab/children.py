"""Processes that the lab starts: none is left behind, whenever Ctrl-C comes and however the lab ends.

Python raises KeyboardInterrupt between any two instructions of the main thread: also inside `Popen`, when the process
runs already and nobody has its name yet, and in the middle of ending one. And where it can only be dropped: in a
destructor, or in what is called when an object that something refers to weakly goes.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

PR_SET_PDEATHSIG = 1
#: After how many seconds a Ctrl-C that was dropped is told once more: the destructor is over then.
AGAIN_SECONDS = 0.01
_libc = ctypes.CDLL(None, use_errno=True)
_waiting = False
_once: Once | None = None


@contextlib.contextmanager
def told_again() -> Iterator[None]:
    """A block, of the main thread, in which a Ctrl-C that Python has dropped is told once more: none is without effect.

    What is raised in a destructor is handed to `sys.unraisablehook` and nothing else comes of it. The hook itself
    cannot raise either, so that a timer does; if that meets the next destructor, it is told again. SIGALRM is taken
    for that; children do not inherit the timer.
    """
    hook = sys.unraisablehook

    def dropped(what: Any) -> None:
        if what.exc_type is not None and issubclass(what.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
        else:
            hook(what)

    def again(number: int, frame: FrameType | None) -> None:
        if frame and frame.f_code is dropped.__code__:
            # The timer was quicker than the hook's end: there it would be dropped for good.
            signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
            return
        if _once:
            _once.forget()
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            # It was SIGTERM or SIGHUP that was dropped, in a script's background.
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    sys.unraisablehook = dropped
    before = signal.signal(signal.SIGALRM, again)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = hook


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
        self._around: Once | None = None

    def __enter__(self) -> Self:
        global _once
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        if not (_waiting or ignored) and threading.current_thread() is threading.main_thread():
            self._around, _once = _once, self
            self._before = signal.signal(signal.SIGINT, self._came)
        return self

    def forget(self) -> None:
        """What was raised was dropped: the next one is the first."""
        self._raised = False

    def _came(self, number: int, frame: object) -> None:
        if self.over or self._raised:
            self._later = True
        else:
            self._raised = True
            raise KeyboardInterrupt

    def __exit__(self, kind: object, *_: object) -> None:
        global _once
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            _once = self._around
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
