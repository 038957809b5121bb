"""A worker that serves an ASGI application: the supervisor's orders, heard in the event loop.

Knows: the driver, and the line to the supervisor. Does not know: other workers. Runs in the worker, on its main thread.
"""

from __future__ import annotations

import os

from forehand import forked
from forehand.asgi.driver import Driver, Orders, new_loop, run
from forehand.asgi.readiness import prove
from forehand.supervisor import loop_control

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from typing import Any

    from forehand.asgi.lifespan import Lifespan
    from forehand.listen import Lent
    from forehand.supervisor.worker_process import WorkerProcess


def serve(
    process: WorkerProcess,
    application: Callable[..., Any],
    listeners: list[Lent],
    settings: dict[str, object],
) -> int:
    """Serve until the supervisor says to stop; the exit status. Raises Problem before it is ready."""
    loop, name = new_loop(process.plan["loop"])
    driver = Proven(application, process.plan)
    control = AsgiControl(process, driver)
    status = run(loop, driver.serve(listeners, settings, control, lambda: process.ready(f"ASGI, {name}")))
    return loop_control.ended(process, driver, status)


class Proven(Driver):
    """A driver whose application answers the readiness call before anything is accepted."""

    def __init__(self, application: Callable[..., Any], plan: dict[str, Any]) -> None:
        super().__init__(application, plan)
        self.readiness: str = plan["readiness"]

    async def before_serving(self, lifespan: Lifespan) -> None:
        """The readiness call. Raises Problem."""
        if self.readiness:
            await prove(self.readiness, self.application, lifespan.state)


class AsgiControl(loop_control.LoopControl, Orders):
    """The supervisor's orders, and the signals that stand for them."""

    driver: Driver
    kind = "ASGI"

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Listen from now on."""
        import signal

        loop.add_reader(self.channel.fd, self._hear)
        # Through the loop's own way to be woken: uvloop takes the process's place for that.
        words = {signal.SIGTERM: "retire", signal.SIGQUIT: "quit", signal.SIGUSR1: "reopen"}
        for number, word in words.items():
            loop.add_signal_handler(number, self._signalled, word)
        forked.take_signals(list(words))
        loop.call_soon(self._hear)

    def detach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Listen no more."""
        loop.remove_reader(self.channel.fd)

    def _signalled(self, word: str) -> None:
        self.signals.asked.append(word)
        self._hear()

    def _hear(self) -> None:
        self.server = self.driver.server
        for word, text, fd in self._orders():
            if self.server is not None or word in ("retire", "stop", "quit"):
                self._carry_out(word, text, fd)
            elif fd >= 0:
                os.close(fd)
