"""`forehand heap` inside a worker: the worker forks, and the child counts what is in memory.

Knows: forks, and what a child must not do. Does not know: what is counted (`census.py`). Runs in the worker on a thread
of its own, and in the child. The worker stands still for the fork and for nothing else; whatever its objects do while
they are looked at, they do in the child. What the worker writes meanwhile is copied page by page.
"""

from __future__ import annotations

import os
import posix
import sys
import time
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

#: A child that counts for longer is ended: seconds of a processor, and of the clock, for it may have come to wait for
#: something that another thread had in hand when it was forked.
LONGEST, LATEST = 60, 300
#: Bytes that a child needs at least, beside a copy of what is written meanwhile.
ROOM = 64 << 20

# The child does what children of processes with threads may do, and ends.
warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"forehand\.inside\.heap_child")
_counting = False


def begin(fd: int, seconds: float, *, trace: bool) -> None:
    """Count now, and if `seconds` is not zero again after so long; the answer goes to a copy of the descriptor. `trace`
    has it noted meanwhile where memory is allocated. Returns at once."""
    global _counting
    copy = os.dup(fd)
    if _counting:
        _say(copy, error="somebody else counts in this worker: wait until that has ended")
        os.close(copy)
        return
    _counting = True
    _say(copy, heard=True)
    _original("_thread", "start_new_thread")(_count_and_wait, (copy, seconds, trace))


def _original(module: str, name: str) -> Any:
    """What gevent has put something else in the place of."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None:
        return monkey.get_original(module, name)
    return getattr(__import__(module), name)


def _count_and_wait(fd: int, seconds: float, trace: bool) -> None:
    global _counting
    import _tracemalloc as tracing

    begun = trace and not tracing.is_tracing()
    before = os.memfd_create("forehand-heap")
    try:
        if seconds > 0:
            # What counting needs is there before the first count, so that the second does not take it for grown.
            from forehand.inside import census  # noqa: F401
        if begun:
            import tracemalloc  # noqa: F401

            tracing.start(1)
        if seconds > 0 and not _count(fd, before, first=True):
            return
        if seconds > 0 and not _waited(fd, seconds):
            return
        _count(fd, before, first=False)
    except Exception as error:
        _say(fd, error=f"{type(error).__name__}: {error}")
    finally:
        if begun:
            tracing.stop()
        os.close(before)
        os.close(fd)
        _counting = False


def _waited(fd: int, seconds: float) -> bool:
    """False: who asked is gone."""
    poll = _original("select", "poll")()
    poll.register(fd, 0)
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if poll.poll(min(left, 1.0) * 1000):
            return False
    return True


def _count(fd: int, before: int, *, first: bool) -> bool:
    """Fork once; False where that came to nothing."""
    held, free = _held(), _free()
    if free < held // 4 + ROOM:
        why = f"it holds {held >> 20} MiB, and {free >> 20} MiB are free"
        _say(fd, error=f"there is too little memory to count beside the worker: {why}")
        return False
    begun = time.monotonic()
    # Not through `os`, where gevent would have its hub wait for the child.
    pid = posix.fork()
    if pid == 0:
        _child(fd, before, first=first)
    pause = time.monotonic() - begun
    _, status = posix.waitpid(pid, 0)
    if status != 0:
        why = f"signal {status & 0x7F}" if status & 0x7F else f"status {status >> 8}"
        _say(fd, error=f"counting took too long, or memory ran out: the child ended with {why}")
        return False
    _say(fd, pause=pause)
    return True


def _child(fd: int, before: int, *, first: bool) -> NoReturn:
    """In the child: count, tell, end. Nothing of the parent's is closed or told."""
    try:
        import _signal as signal

        for number in (signal.SIGALRM, signal.SIGPROF):
            signal.signal(number, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, LONGEST)
        signal.alarm(LATEST)
        _is_expendable()
        from forehand.inside import census

        census.tell(fd, before, first=first)
        os._exit(0)
    except BaseException as error:
        _say(fd, error=f"counting has failed: {type(error).__name__}: {error}")
    finally:
        os._exit(0)


def _is_expendable() -> None:
    """Where memory or processors are short, this process gives way."""
    try:
        os.nice(5)
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass  # the system has no such thing


def _held() -> int:
    """Bytes that this process holds."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _free() -> int:
    """Bytes that the machine has left, or this process's group of processes."""
    with open("/proc/meminfo") as file:
        free = next((int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable")), sys.maxsize)
    try:
        with open("/sys/fs/cgroup/memory.max") as most, open("/sys/fs/cgroup/memory.current") as used:
            return min(free, int(most.read()) - int(used.read()))
    except (OSError, ValueError):
        return free  # there is no limit


def _say(fd: int, **told: Any) -> None:
    import json

    try:
        os.write(fd, json.dumps(told).encode() + b"\n")
    except OSError:
        pass  # who asked is gone
