"""A forked child of a process that serves: what it lets go of, and how it ends.

Knows: os.register_at_fork, signals. Does not know: the engine, whose descriptors are dead in the child before anything
here runs (`reactor/sys/close_on_fork.rs`). Runs in the child, on the thread that forked.

A child may do what it likes: run another program, work for hours, end with os._exit(). It has no connection, no
listener and no event loop of its parent's. When the application comes back in it, as after an `if os.fork() == 0:` that
goes on to return a response, the child ends there; no client hears of it.
"""

from __future__ import annotations

import _thread
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn, TypeVar

    Answer = TypeVar("Answer")

#: What is done in a forked child, in this order.
_in_child: list[Callable[[], object]] = []
_registered = False
_any_thread = False
#: Signals that the server has taken, and their handlers.
_signals: dict[int, Any] = {}
#: What a thread that forks is not to be interrupted by otherwise.
_mask = _thread._local()
#: The greenlet that has forked, where there are greenlets.
_forker: Any = None


def when_forked(work: Callable[[], object]) -> Callable[[], None]:
    """Have something done in each forked child from now on; what is returned ends that."""
    global _registered
    if not _registered:
        os.register_at_fork(before=_hold_signals, after_in_parent=_let_signals_go, after_in_child=_after_fork)
        _registered = True
    _in_child.append(work)

    def no_more() -> None:
        if work in _in_child:
            _in_child.remove(work)

    return no_more


def take_signals(numbers: list[int]) -> None:
    """These signals are the server's from now on: a child that is terminated shall die of it, and not tell its
    parent, which it would through the descriptor that wakes the parent's main thread."""
    import _signal as signal  # the module `signal` would bring `enum`

    if not _signals:
        when_forked(_give_signals_back)
    for number in numbers:
        _signals[number] = signal.getsignal(number)


def leave_signals() -> None:
    """The process's signals are its own: a child has nothing to give back."""
    _signals.clear()


def _after_fork() -> None:
    for work in list(_in_child):
        try:
            work()
        except Exception:
            # The others are to be done, and nobody is there to be told.
            continue
    _in_child.clear()
    _let_signals_go()


def _hold_signals() -> None:
    """What ends a child before its signals are its own again reaches it when they are: the server's handler would run
    in it, to no effect, and whoever waits for the child's end would do so for ever."""
    if _signals:
        import _signal as signal

        _mask.before = signal.pthread_sigmask(signal.SIG_BLOCK, list(_signals))


def _let_signals_go() -> None:
    before = _mask.__dict__.pop("before", None)
    if before is not None:
        import _signal as signal

        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def from_any_thread() -> None:
    """The application is loaded, and is about to be called on threads of the engine's."""
    global _any_thread
    if not _any_thread:
        # What `threading` does after a fork comes before what is done here.
        import threading  # noqa: F401

        os.register_at_fork(after_in_child=_complete_main_thread)
        _any_thread = True


def known_to_threading() -> None:
    """Runs on each thread of the engine's when it begins. To `threading` it would be a dummy, which is a daemon, as
    were the threads that a view starts: nobody would wait for them at the end."""
    import threading

    thread = threading.current_thread()
    thread._daemonic = False  # type: ignore[attr-defined]
    thread.name = thread.name.replace("Dummy", "forehand")


def _complete_main_thread() -> None:
    """The thread that has forked is the child's main thread. One of the engine's was a dummy to `threading`, without
    the lock that `threading._shutdown` wants of a main thread (before 3.12): children of multiprocessing would fail."""
    import threading

    main = threading.main_thread()
    if getattr(main, "_tstate_lock", main) is None and hasattr(main, "_set_tstate_lock"):
        main._set_tstate_lock()


def _give_signals_back() -> None:
    import _signal as signal

    signal.set_wakeup_fd(-1)
    for number, ours in _signals.items():
        if signal.getsignal(number) is ours:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    _signals.clear()


def forget() -> None:
    """From now on this process forks no children of the application's, but workers (`supervisor/template.py`)."""
    _in_child.clear()
    _signals.clear()


def back_in_loop() -> NoReturn:
    """A child has let its parent's event loop run: what runs first in it is this."""
    os.write(2, b"forehand: a forked child came back to its parent's event loop: it ends here\n")
    flush()
    os._exit(1)


def note_greenlet(current: Callable[[], object]) -> None:
    """Runs in the child: this greenlet has forked."""
    global _forker
    _forker = current()


def is_bystander() -> bool:
    """True in a greenlet that was copied along while another one forked."""
    if _forker is None:
        return False
    from greenlet import getcurrent

    return getcurrent() is not _forker


def leave(error: BaseException | None) -> NoReturn:
    """End this process as Python would after `error` at the end of a program. What it has printed is written; `atexit`
    and threads are its parent's and are left alone, as in children of multiprocessing."""
    status = 1
    try:
        status = _status_of(error)
    finally:
        flush()
        os._exit(status & 0xFF)


def _status_of(error: BaseException | None) -> int:
    if error is None:
        return 0
    if not isinstance(error, SystemExit):
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code
    sys.stderr.write(f"{error.code}\n")
    return 1


def flush() -> None:
    """Write what was printed."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # closed by the application, or its reader is gone


def parent_only(work: Callable[..., Answer], *arguments: Any) -> Answer:
    """Call something of the application's. Children that it forks and that come back end here."""
    us = os.getpid()
    try:
        answer = work(*arguments)
    except BaseException as error:
        if os.getpid() != us:
            leave(error)
        raise
    if os.getpid() != us:
        leave(None)
    return answer


def stay_out(us: int, where: str) -> None:
    """End this process if it is not `us`: it has come back to where only its parent goes on."""
    if os.getpid() != us:
        os.write(2, f"forehand: a forked child came back to {where}: it ends here\n".encode())
        leave(None)
