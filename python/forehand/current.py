"""`forehand.request()`: the request that the caller works on.

Knows: where to ask, and in which order. Does not know: what is known of a request (crates/bridge/src/current.rs). Runs
where the application does; imported when it is first used.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forehand._core import CurrentRequest

#: The coroutine of the request's task, where that has asked, or is carried (`carry`).
_carried: ContextVar[Any] = ContextVar("forehand.request", default=None)
_modules = sys.modules


def request() -> CurrentRequest | None:
    """The request that this thread, task or greenlet works on, as it is now; None outside of one.

    It has `id` (`--request-id`), `trace_id` and `span_id` (`--trace-endpoint`), `deadline`, the seconds that are left
    (`--request-timeout`), `route`, and `phases`, the seconds that it has spent in each so far. What there is none of is
    None.

    Under asyncio also the tasks that a request's task has started after it has asked itself, and the threads that were
    given their context (`asyncio.to_thread`), know it. Other threads and greenlets that a request has started do not.
    """
    core: Any = _modules.get("forehand._core")
    if core is None:
        return None
    return core.request() or _of_greenlet() or _of_task()


def carry() -> None:
    """Have every request of an event loop known in all tasks that it starts, from now on.

    Each task's context has a variable more: 0.2 µs a request.
    """
    from forehand import _core

    _core.carry_in(_carried)


def _of_greenlet() -> CurrentRequest | None:
    greenlets = _modules.get("greenlet")
    if greenlets is None:
        return None
    current = greenlets.getcurrent()
    ask = getattr(type(current), "forehand_request", None)
    found: CurrentRequest | None = None if ask is None else ask(current)
    return found


def _of_task() -> CurrentRequest | None:
    coroutine = _carried.get()
    asyncio = _modules.get("asyncio")
    if asyncio is not None and (loop := asyncio._get_running_loop()) is not None:
        task = asyncio.current_task(loop)
        own = None if task is None else task.get_coro()
        # Of requests that share a task, the one that has begun.
        own = getattr(own, "forehand_inside", own)
        if hasattr(own, "forehand_request") and own is not coroutine:
            # Tasks that it starts from here on know it, too.
            _carried.set(own)
            coroutine = own
    found: CurrentRequest | None = None if coroutine is None else coroutine.forehand_request()
    return found
