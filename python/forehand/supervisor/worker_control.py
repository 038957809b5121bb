"""What the supervisor can order a worker to do: one method for each order.

Knows: one engine and the line to the supervisor. Does not know: other workers. Runs on the worker's main thread,
which sleeps while the engine's threads work: it wakes for an order from the supervisor, a signal, or a request that
is overdue.

    announce_end  an end will come: each reply is the last of its connection
    retire  others go on: finish what runs, answer idle connections once more, then end
    stop    nobody goes on: finish what runs, then end
    quit    end at once
"""

from __future__ import annotations

import os
import posix
import time

from forehand import ending, errors, forked
from forehand.ending import cut_message
from forehand.errors import Problem
from forehand.supervisor import handed_tls, log
from forehand.supervisor.log_files import open_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from forehand.supervisor.worker_process import WorkerProcess


#: How often a worker that leaves looks whether it is over, in milliseconds, and how rarely at the most.
LOOK, LONGEST_LOOK = 20.0, 250.0
#: Orders whose answer goes to a descriptor that comes with them.
ANSWERED = ("profile", "heap")
#: Orders of which it is said first that they are heard: to carry them out takes modules to be imported, and a machine
#: that is busy is not an interpreter that is stuck.
HEARD = ("stacks",)


class WorkerControl:
    """Carries out the supervisor's orders, and waits for them where the engine has threads of its own."""

    def __init__(self, process: WorkerProcess, server: Any) -> None:
        self.process = process
        self.plan = process.plan
        self.channel = process.channel
        self.server = server
        self.signals = process.signals
        self.leaving = False
        self.hurried = False
        #: When it has begun to leave; zero: it has not.
        self.left_at = 0.0
        self.us = os.getpid()

    def wait(self) -> int:
        """Until the end; the exit status."""
        import select

        # Not only when the first thread is to be looked at: an import lets go of the interpreter, and who has kept it
        # in one call of C goes on then, and is gone.
        from forehand import slow

        poll = select.poll()
        for fd in (self.channel.fd, self.signals.reader, self.server.overdue_fd()):
            poll.register(fd, select.POLLIN)
        while not self.server.ended():
            poll.poll(self._until_a_look())
            forked.stay_out(self.us, "where its parent waits for orders")
            self._drain_wakeups()
            for order in self._orders():
                self._carry_out(*order)
            self._overdue(slow)
        # What was told to end at once does not wait for threads inside the application.
        done = self.server.join(0.2 if self.hurried else 1)
        cut = self.server.counters()["requests_cut"]
        if cut or not done:
            log.write("warning", cut_message(max(cut, 1), hurried=self.hurried))
            return errors.INTERNAL
        return errors.OK

    def _until_a_look(self) -> float | None:
        """Milliseconds. While leaving, the end comes without a word: it is noticed a tenth later than it could be, as a
        thread that never comes back may have many such workers wait for as long as they may."""
        if not self.leaving:
            return None
        self.left_at = self.left_at or time.monotonic()
        return LOOK if self.hurried else min(max(LOOK, (time.monotonic() - self.left_at) * 100), LONGEST_LOOK)

    def _drain_wakeups(self) -> None:
        try:
            os.read(self.signals.reader, 512)
        except OSError:
            pass  # nothing there

    def _orders(self) -> list[tuple[str, str, int]]:
        """Words, each with the text that belongs to it and the descriptor that the answer goes to; -1: none."""
        asked, self.signals.asked = self.signals.asked, []
        orders = [(word, "") for word in asked]
        if self.channel.open:
            orders += self._heard()
        given = self.channel.given
        return [
            (word, text, given.pop(0) if word in ANSWERED and given else -1)
            for word, text in orders
            if hasattr(self, f"_{word}")
        ]

    def _carry_out(self, word: str, text: str, fd: int) -> None:
        if word in HEARD:
            self.channel.tell("heard", word)
        if word not in ANSWERED:
            getattr(self, f"_{word}")()
        elif fd >= 0:
            try:
                getattr(self, f"_{word}")(text, fd)
            except Exception as error:
                # Requests are worth more than an answer; who asked sees that there is none.
                log.write("error", f"{word} came to nothing: {error}")
            finally:
                # Who asked waits for the end of it. `os.close` is gevent's where that has patched it, and closes when
                # the hub runs again: of a worker that has nothing to do, never.
                posix.close(fd)

    def _heard(self) -> list[tuple[str, str]]:
        # The engine writes to the same socket, so that it has to stay blocking.
        if not self._readable():
            return []
        heard = self.channel.hear()
        # The supervisor is gone: `watch_parent` ends this process in a moment.
        return heard if self.channel.open else [("stop", "")]

    def _readable(self) -> bool:
        import select

        return bool(select.select([self.channel.fd], [], [], 0)[0])

    def _overdue(self, slow: ModuleType) -> None:
        for ticket in self.server.overdue():
            from forehand.supervisor import deadlines

            deadlines.interrupt(self.server, *ticket)
        for thread, number in self.server.slow():
            found = slow.describe(thread, None)
            if found is not None:
                self.server.stands_at(number, found[2].removeprefix(" at "))

    def _retire(self) -> None:
        self.leaving = True
        ending.begin(self.plan["graceful_timeout"])
        self.server.retire()

    def _stop(self) -> None:
        self.leaving = True
        ending.begin(self.plan["graceful_timeout"])
        self.server.stop()

    def _quit(self) -> None:
        self.leaving = self.hurried = True
        ending.hurry()
        self.server.abort()

    def _announce_end(self) -> None:
        self.server.announce_end()

    def _check_listeners(self) -> None:
        self.server.check_listeners()

    def _renew_tls(self) -> None:
        data = handed_tls.get(self.process.tls_fd)
        if data is not None:
            # The supervisor has judged it.
            self.server.renew_tls(data)

    def _reopen(self) -> None:
        if self.plan["log_file"] != "-":
            try:
                fd = open_log(self.plan["log_file"])
                os.dup2(fd, 2)
                os.close(fd)
            except Problem as problem:
                log.write("error", str(problem))
        if self.plan["access_log_file"] != "-":
            try:
                fd = open_log(self.plan["access_log_file"])
            except Problem as problem:
                log.write("error", str(problem))
                return
            self.server.reopen_access_log(fd)
            os.close(fd)

    def _stacks(self) -> None:
        from forehand.supervisor import stacks

        self.channel.tell("stacks", stacks.all_threads())

    def _profile(self, text: str, fd: int) -> None:
        seconds, rate, how = text.split()
        self.server.profile(fd, float(seconds), int(rate), how == "cpu")

    def _heap(self, text: str, fd: int) -> None:
        from forehand.inside import heap_child

        seconds, how = text.split()
        heap_child.begin(fd, float(seconds), trace=how == "trace")

    def _counters(self) -> None:
        counted = self.server.counters()
        self.channel.tell("counters", "\n".join(f"{name} {count}" for name, count in counted.items()))

    def _routes(self) -> None:
        grown = "; ".join(f"{route} +{kib} KiB in {count} requests" for route, kib, count in self.server.routes())
        self.channel.tell("routes", grown or "none stands out")
