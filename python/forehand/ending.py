"""The end of a process that has served, in the order in which Python ends a program.

Knows: threads, `atexit`, and how much time is left. Does not know: why it is time to go. Runs on the main thread, when
the engine has ended and the event loop is closed.

    threads that are no daemons are joined; executors of concurrent.futures end before them
    callbacks of `atexit`, the last one first: multiprocessing's children, logging's buffers, what libraries want
    what was printed is written

Python itself would wait for all of it without end, and then take the interpreter from under the threads that are left.
Here what does not end within the graceful timeout is named in the log and left behind: a lock that nobody lets go of
must not keep a reload from its end.
"""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import time

from forehand import _core, errors, forked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType
    from typing import Any, NoReturn

#: What is said when an end has been asked for.
STOPPING = "stopping: waiting up to {:g} s for running requests (signal again to stop at once)"

#: What has used up its time has so long all the same, in seconds: most of it is a buffer that is to be written. A
#: supervisor kills two seconds after the graceful timeout.
LEAST = 0.5
#: What was cut has so long to clean up, in seconds: a supervisor kills two seconds after the graceful timeout.
CLEAN_UP = 1.0
#: How long after its time a process is ended that has said nothing, because something holds the interpreter.
UNHEARD = 0.3
#: Whoever has the interpreter then has so long to say what has not ended: what that takes is imported first, maybe on a
#: machine that is busy. Both together are less than those two seconds.
TELLING = 1.5

#: This process ends when it has served: it is the command's, and not a program that goes on after `forehand.serve`.
process_ends = False
#: When the time is over that the word to stop has given; None: nobody has said it.
_until: float | None = None


def begin(timeout: float) -> None:
    """The word to stop has come: from now on there are so many seconds. The first one counts."""
    global _until
    if _until is None:
        _until = time.monotonic() + timeout


def hurry() -> None:
    """It is to be over at once."""
    global _until
    _until = time.monotonic()


def left(timeout: float) -> float:
    """Seconds that are left; `timeout` where nobody has said that it is time to go."""
    return max((timeout if _until is None else _until - time.monotonic()), LEAST)


def handlers(numbers: Iterable[int]) -> dict[int, Any]:
    """Who hears these signals now, for `give_back`."""
    import _signal as signal

    return {number: signal.getsignal(number) for number in numbers}


def give_back(before: dict[int, Any]) -> None:
    """Signals are the program's again that goes on. Where the process ends now, one more word to stop has no effect:
    how long the end may take is known, and a process that a signal kills would tell its parent that the end failed."""
    import _signal as signal

    for number, handler in before.items():
        if process_ends:
            signal.signal(number, _heard)
        elif handler is not None:
            signal.signal(number, handler)
    if process_ends:
        forked.take_signals(list(before))
    else:
        forked.leave_signals()
    before.clear()


def _heard(number: int, frame: object) -> None:
    """A word to stop that comes once more."""


class StopAtExit:
    """A server in a thread of somebody's program, which must have let go of the interpreter when that ends: at exit it
    is stopped, and what does not end within `timeout` seconds is cut. `stop` and `abort` are called in the main
    thread."""

    def __init__(self, stop: Callable[[], object], abort: Callable[[], object], timeout: float) -> None:
        self.stop, self.abort, self.timeout = stop, abort, timeout
        #: Held until the server has returned.
        self.served = _real_lock()
        self.served.acquire()
        atexit.register(self._at_exit)

    def _at_exit(self) -> None:
        try:
            self.stop()
            if self.served.acquire(True, self.timeout):
                return
        except KeyboardInterrupt:
            pass  # in a hurry
        self.abort()
        # A thread that is still under greenlets when the interpreter is taken away takes the process with it.
        self.served.acquire(True, CLEAN_UP + LEAST)

    def done(self) -> None:
        """The server has returned."""
        atexit.unregister(self._at_exit)
        self.served.release()


