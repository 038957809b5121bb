"""gevent's hub and the engine: one descriptor that the hub watches, and the order of start and stop.

Knows: the hub, greenlets, signals. Does not know: HTTP. Runs on the thread that calls `serve`,
whose greenlet sleeps while the hub serves; what is said so runs in the hub.
"""

from __future__ import annotations

import gc
import os
import time

import gevent
from gevent.event import Event
from greenlet import GreenletExit, getcurrent

from forehand import _core, ending, errors, forked
from forehand.ending import CLEAN_UP
from forehand.graceful import Stoppable, until_stopped
from forehand.supervisor import log, stacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from forehand.listen import Lent, Listener

#: Between two looks whether greenlets that were killed have cleaned up, in seconds.
LOOK = 0.01
READ = 1


def serve(
    application: Callable[..., Any],
    listeners: list[Listener],
    settings: dict[str, object],
    plan: dict[str, Any],
    tell: Callable[[str], object],
) -> int:
    """Serve in this process until a signal says to stop; the exit status. `tell` is called when
    requests are answered."""
    driver = Driver(application, plan["graceful_timeout"])
    pairs = [listener.lent() for listener in listeners]
    loop = gevent.get_hub().loop
    name = f"up to {settings['threads']} greenlets"
    return until_stopped(
        driver,
        lambda order: loop.run_callback_threadsafe(driver.stop, order),
        lambda: driver.serve(pairs, settings, Signals(driver), lambda: tell(name)),
    )


class Orders:
    """Where the word to stop comes from."""

    def __init__(self) -> None:
        self.watchers: list[Any] = []

    def attach(self, hub: Any) -> None:
        """Listen from now on."""

    def listen(self, hub: Any, fd: int, hear: Callable[[], object]) -> None:
        """Have `hear` called in the hub whenever a descriptor can be read."""
        watcher = hub.loop.io(fd, READ)
        watcher.start(hear)
        self.watchers.append(watcher)

    def detach(self) -> None:
        """Listen no more."""
        for watcher in self.watchers:
            watcher.stop()
            watcher.close()
        self.watchers.clear()

    def give_back(self) -> None:
        """What was taken of the process is its own again."""


class Signals(Orders):
    """A process of its own: SIGTERM and SIGINT stop, a second one stops at once."""

    def __init__(self, driver: Driver) -> None:
        super().__init__()
        self.driver = driver
        self.asked = 0
        self.heard = 0
        self.reader = self.writer = -1
        self.before: dict[int, Any] = {}

    def attach(self, hub: Any) -> None:
        """In the main thread only: elsewhere the process's signals are somebody else's."""
        import signal

        before = ending.handlers((signal.SIGTERM, signal.SIGINT))
        try:
            for number in before:
                signal.signal(number, self._signalled)
        except ValueError:
            return
        self.before = before
        # A byte in this pipe wakes the hub, and the handler runs before what it calls.
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self.writer, False)
        signal.set_wakeup_fd(self.writer, warn_on_full_buffer=False)
        forked.take_signals([signal.SIGTERM, signal.SIGINT])
        for fd in (self.reader, self.writer):
            _core.keep_from_children(fd)
        self.listen(hub, self.reader, self._hear)

    def give_back(self) -> None:
        """Nobody waits for a word any more."""
        if self.reader < 0:
            return
        import signal

        ending.give_back(self.before)
        signal.set_wakeup_fd(-1)
        for fd in (self.reader, self.writer):
            _core.release(fd)
            os.close(fd)
        self.reader = self.writer = -1

    def _signalled(self, number: int, frame: object) -> None:
        self.asked += 1
        if self.asked > self.heard + 2:
            # A greenlet that never lets the hub run hears no word.
            os._exit(errors.INTERNAL)

    def _hear(self) -> None:
        try:
            os.read(self.reader, 512)
        except BlockingIOError:
            pass  # read already
        while self.heard < self.asked:
            self.heard += 1
            self.driver.signalled()


class Driver(Stoppable):
    """One server in the hub."""

    def __init__(self, application: Callable[..., Any], graceful_timeout: float) -> None:
        super().__init__(application, graceful_timeout)
        self.server: _core.GeventServer | None = None
        self.ordered, self.forced, self.engine_ended = Event(), Event(), Event()

    def serve(
        self,
        listeners: list[Lent],
        settings: dict[str, object],
        orders: Orders,
        tell: Callable[[], object],
    ) -> int:
        """From start to stop; the exit status."""
        hub = gevent.get_hub()
        engine = Orders()
        us = os.getpid()

        def ended() -> None:
            # What is ready behind the end would be ready for ever.
            engine.detach()
            self.engine_ended.set()

        life = (hub, _overdue, ended)
        server = self.server = _core.GeventServer(self.application, listeners, settings, life)
        # What loading has left goes back to the system when the server starts.
        gc.collect()
        server.start()
        engine.listen(hub, server.fileno(), server.turn)
        orders.attach(hub)

        def in_child() -> None:
            # The hub's own set first, or stopping to watch would be told to the one that is shared with the parent.
            gevent.reinit(hub)
            forked.note_greenlet(getcurrent)
            engine.detach()
            orders.detach()

        no_more_forks = forked.when_forked(in_child)
        try:
            tell()
            try:
                gevent.wait([self.ordered, self.engine_ended], count=1)
            finally:
                # A child whose greenlets have all ended: for want of others the hub lets this one go on.
                forked.stay_out(us, "where its parent waits for orders")
            left = self._drain(server)
        finally:
            no_more_forks()
            orders.detach()
            orders.give_back()
            engine.detach()
            server.end_watch()
            server.flush_logs()
        self.cut = max(server.counters()["requests_cut"], left)
        return errors.INTERNAL if self.cut else errors.OK

    def _drain(self, server: _core.GeventServer) -> int:
        """Let what runs finish, then kill it; how many did not finish."""
        if self.order == "retire":
            server.retire()
        else:
            server.stop()
        gevent.wait([self.engine_ended, self.forced], timeout=self.graceful_timeout, count=1)
        left = server.greenlets()
        for greenlet, _ in left:
            gevent.get_hub().loop.run_callback(_kill, greenlet)
        until = time.monotonic() + CLEAN_UP
        while left and server.greenlets() and time.monotonic() < until:
            gevent.sleep(LOOK)
        stuck = server.greenlets() if left else []
        if stuck:
            lines = ", ".join(sorted({line for _, line in stuck}))
            log.write(
                "error", f"{len(stuck)} requests went on after they were killed and are abandoned: {lines[:2000]}"
            )
        server.abort()
        return len(left)


def _kill(greenlet: Any) -> None:
    """End a greenlet. Runs in the hub."""
    if not greenlet.dead:
        greenlet.throw(GreenletExit)


def _overdue(greenlet: Any, line: str, seconds: float) -> None:
    """Tell the log where a request stands that is overdue, then raise `forehand.RequestTimeout`
    there. Runs in the hub, so that the greenlet stands still."""
    from forehand import RequestTimeout

    log.write(
        "error",
        f"{line}: overdue after {seconds:.2f} s (--request-timeout); its greenlet stands at\n"
        f"{stacks.text_of(greenlet.gr_frame).rstrip()}",
    )
    if not greenlet.dead:
        greenlet.throw(RequestTimeout)
