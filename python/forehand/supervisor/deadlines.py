"""What is done about a request that is overdue: its stack is told, and its thread interrupted.

Knows: one thread and its request. Does not know: the client, who has had its 504 from the
engine already (`server/request_deadlines.rs`). Runs on a worker's main thread.
"""

from __future__ import annotations

import sys

from forehand.supervisor import log, stacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forehand import _core


def prepare() -> None:
    """Import what the first stack will need: beside a thread that burns it would take long."""
    stacks.text_of(sys._getframe())


def interrupt(server: _core.Server, ident: int, line: str, seconds: float, serial: int) -> None:
    """Tell the log where the thread stands, then raise `forehand.RequestTimeout` in it, unless
    it has come back meanwhile."""
    from forehand import RequestTimeout

    frame = sys._current_frames().get(ident)
    log.write(
        "error",
        f"{line}: overdue after {seconds:.2f} s (--request-timeout); its thread stands at\n"
        f"{stacks.text_of(frame).rstrip()}",
    )
    del frame
    server.interrupt(ident, serial, RequestTimeout)
