"""The application's lifespan: told of the start before the first request, of the stop after the last.

Knows: ASGI, "Lifespan Protocol". Does not know: requests. Runs on the event loop's thread, in a
task of its own, so that what an application opens at the start it closes in the same task.
"""

from __future__ import annotations

import asyncio

from forehand import errors
from forehand.errors import Problem
from forehand.loggers import error_logger
from forehand.logs import application_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

STARTUP, SHUTDOWN = "lifespan.startup", "lifespan.shutdown"


class Lifespan:
    """One application's lifespan. `state` is what scopes get copies of."""

    def __init__(self, application: Callable[..., Any], mode: str) -> None:
        self.application = application
        self.mode = mode
        self.state: dict[str, Any] = {}
        self.heard: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        self.answers: dict[str, asyncio.Future[str | None]] = {}
        self.asked = ""
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Wait until the application has started. Raises Problem where it could not."""
        if self.mode == "off":
            return
        loop = asyncio.get_running_loop()
        self.answers = {event: loop.create_future() for event in (STARTUP, SHUTDOWN)}
        self.task = loop.create_task(self._live(), name="lifespan")
        await self._ask(STARTUP)
        answer = self.answers[STARTUP]
        if answer.done():
            failure = answer.result()
            if failure is None:
                return
            await self._let_go()
            raise Problem(
                errors.APPLICATION,
                "the application's startup failed" + (f": {failure}" if failure else ""),
                hint="it sent 'lifespan.startup.failed'; its own words are above, if it has written any",
            )
        self._returned_early()

    def _returned_early(self) -> None:
        """The application's end came before its answer: a refusal of the protocol, or a failure."""
        assert self.task is not None
        error = None if self.task.cancelled() else self.task.exception()
        self.task = None
        if self.mode == "auto":
            # The specification's way of not taking part: raise, or return. Whoever has heard of
            # the start and raises then is served as well, and what it raised is told.
            if error is not None and self.heard.empty():
                application_error("lifespan.startup, so it is served without a lifespan", error)
            return
        if error is None:
            raise Problem(
                errors.APPLICATION,
                "the application does not support the lifespan protocol",
                hint="it returned without 'lifespan.startup.complete'; --lifespan auto or off serves it anyway",
            )
        import traceback

        raise Problem(
            errors.APPLICATION,
            f"the application's startup raised {type(error).__name__}",
            hint="the traceback above is the application's own; --lifespan auto or off serves it anyway",
            traceback="".join(traceback.format_exception(type(error), error, error.__traceback__)),
        )

    async def stop(self, timeout: float) -> None:
        """Tell the application, and wait for it at most so many seconds."""
        if self.task is None or self.task.done():
            self._tell_end()
            return
        try:
            await asyncio.wait_for(self._ask(SHUTDOWN), timeout)
        except asyncio.TimeoutError:
            error_logger().error(
                "the application's shutdown did not end within %g s and was cancelled (--graceful-timeout)", timeout
            )
        answer = self.answers[SHUTDOWN]
        if answer.done() and not answer.cancelled() and answer.result() is not None:
            error_logger().error("the application's shutdown failed: %s", answer.result() or "it did not say why")
        await self._let_go()
        self._tell_end()

    def _tell_end(self) -> None:
        """An exception that ended the application is told, whenever it came."""
        if self.task is not None and self.task.done() and not self.task.cancelled():
            error = self.task.exception()
            if error is not None:
                application_error("lifespan", error)

    async def _ask(self, event: str) -> None:
        """Tell the application and wait for its answer, or for its end."""
        assert self.task is not None
        self.asked = event
        self.heard.put_nowait({"type": event})
        either: set[asyncio.Future[Any]] = {self.task, self.answers[event]}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)

    async def _let_go(self) -> None:
        """The application has answered its last question; it may end, and is cancelled if it does not."""
        if self.task is None:
            return
        done, _ = await asyncio.wait({self.task}, timeout=0.2)
        if not done:
            self.task.cancel()
            await asyncio.wait({self.task}, timeout=0.2)

    async def _live(self) -> None:
        scope = {
            "type": "lifespan",
            "asgi": {"version": "3.0", "spec_version": "2.0"},
            "state": self.state,
        }
        await self.application(scope, self.heard.get, self._send)

    async def _send(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        for asked in (STARTUP, SHUTDOWN):
            if kind in (f"{asked}.complete", f"{asked}.failed"):
                answer = self.answers[asked]
                if self.asked != asked or answer.done():
                    raise RuntimeError(f"the application sent '{kind}', and nobody asks for it now (ASGI, lifespan)")
                failed = kind.endswith(".failed")
                answer.set_result(str(event.get("message", "")) if failed else None)
                return
        raise RuntimeError(f"the application sent '{kind}', which is not an event of the lifespan (ASGI)")
