"""A worker that serves WSGI under gevent: the supervisor's orders, heard in the hub.

Knows: the driver, and the line to the supervisor. Does not know: other workers. Runs in the worker, on its main thread.
"""

from __future__ import annotations

import gc

from gevent import monkey
from greenlet import greenlet as Greenlet

from forehand.greenlets.driver import Driver, Orders
from forehand.supervisor import loop_control, stacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from forehand.listen import Lent
    from forehand.supervisor.worker_process import WorkerProcess


def serve(
    process: WorkerProcess,
    application: Callable[..., Any],
    listeners: list[Lent],
    settings: dict[str, object],
) -> int:
    """Serve until the supervisor says to stop; the exit status."""
    driver = Driver(application, process.plan["graceful_timeout"])
    status = driver.serve(listeners, settings, GeventControl(process, driver), lambda: process.ready("WSGI, gevent"))
    return loop_control.ended(process, driver, status)


class GeventControl(loop_control.LoopControl, Orders):
    """The supervisor's orders, and the signals that stand for them."""

    driver: Driver
    kind = "gevent"

    def __init__(self, process: WorkerProcess, driver: Driver) -> None:
        loop_control.LoopControl.__init__(self, process, driver)
        Orders.__init__(self)

    def attach(self, hub: Any) -> None:
        """Listen from now on."""
        self.server = self.driver.server
        for fd in (self.channel.fd, self.signals.reader):
            self.listen(hub, fd, self._hear)
        hub.loop.run_callback(self._hear)

    def _hear(self) -> None:
        self._drain_wakeups()
        for order in self._orders():
            self._carry_out(*order)
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
