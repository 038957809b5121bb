"""What every thread of a worker is doing, as text.

Knows: the interpreter's frames. Does not know: who asks. Runs on a worker's main thread; for
an interpreter that does not let it run there is the signal (`worker._stacks_on_signal`).
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

#: The innermost frames that are shown of one stack: a recursion has a thousand alike.
DEEPEST = 60


def all_threads() -> str:
    """The stacks of all threads, each with the request that it works on."""
    import threading

    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for ident, frame in sorted(sys._current_frames().items()):
        title = f"thread {ident} ({names.get(ident, 'of the server')})"
        request = _request(frame)
        if request:
            title += f", in {request}"
        elif ident == threading.get_ident():
            parts.append(f"{title}, which waits for the supervisor's word\n")
            continue
        parts.append(f"{title}\n{text_of(frame)}")
    return "\n".join(parts)


def _request(frame: FrameType | None) -> str:
    """The request that the outermost frame was called with, if it is an application's."""
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    if frame is None:
        return ""
    for value in list(frame.f_locals.values()):
        found = _line(value)
        if found:
            return found
    return ""


def _line(value: Any) -> str:
    if not isinstance(value, dict) or not isinstance(value.get("REQUEST_METHOD"), str):
        return ""
    query = value.get("QUERY_STRING")
    path = f"{value.get('SCRIPT_NAME', '')}{value.get('PATH_INFO', '')}"
    return f"{value['REQUEST_METHOD']} {path}{f'?{query}' if query else ''}"


def text_of(frame: FrameType | None) -> str:
    """One stack, innermost frame last, as tracebacks have it."""
    import traceback

    if frame is None:
        return "  (it has no Python frame)\n"
    return "".join(traceback.format_list(traceback.extract_stack(frame)[-DEEPEST:]))
