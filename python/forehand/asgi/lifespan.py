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


def _parted(failure: str) -> tuple[str, str]:
    """What an application says of its failure, and the traceback that it is, as Starlette's."""
    if not failure.startswith("Traceback "):
        return failure, ""
    return next((line for line in reversed(failure.splitlines()) if line.strip()), ""), failure


class Lifespan:
    """One application's lifespan. `state` is what scopes get copies of."""

    def __init__(self, application: Callable[..., Any], mode: str) -> None:
        self.application = application
        self.mode = mode
        self.state: dict[str, Any] = {}
        self.heard: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        self.answers: dict[str, asyncio.Future[str | None]] = {}
        self.asked = ""
        self.task: asyncio.Task[SystemExit | None] | None = None

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
            self._error()
            message, traceback = _parted(failure)
            raise Problem(
                errors.APPLICATION,
                "the application's startup failed" + (f": {message}" if message else ""),
                hint="it sent 'lifespan.startup.failed'; its own words are above, if it has written any",
                traceback=traceback,
            )
        self._returned_early()

    def _returned_early(self) -> None:
        """The application's end came before its answer: a refusal of the protocol, or a failure."""
        assert self.task is not None
        error = self._error()
        self.task = None
        if self.mode == "auto" and not isinstance(error, SystemExit):
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

        others = "off" if isinstance(error, SystemExit) else "auto or off"
        raise Problem(
            errors.APPLICATION,
            f"the application's startup raised {type(error).__name__}",
            hint=f"the traceback above is the application's own; --lifespan {others} serves it anyway",
            traceback="".join(traceback.format_exception(type(error), error, errors.own_frames(error.__traceback__))),
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
        failure = answer.result() if answer.done() and not answer.cancelled() else None
        if failure is not None:
            message, traceback = _parted(failure)
            told = f"{message or 'it did not say why'}\n{traceback}".rstrip()
            error_logger().error("the application's shutdown failed: %s", told)
        await self._let_go()
        # Starlette raises what it has told of.
        if not failure or type(self._error()).__name__ not in failure:
            self._tell_end()

    def _tell_end(self) -> None:
        """An exception that ended the application is told, whenever it came."""
        error = self._error()
        if error is not None:
            application_error("lifespan", error)

    def _error(self) -> BaseException | None:
        """What has ended the application; None: nothing, or it has not ended."""
        if self.task is None or not self.task.done() or self.task.cancelled():
            return None
        return self.task.exception() or self.task.result()

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

    async def _live(self) -> SystemExit | None:
        scope = {
            "type": "lifespan",
            "asgi": {"version": "3.0", "spec_version": "2.0"},
            "state": self.state,
        }
        try:
            await self.application(scope, self.heard.get, self._send)
        except SystemExit as error:
            # Raised on, it would end the event loop in the middle of what else is under way.
            return error
        return None

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
