"""The greenlet of a request says when it runs: who looks at a worker, or at what a dead one has left, learns whose step
it was.

Knows: greenlets. Does not know: where that is said, nor requests. Runs on the hub's thread, when gevent switches to a
greenlet that has waited; the first step is begun by the engine, which says so itself.
"""

from __future__ import annotations

from greenlet import greenlet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from forehand._core import CurrentRequest


def class_of(step: Callable[[int], int], request: Callable[[greenlet], CurrentRequest | None]) -> type:
    """A class of greenlets. `step` is called with the slot of the request of which a step begins (0: of none), and
    gives that of which one ran until then. `request`: gives that of a greenlet which runs."""

    class RequestGreenlet(greenlet):  # type: ignore[misc]
        #: Set when it waits for the first time.
        slot = 0
        #: What `forehand.request()` asks.
        forehand_request = staticmethod(request)

        def switch(self, *args: Any, **kwargs: Any) -> Any:
            """As greenlet's own; returns when the caller's greenlet runs again."""
            before = step(self.slot)
            try:
                return greenlet.switch(self, *args, **kwargs)
            finally:
                step(before)

        def throw(self, *args: Any) -> Any:
            """The same, and it meets an exception where it waits."""
            before = step(self.slot)
            try:
                return greenlet.throw(self, *args)
            finally:
                step(before)

    return RequestGreenlet
