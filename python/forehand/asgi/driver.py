"""The event loop and the engine: one descriptor in `add_reader`, and the order of start and stop.

Knows: asyncio, uvloop, signals. Does not know: HTTP. Runs on the thread that calls `serve`,
usually the main thread.
"""

from __future__ import annotations

import asyncio
import gc
import sys

from forehand import _core, errors
from forehand.asgi.lifespan import Lifespan
from forehand.errors import Problem
from forehand.logs import error_logger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from forehand.listen import Listener

STOPPING = "stopping: waiting up to {:g} s for what is running (once more to stop at once)"
# Tasks that were cancelled have so long to clean up, in seconds.
FAREWELL = 3.0


def new_loop(wanted: str) -> tuple[asyncio.AbstractEventLoop, str]:
    """An event loop and its name. Raises Problem where uvloop is wanted and missing."""
    if wanted != "asyncio":
        try:
            import uvloop
        except ImportError as error:
            if wanted == "uvloop":
                raise Problem(
                    errors.USAGE,
                    f"--loop uvloop: uvloop cannot be imported ({error})",
                    hint="pip install uvloop, or --loop asyncio",
                ) from None
        else:
            return uvloop.new_event_loop(), "uvloop"
    return asyncio.new_event_loop(), "asyncio"


def serve(
    application: Callable[..., Any],
    listeners: list[Listener],
    settings: dict[str, object],
    plan: dict[str, Any],
    tell: Callable[[str], object],
) -> int:
    """Serve until told to stop; the exit status. `tell` is called when requests are answered.

    Raises Problem where the application cannot start.
    """
    loop, name = new_loop(plan["loop"])
    try:
        asyncio.set_event_loop(loop)
        driver = Driver(application, plan, lambda: tell(name))
        return loop.run_until_complete(driver.live(listeners, settings))
    finally:
        try:
            _tidy(loop)
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def _tidy(loop: asyncio.AbstractEventLoop) -> None:
    """What an application has left in the loop is cancelled and given a moment."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=1))
    loop.run_until_complete(loop.shutdown_asyncgens())


class Driver:
    """One server's life in an event loop."""

    def __init__(self, application: Callable[..., Any], plan: dict[str, Any], tell: Callable[[], object]) -> None:
        self.application = application
        self.patience: float = plan["patience"]
        self.lifespan = Lifespan(application, plan["lifespan"])
        self.tell = tell
        self.asked = 0
        self.stop_asked = asyncio.Event()
        self.force_asked = asyncio.Event()
        self.engine_ended = asyncio.Event()

    async def live(self, listeners: list[Listener], settings: dict[str, object]) -> int:
        """From start to stop."""
        loop = asyncio.get_running_loop()
        signals = self._take_signals(loop)
        await self.lifespan.start()
        pairs = [(listener.socket.fileno(), listener.url) for listener in listeners]
        life = (loop, self.lifespan.state, self._engine_has_ended)
        server = _core.AsgiServer(self.application, pairs, settings, life)
        # What loading has left goes back to the system when the server starts.
        gc.collect()
        server.start()
        loop.add_reader(server.fileno(), server.turn)
        try:
            self.tell()
            await self._either(self.stop_asked, self.engine_ended)
            sys.stderr.write(f"forehand: {STOPPING.format(self.patience)}\n")
            left = await self._drain(server)
            await self.lifespan.stop(min(self.patience, FAREWELL) if self.force_asked.is_set() else self.patience)
        finally:
            loop.remove_reader(server.fileno())
            for number in signals:
                loop.remove_signal_handler(number)
            server.flush_logs()
        cut = max(server.counters()["requests_cut"], left)
        if cut:
            sys.stderr.write(f"forehand: stopped while {cut} requests were running\n")
        return errors.INTERNAL if cut else errors.OK

    def _take_signals(self, loop: asyncio.AbstractEventLoop) -> list[int]:
        import signal

        taken: list[int] = []
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                loop.add_signal_handler(number, self._signalled)
            except (ValueError, RuntimeError):
                return taken  # not the main thread: the process's signals are somebody else's
            taken.append(number)
        return taken

    def _signalled(self) -> None:
        self.asked += 1
        self.stop_asked.set()
        if self.asked > 1:
            self.force_asked.set()

    def _engine_has_ended(self) -> None:
        self.engine_ended.set()

    async def _either(self, *events: asyncio.Event, timeout: float | None = None) -> None:
        waits = [asyncio.ensure_future(event.wait()) for event in events]
        await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    async def _all_end(self, server: _core.AsgiServer) -> None:
        """Wait until nothing runs and nothing more will come."""
        while tasks := server.tasks():
            await asyncio.wait(tasks)
        await self.engine_ended.wait()
        while tasks := server.tasks():
            await asyncio.wait(tasks)

    async def _drain(self, server: _core.AsgiServer) -> int:
        """Let what runs finish, then cancel it once; how many would not end."""
        server.stop()
        all_end = asyncio.ensure_future(self._all_end(server))
        forced = asyncio.ensure_future(self.force_asked.wait())
        await asyncio.wait({all_end, forced}, timeout=self.patience, return_when=asyncio.FIRST_COMPLETED)
        all_end.cancel()
        forced.cancel()
        tasks = server.tasks()
        for task in tasks:
            task.cancel()
        stuck: set[asyncio.Future[Any]] = set()
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=FAREWELL)
        if stuck:
            error_logger().error(
                "%d requests went on after they were cancelled and are abandoned: %s",
                len(stuck),
                ", ".join(sorted({repr(task) for task in stuck}))[:2000],
            )
        server.abort()
        return len(tasks)
