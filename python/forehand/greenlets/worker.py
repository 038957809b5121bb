"""A worker's life under gevent: the supervisor's words, heard in the hub.

Knows: the driver, and the line to the supervisor. Does not know: other workers. Runs in a child
process, on its main thread, in place of what `supervisor/worker.py` does for threads.
"""

from __future__ import annotations

import gc

from gevent import monkey
from greenlet import greenlet as Greenlet

from forehand.greenlets.driver import Driver, Orders
from forehand.supervisor import driven, stacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from forehand.supervisor.channel import Channel
    from forehand.supervisor.worker import Place, Signals


def live(
    place: Place,
    plan: dict[str, Any],
    application: Callable[..., Any],
    settings: dict[str, object],
    ties: tuple[Channel, Signals, dict[str, Any]],
) -> int:
    """Serve until the supervisor says to stop; the exit status. `ties`: the line, the signals
    and what hooks are told."""
    channel, signals, facts = ties
    driver = Driver(application, plan["patience"])

    def tell() -> None:
        driven.ready(plan, channel, facts, "WSGI, gevent")

    status = driver.live(place.listeners, settings, Words(plan, driver, channel, signals), tell)
    return driven.ended(plan, facts, driver, status)


class Words(driven.Driven, Orders):
    """The supervisor's words and the signals that stand for them."""

    driver: Driver
    kind = "gevent"

    def __init__(self, plan: dict[str, Any], driver: Driver, channel: Channel, signals: Signals) -> None:
        driven.Driven.__init__(self, plan, driver, channel, signals)
        Orders.__init__(self)

    def attach(self, hub: Any) -> None:
        """Listen from now on."""
        self.server = self.driver.server
        for fd in (self.channel.fd, self.signals.reader):
            self.listen(hub, fd, self._hear)
        hub.loop.run_callback(self._hear)

    def _hear(self) -> None:
        self._drain_wakeups()
        for word in self._words():
            getattr(self, f"_{word}")()
        if not self.channel.open and self.watchers:
            # It could be read for ever; `watch_parent` ends this process in a moment.
            self.watchers[0].stop()

    def _readable(self) -> bool:
        # Not the patched one, which would let others run, and the hub cannot.
        look = monkey.get_original("select", "select")
        return bool(look([self.channel.fd], [], [], 0)[0])

    def _stacks(self) -> None:
        self.channel.tell("stacks", all_greenlets(self.server.greenlets()))


def all_greenlets(requests: list[tuple[Any, str]]) -> str:
    """The stacks of all threads and of all greenlets, each with the request that it works on."""
    parts = [stacks.all_threads()]
    known = {id(one) for one, _ in requests}
    for one, line in requests:
        parts.append(f"greenlet {id(one):#x}, in {line}\n{stacks.text_of(one.gr_frame)}")
    for one in gc.get_objects():
        if isinstance(one, Greenlet) and id(one) not in known and one.gr_frame is not None:
            name = getattr(one, "name", type(one).__name__)
            parts.append(f"greenlet {id(one):#x} ({name})\n{stacks.text_of(one.gr_frame)}")
    return "\n".join(parts)
