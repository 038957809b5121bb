"""Who blocks the event loop: what is told of a thread that has not come round for too long.

Knows: frames, and where ASGI and WSGI keep a request. Does not know: when to look. Runs on the
watchdog's thread, while the loop's thread stands still; imports nothing that is not there already.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

LIBRARY = os.path.dirname(os.__file__) + os.sep
OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
#: Frames that are looked at, from the innermost: a recursion has a thousand alike.
DEEPEST = 200
#: Of a path or a name that somebody else has chosen.
LONGEST = 200


def describe(thread: int, loop: Any) -> tuple[str, str, str] | None:
    """Where a thread stands: a key of the place, what runs (request, task or callback), and where in words. None:
    nothing of the application's. `loop` is the thread's event loop, None under gevent's hub."""
    all_frames = frames(sys._current_frames().get(thread))
    found = innermost(all_frames)
    if found is None:
        return None
    return _place(found)[0], _request(all_frames) or _task(loop), f" at {place_in(found, all_frames)}"


def place_in(found: FrameType, frames: list[FrameType]) -> str:
    """In words, with the innermost of all frames where that is another one."""
    place = _place(found)[1]
    return place if found is frames[0] else f"{place}, which waits in {_place(frames[0])[1]}"


def frames(frame: FrameType | None) -> list[FrameType]:
    """The innermost first, down to those that drive the loop."""
    found: list[FrameType] = []
    while frame is not None and len(found) < DEEPEST and not frame.f_code.co_filename.startswith(OWN):
        found.append(frame)
        frame = frame.f_back
    return found


def innermost(frames: list[FrameType]) -> FrameType | None:
    """The innermost frame of the application's own; of a library that was installed, where there is none."""
    installed = None
    for frame in frames:
        if is_own(frame):
            return frame
        if installed is None and _is_installed(frame) and not _drives(frame):
            installed = frame
    return installed


def is_own(frame: FrameType) -> bool:
    """Is it the application's own code, neither a library's nor the interpreter's, nor ours?"""
    return not _is_installed(frame) and not frame.f_code.co_filename.startswith((LIBRARY, OWN, "<frozen"))


def _is_installed(frame: FrameType) -> bool:
    return any(part in frame.f_code.co_filename for part in INSTALLED)


def _drives(frame: FrameType) -> bool:
    """Is it part of an event loop, which runs while nothing else does?"""
    return frame.f_globals.get("__name__", "").partition(".")[0] in ("gevent", "uvloop", "greenlet")


def _place(frame: FrameType) -> tuple[str, str]:
    key = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    return key, f"{key} in {getattr(frame.f_code, 'co_qualname', frame.f_code.co_name)}"


def _request(frames: list[FrameType]) -> str:
    """Method and path, as the innermost frame has them that was called with a scope or an environ."""
    for frame in frames:
        code = frame.f_code
        for name in ("scope", "environ"):
            if name in code.co_varnames[: code.co_argcount] or name in code.co_cellvars:
                line = _line(frame.f_locals.get(name))
                if line:
                    return line
    # By another name: what the application itself was called with.
    for frame in reversed(frames):
        for value in list(frame.f_locals.values()):
            line = _line(value)
            if line:
                return line
    return ""


def _line(value: Any) -> str:
    # Not isinstance: a lazy object that is asked for its class begins to work.
    if not issubclass(type(value), dict):
        return ""
    if value.get("type") in ("http", "websocket") and isinstance(value.get("path"), str):
        return f"{value.get('method', 'a WebSocket of')} {value['path'][:LONGEST]}"
    if isinstance(value.get("REQUEST_METHOD"), str):
        return f"{value['REQUEST_METHOD']} {value.get('SCRIPT_NAME', '')}{value.get('PATH_INFO', '')[:LONGEST]}"
    return ""


def _task(loop: Any) -> str:
    asyncio = sys.modules.get("asyncio")
    if loop is None:
        return "a greenlet of the application's"
    task = asyncio.current_task(loop) if asyncio is not None else None
    if task is None:
        return "a callback of the application's"
    name = getattr(task.get_coro(), "__qualname__", "")
    return f"the task {task.get_name()[:LONGEST]} ({name})"
