"""A worker's life with an ASGI application: the supervisor's words, heard in the event loop.

Knows: the driver, and the line to the supervisor. Does not know: other workers. Runs in a child
process, on its main thread, in place of what `supervisor/worker.py` does for WSGI.
"""

from __future__ import annotations

from forehand import forked
from forehand.asgi.driver import Driver, Orders, new_loop, run
from forehand.asgi.readiness import prove
from forehand.supervisor import driven

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from typing import Any

    from forehand.asgi.lifespan import Lifespan
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
    and what hooks are told. Raises Problem before it is ready."""
    channel, signals, facts = ties
    loop, name = new_loop(plan["loop"])
    driver = Proven(application, plan)

    def tell() -> None:
        driven.ready(plan, channel, facts, f"ASGI, {name}")

    status = run(loop, driver.live(place.listeners, settings, Words(plan, driver, channel, signals), tell))
    return driven.ended(plan, facts, driver, status)


class Proven(Driver):
    """A driver whose application answers the readiness call before anything is accepted."""

    def __init__(self, application: Callable[..., Any], plan: dict[str, Any]) -> None:
        super().__init__(application, plan)
        self.readiness: str = plan["readiness"]

    async def before_serving(self, lifespan: Lifespan) -> None:
        """The readiness call. Raises Problem."""
        if self.readiness:
            await prove(self.readiness, self.application, lifespan.state)


class Words(driven.Driven, Orders):
    """The supervisor's words and the signals that stand for them."""

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
        for word in self._words():
            if self.server is not None or word in ("retire", "stop", "quit"):
                getattr(self, f"_{word}")()
