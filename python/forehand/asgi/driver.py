"""The event loop and the engine: one descriptor in `add_reader`, and the order of start and stop.

Knows: asyncio, uvloop, signals. Does not know: HTTP. Runs on the thread that calls `serve`,
usually the main thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys

from forehand import _core, ending, errors, forked
from forehand.asgi.lifespan import Lifespan
from forehand.ending import CLEAN_UP
from forehand.errors import Problem
from forehand.graceful import Stoppable, until_stopped
from forehand.loggers import error_logger
from forehand.supervisor import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from forehand.listen import Lent, Listener

#: The lifespan's end has at least so long, in seconds.
LAST_WORD = 0.5


def new_loop(wanted: str) -> tuple[asyncio.AbstractEventLoop, str]:
    """An event loop and its name. Raises Problem where uvloop is wanted and cannot be had."""
    if _gevent_has_patched():
        # uvloop takes the main thread for another one then.
        if wanted == "uvloop":
            raise Problem(
                errors.USAGE,
                "--loop uvloop: gevent has patched this process's threads, and uvloop does not work with that",
                hint="leave gevent.monkey.patch_all() out of the application, or --loop asyncio",
            )
        wanted = "asyncio"
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


def _gevent_has_patched() -> bool:
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("threading"))


def outside_a_loop() -> None:
    """Who serves until a signal comes cannot do so inside a loop that runs. Raises Problem."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise Problem(
        errors.USAGE,
        "serve() blocks, and an event loop runs in this thread",
        hint="beside a loop: with forehand.Server(app) as server: ..., which serves in a thread of its own",
    )


def serve(
    application: Callable[..., Any],
    listeners: list[Listener],
    settings: dict[str, object],
    plan: dict[str, Any],
    tell: Callable[[str], object],
) -> int:
    """Serve in this process until a signal says to stop; the exit status. `tell` is called when
    requests are answered. Raises Problem where the application cannot start."""
    outside_a_loop()
    loop, name = new_loop(plan["loop"])
    driver = Driver(application, plan)
    pairs = [listener.lent() for listener in listeners]

    def order(word: str) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            loop.call_soon_threadsafe(driver.stop, word)

    return until_stopped(
        driver, order, lambda: run(loop, driver.serve(pairs, settings, Signals(driver), lambda: tell(name)))
    )


def run(loop: asyncio.AbstractEventLoop, serving: Coroutine[Any, Any, int]) -> int:
    """Run a driver in its loop to the end, and tidy up behind it; the exit status."""
    # A child that lets its parent's loop run would wait on its parent's descriptors.
    no_more_forks = forked.when_forked(lambda: loop.call_soon(forked.back_in_loop))
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(serving)
    finally:
        try:
            _tidy(loop)
        finally:
            no_more_forks()
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
    executors = loop.create_task(loop.shutdown_default_executor())
    loop.run_until_complete(asyncio.wait({executors}, timeout=ending.left(LAST_WORD)))
    # One that does not end is named with the threads that do not.
    executors._log_destroy_pending = False  # type: ignore[attr-defined]


class Orders:
    """Where the word to stop comes from."""

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Listen from now on."""

    def detach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Listen no more."""


class Signals(Orders):
    """A process of its own: SIGTERM and SIGINT stop, a second one stops at once."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.taken: list[int] = []
        self.before: dict[int, Any] = {}

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """In the main thread only: elsewhere the process's signals are somebody else's."""
        import signal

        self.before = ending.handlers((signal.SIGTERM, signal.SIGINT))
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                loop.add_signal_handler(number, self.driver.signalled)
            except (ValueError, RuntimeError):
                self.before.clear()
                return
            self.taken.append(number)
        forked.take_signals(self.taken)

    def detach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Signals are the process's own again."""
        for number in self.taken:
            loop.remove_signal_handler(number)
        ending.give_back(self.before)


class Driver(Stoppable):
    """One server in an event loop."""

    def __init__(self, application: Callable[..., Any], plan: dict[str, Any]) -> None:
        super().__init__(application, plan["graceful_timeout"])
        self.mode: str = plan["lifespan"]
        self.server: _core.AsgiServer | None = None

    async def serve(
        self,
        listeners: list[Lent],
        settings: dict[str, object],
        orders: Orders,
        tell: Callable[[], object],
    ) -> int:
        """From start to stop; the exit status."""
        loop = asyncio.get_running_loop()
        self.ordered, self.forced, self.engine_ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        orders.attach(loop)
        try:
            lifespan = Lifespan(self.application, self.mode)
            if not await self._started(lifespan):
                return errors.OK
            if self.order == "quit":
                # It came while the startup held the loop. Whoever is in such a hurry may have closed the listeners.
                await lifespan.stop(LAST_WORD)
                return errors.OK
            life = (loop, lifespan.state, self.engine_ended.set)
            server = self.server = _core.AsgiServer(self.application, listeners, settings, life)
            # What loading has left goes back to the system when the server starts.
            gc.collect()
            await self.before_serving(lifespan)
            server.start()
            loop.add_reader(server.fileno(), server.turn)
            if log.is_debug():
                log.write("debug", f"serves in an event loop of {type(loop).__module__}")
            try:
                tell()
                await _first(self.ordered, self.engine_ended)
                until = loop.time() + self.graceful_timeout
                left = await self._drain(server)
                rest = 0.0 if self.forced.is_set() else until - loop.time()
                await lifespan.stop(max(rest, LAST_WORD))
            finally:
                loop.remove_reader(server.fileno())
                server.end_watch()
                server.flush_logs()
        finally:
            orders.detach(loop)
        self.cut = max(server.counters()["requests_cut"], left)
        return errors.INTERNAL if self.cut else errors.OK

    async def _started(self, lifespan: Lifespan) -> bool:
        """Start the application. False: the word to stop came first. Raises Problem."""
        starting = asyncio.ensure_future(lifespan.start())
        ordered = asyncio.ensure_future(self.ordered.wait())
        await asyncio.wait({starting, ordered}, return_when=asyncio.FIRST_COMPLETED)
        ordered.cancel()
        if starting.done():
            starting.result()
            return True
        starting.cancel()
        return False

    async def before_serving(self, lifespan: Lifespan) -> None:
        """The last chance to refuse: nothing has been accepted yet. Raises Problem."""

    async def _all_end(self, server: _core.AsgiServer) -> None:
        """Wait until nothing runs and nothing more will come."""
        while tasks := server.tasks():
            await asyncio.wait(tasks)
        await self.engine_ended.wait()
        while tasks := server.tasks():
            await asyncio.wait(tasks)

    async def _drain(self, server: _core.AsgiServer) -> int:
        """Let what runs finish, then cancel it once; how many did not finish."""
        if self.order == "retire":
            server.retire()
        else:
            server.stop()
        all_end = asyncio.ensure_future(self._all_end(server))
        forced = asyncio.ensure_future(self.forced.wait())
        await asyncio.wait({all_end, forced}, timeout=self.graceful_timeout, return_when=asyncio.FIRST_COMPLETED)
        all_end.cancel()
        forced.cancel()
        tasks = server.tasks()
        for task in tasks:
            task.cancel()
        stuck: set[asyncio.Future[Any]] = set()
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=CLEAN_UP)
        if stuck:
            error_logger().error(
                "%d requests went on after they were cancelled and are abandoned: %s",
                len(stuck),
                ", ".join(sorted({repr(task) for task in stuck}))[:2000],
            )
        server.abort()
        return len(tasks)


async def _first(*events: asyncio.Event) -> None:
    """Wait until one of them is set."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
