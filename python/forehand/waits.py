"""Where a request stands that waits under an event loop: its task or greenlet, and what a task waits for elsewhere.

Knows: how coroutines, tasks, groups of tasks and threads of a pool are chained. Does not know: when to look. Runs on
the event loop's thread, while no task runs.
"""

from __future__ import annotations

import asyncio
import itertools
import sys

from forehand import slow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType
    from typing import Any

#: So many tasks are looked at for one, whether they wait for each other or are waited for side by side, and so many
#: threads: the loop stands still meanwhile.
MOST = 64
SEVERAL = (set, frozenset, list, tuple)
#: Whose groups of tasks are known.
GROUPS = ("asyncio.", "anyio.")
#: Where the next of a chain is, and the frame, of a coroutine, a generator and an asynchronous one.
CHAINED = (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await"))


def of_greenlet(greenlet: Any) -> str | None:
    """The place in words at which it waits; None: in nothing of the application's."""
    return _told(slow.frames(greenlet.gr_frame))


def of_task(task: Any) -> str | None:
    """The same, of a task of asyncio's: in itself, or in the task or the thread that it waits for."""
    return _told(_frames(task, set()))


def _told(frames: list[FrameType]) -> str | None:
    found = slow.innermost(frames)
    return slow.place_in(found, frames) if found is not None else None


def _frames(task: Any, seen: set[int]) -> list[FrameType]:
    """The innermost first, those included of what it waits for; none of a task that was seen, or is one too many."""
    if id(task) in seen or len(seen) >= MOST:
        return []
    seen.add(id(task))
    frames = list(_chain(task.get_coro()))
    frames.reverse()
    for beyond in _beyond(task, frames, seen):
        if any(map(slow.is_own, beyond)):
            return beyond + frames
    return frames


def _chain(waits: Any) -> Iterator[FrameType]:
    """A coroutine's frame, and those of what it awaits."""
    for _ in range(slow.DEEPEST):
        for frame_name, next_name in CHAINED:
            frame = getattr(waits, frame_name, None)
            if frame is not None:
                yield frame
                waits = getattr(waits, next_name, None)
                break
        else:
            return


def _beyond(task: Any, frames: list[FrameType], seen: set[int]) -> Iterator[list[FrameType]]:
    """The frames of each of those that it may wait for: the innermost first."""
    waited = getattr(task, "_fut_waiter", None)
    if waited is None:
        return
    for other in _alive((waited, *getattr(waited, "_children", ()))):
        yield _frames(other, seen)
    yield from _threads(waited)
    for other in _alive(_held(frames)):
        yield _frames(other, seen)


def _alive(ones: Iterable[Any]) -> Iterator[Any]:
    """Those that are tasks and have not ended."""
    tasks = (one for one in ones if issubclass(type(one), asyncio.Task) and not one.done())
    return itertools.islice(tasks, MOST)


def _held(frames: list[FrameType]) -> Iterator[Any]:
    """What a library's frames have that wait for a view's: tasks, several of them, or a group whose end they wait for
    (Starlette's middlewares run the next application in one)."""
    for frame in frames:
        if slow.is_own(frame):
            break
        for value in list(frame.f_locals.values()):
            yield value
            # Nothing is asked of what may be anybody's: a lazy object would begin to work.
            kind = type(value)
            several = value
            if kind.__module__.startswith(GROUPS):
                several = getattr(value, "_tasks", ())
            if issubclass(type(several), SEVERAL):
                yield from list(several)[:MOST]


def _threads(future: Any) -> Iterator[list[FrameType]]:
    """The frames of the thread that works for a future: one of anyio's, or of a pool of the standard library's."""
    for frame in list(sys._current_frames().values())[:MOST]:
        frames = slow.frames(frame)
        if any(_works_for(future, one) for one in reversed(frames)):
            yield frames
            return


def _works_for(future: Any, frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__", "")
    if frame.f_code.co_name != "run":
        return False
    if name.startswith("anyio."):
        return frame.f_locals.get("future") is future
    if name == "concurrent.futures.thread":
        work = frame.f_locals.get("self")
        return any(future is one for one in _told_by(getattr(getattr(work, "future", None), "_done_callbacks", ())))
    return False


def _told_by(callbacks: Iterable[Any]) -> Iterator[Any]:
    """asyncio's futures that these set (asyncio.futures._chain_future)."""
    for callback in callbacks:
        for cell in getattr(callback, "__closure__", None) or ():
            try:
                yield cell.cell_contents
            except ValueError:
                continue