def finish(status: int, timeout: float) -> NoReturn:
    """End this process in order, within the time that is left."""
    time_left = left(timeout)
    end = _End(status, time_left)
    try:
        # For whoever holds the interpreter, so that nothing can be said.
        _core.end_within(int((time_left + UNHEARD) * 1000), errors.INTERNAL)
        _start_thread(end.watch)
        end.join_threads()
        end.run_callbacks()
    finally:
        end.over.release()
        forked.flush()
        os._exit(status)


def _start_thread(work: Any) -> None:
    """A thread that `threading` does not know, and so does not wait for; under gevent a real one."""
    start = _thread.start_new_thread
    if "gevent.monkey" in sys.modules:
        from gevent import monkey

        start = monkey.get_original("_thread", "start_new_thread")
    start(work, ())


def _real_lock() -> Any:
    if "gevent.monkey" in sys.modules:
        from gevent import monkey

        return monkey.get_original("_thread", "allocate_lock")()
    return _thread.allocate_lock()


class _End:
    """One process's end, and somebody who watches it."""

    def __init__(self, status: int, timeout: float) -> None:
        self.status = status
        self.timeout = timeout
        self.main = _thread.get_ident()
        self.greenlet: Any = None
        if "greenlet" in sys.modules:
            self.greenlet = sys.modules["greenlet"].getcurrent()
        self.running = ""
        #: Held until everything has ended.
        self.over = _real_lock()
        self.over.acquire()

    def join_threads(self) -> None:
        """What `Py_FinalizeEx` does first."""
        threading = sys.modules.get("threading")
        if threading is None:
            return
        self.running = "threads"
        try:
            threading._shutdown()
        except BaseException as error:
            sys.excepthook(type(error), error, error.__traceback__)

    def run_callbacks(self) -> None:
        """And then. What they raise is told as Python tells it, and stops no other."""
        self.running = "callbacks"
        try:
            atexit._run_exitfuncs()
        except BaseException as error:
            sys.excepthook(type(error), error, error.__traceback__)

    def watch(self) -> None:
        """Runs on a thread of its own: when the time is over, says what has not ended, and ends the process."""
        if self.over.acquire(True, self.timeout):
            return
        _core.end_within(int(TELLING * 1000), errors.INTERNAL)
        from forehand.supervisor import log

        what = self.threads() if self.running == "threads" else self.callback()
        log.write("error", f"the process ends although {what.rstrip()}")
        os._exit(self.status or errors.INTERNAL)

    def threads(self) -> str:
        """The threads that are waited for."""
        from forehand.supervisor import stacks

        frames = sys._current_frames()
        threading = sys.modules["threading"]
        waited_for = [one for one in threading.enumerate() if not one.daemon and one is not threading.main_thread()]
        if not waited_for:
            return f"its threads were not joined after {self.timeout:.1f} s (--graceful-timeout)"
        shown = [f"'{one.name}' at\n{stacks.text_of(frames.get(one.ident))}" for one in waited_for]
        return f"threads go on after {self.timeout:.1f} s (--graceful-timeout): {'and '.join(shown)}"

    def callback(self) -> str:
        """The callback of `atexit` that is running, and where it stands."""
        from forehand.supervisor import stacks

        frame = _frame_of(self.greenlet) or sys._current_frames().get(self.main)
        name = _called_from(frame, self.run_callbacks.__func__.__code__)  # type: ignore[attr-defined]
        return (
            f"a callback of atexit goes on after {self.timeout:.1f} s (--graceful-timeout): {name}, at\n"
            f"{stacks.text_of(frame)}"
        )


def _frame_of(greenlet: Any) -> FrameType | None:
    """Where a greenlet stands that waits in its hub."""
    found: FrameType | None = getattr(greenlet, "gr_frame", None)
    return found


def _called_from(frame: FrameType | None, code: Any) -> str:
    """The function that was called by the one of this code."""
    called = "a function in C"
    while frame is not None and frame.f_code is not code:
        name = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
        called = f"{frame.f_globals.get('__name__', '?')}.{name}"
        frame = frame.f_back
    return called


def cut_message(count: int, *, hurried: bool) -> str:
    """How an end is told that has cut requests."""
    requests = "1 request was" if count == 1 else f"{count} requests were"
    return f"{requests} cut: {'told to stop at once' if hurried else 'still running after --graceful-timeout'}"
