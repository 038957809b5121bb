"""Graceful shutdown, as the drivers of event loops have it in common.

Knows: orders to stop, and that a second signal is in a hurry. Does not know: asyncio, gevent, or who gives orders. Runs
where the loop runs.
"""

from __future__ import annotations

from forehand import ending
from forehand.supervisor import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Orders to stop: each is more urgent than the one before it.
URGENCY = ("", "retire", "stop", "quit")


class Stoppable:
    """A driver that can be told to stop."""

    #: The engine under its loop; none before it is made.
    server: Any
    #: Events of its loop: an order has come; one that is in a hurry; the engine has nothing left to do.
    ordered: Any
    forced: Any
    engine_ended: Any

    def __init__(self, application: Callable[..., Any], graceful_timeout: float) -> None:
        self.application = application
        self.graceful_timeout = graceful_timeout
        #: `stop` (nobody goes on), `retire` (others do) or `quit` (at once); empty while serving.
        self.order = ""
        #: Requests that were running at the end.
        self.cut = 0

    def stop(self, order: str) -> None:
        """An order was heard. Runs in the loop."""
        ending.begin(self.graceful_timeout)
        hastens = self.order == "retire" and order == "stop"
        self.order = max(self.order, order, key=URGENCY.index)
        self.ordered.set()
        if hastens and self.server is not None:
            # Nobody takes this one's place any more: idle connections are not waited for.
            self.server.stop()
        if order == "quit":
            ending.hurry()
            self.forced.set()

    def signalled(self) -> None:
        """A signal that asks to stop was heard: the second one is in a hurry. Runs in the loop."""
        if self.order:
            self.stop("quit")
        else:
            log.write("plain", f"forehand: {ending.STOPPING.format(self.graceful_timeout)}")
            self.stop("stop")


def until_stopped(driver: Stoppable, order: Callable[[str], object], serve: Callable[[], int]) -> int:
    """Serve in this process until a signal says to stop, or the process ends; the exit status. `order` has an order
    come to the driver from any thread."""
    at_exit = ending.StopAtExit(lambda: order("stop"), lambda: order("quit"), driver.graceful_timeout)
    try:
        status = serve()
    finally:
        at_exit.done()
    if driver.cut:
        log.write("plain", f"forehand: {ending.cut_message(driver.cut, hurried=driver.order == 'quit')}")
    return status
