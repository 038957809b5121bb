"""A worker whose requests are driven by an event loop: the supervisor's words, passed on to the driver.

Knows: the line to the supervisor, and what a driver can be told. Does not know: which loop it is; `asgi/worker.py` and
`greenlets/worker.py` do, and listen.
"""

from __future__ import annotations

from forehand import errors
from forehand.driving import cut_short
from forehand.supervisor import hooks, say
from forehand.supervisor.worker import Life

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forehand.driving import Ordered
    from forehand.supervisor.channel import Channel
    from forehand.supervisor.worker import Signals


class Driven(Life):
    """The supervisor's words. A class of its loop adds how they are heard."""

    #: How the driver is called where something cannot be told.
    kind: str

    def __init__(self, plan: dict[str, Any], driver: Ordered, channel: Channel, signals: Signals) -> None:
        super().__init__(plan, channel, None, signals)
        self.driver = driver

    def _retire(self) -> None:
        self.driver.stop("retire")

    def _stop(self) -> None:
        self.driver.stop("stop")

    def _quit(self) -> None:
        self.driver.stop("quit")

    def _kick(self) -> None:
        self.server.kick()

    def _routes(self) -> None:
        # Requests of one loop overlap, so that memory cannot be told apart by route.
        self.channel.tell("routes", f"not told for {self.kind}")


def ready(plan: dict[str, Any], channel: Channel, facts: dict[str, Any], how: str) -> None:
    """Requests are answered from now on; `how` stands in the log."""
    channel.tell("ready", how)
    hooks.call(plan, "on_worker_ready", facts)


def ended(plan: dict[str, Any], facts: dict[str, Any], driver: Ordered, status: int) -> int:
    """The driver's life is over; the process's exit status."""
    if driver.cut:
        say.say("warning", cut_short(driver.cut, hurried=driver.order == "quit"))
    hooks.call(plan, "on_worker_exit", {**facts, "status": status})
    return errors.INTERNAL if driver.cut else status
