"""Shared statistics: what workers count and time of their requests, kept over the death of each of them.

Knows: the memory that they are in; rows are the scoreboard's. Does not know: what the numbers mean
(`server/statistics`). The supervisor makes it, says there how the server is, and adds up workers that have ended;
workers write, and any process that has the descriptor reads.
"""

from __future__ import annotations

import os
import time

from forehand import _core
from forehand.supervisor import log
from forehand.supervisor.state import DRAINING, READY, State

#: Requests that a line about a dead worker names; of more only the number is told.
NAMED = 8
#: Monotonic milliseconds that never come.
NEVER_MS = (1 << 64) - 1
#: What the log says where a program's numbers cannot be used by the next one as they are.
_FROM_NOW_ON = "the program before keeps its numbers in another way: what its workers count until they end is not seen."
_GOES_ON = "Metrics go on from what it had counted"
_BEGINS = "Metrics begin at zero, as it has not said what it had counted"


class Statistics:
    """The memory, and its supervisor's view. `fd`: from the program before; `told`: what that had counted, as a text,
    for where it keeps its numbers in another way. Raises OSError where the system gives no memory."""

    def __init__(self, fd: int = -1, told: str = "") -> None:
        self.fd = fd
        #: Where the application's own metrics are, if that is ours (`app_metrics.py`).
        self.metrics = ""
        if fd >= 0:
            try:
                self.shared = _core.Statistics(fd, True)
                return
            except OSError:
                # Workers of the program before go on writing there.
                os.close(fd)
                log.write("warning", f"{_FROM_NOW_ON} {_GOES_ON if told else _BEGINS}")
        self.fd = os.memfd_create("forehand-statistics")
        os.ftruncate(self.fd, _core.Statistics.BYTES)
        self.shared = _core.Statistics(self.fd, True)
        if told:
            self.shared.take_over(told)

    def told(self) -> str:
        """All that was counted until now, for the next program."""
        try:
            return self.shared.told()
        except OSError as error:
            log.write("warning", f"the numbers of this program cannot be read: {error}")
            return ""

    def take(self, row: int) -> None:
        """A worker is about to live in that row."""
        self.shared.take(row)
        self.shared.count("starts")

    def show(self, state: State, started: float) -> None:
        """Say how the server is, which began at that time."""
        workers = state.workers.values()
        current = [one for one in workers if one.state == READY and one.generation == state.generation]
        say = self.shared.set
        say("pid", os.getpid())
        say("started", int(started))
        say("generation", state.generation)
        say("wanted", state.rules.wanted)
        say("workers", len(workers))
        say("ready", len(current))
        say("stopping", state.phase in ("stopping", DRAINING))
        if current:
            say("up", 1)

    def tell(self, numbers: dict[str, int]) -> None:
        """Say more of the server, by names."""
        for name, number in numbers.items():
            self.shared.set(name, number)

    def rests(self, wait_ms: int | None) -> None:
        """The supervisor waits for so long now, if nothing happens; None: for ever. It says so, as nobody shall have to
        wake it to know that it lives."""
        self.shared.set("looks_by_ms", NEVER_MS if wait_ms is None else _now_ms() + wait_ms)

    def looks(self) -> None:
        """It is awake, and will soon wait again: where it does not, it is stuck (`server/health.rs`)."""
        self.shared.set("looks_by_ms", _now_ms())

    def fold(self, row: int, died: tuple[int, int, int], thread: int = 0) -> list[str]:
        """The worker of that row has ended: what it has counted is kept. What it worked on, as a line each. `died`: its
        number, its process, and where it stands why. `thread`: the one that has ended it, whose request comes first."""
        number, pid, exit = died
        guilty = self.shared.at(row, thread) if thread else None
        inside = sorted(self.shared.inside(row, True), key=lambda one: one[0] != guilty)
        try:
            self.shared.fold(row, (number, exit), (self.metrics, pid) if self.metrics and pid else None)
        except OSError as error:
            self._cannot_add_up(pid, error)
        return [
            f"{line}{f' (id {name})' if name else ''} for {_span(age)}"
            f"{', which did it' if number == guilty else ', being sent' if sending else ''}"
            for number, line, _, age, _, name, sending in inside
        ]

    def fold_metrics(self, pid: int) -> None:
        """A process that was no worker has ended: what the application has counted in it is kept."""
        if self.metrics:
            try:
                self.shared.fold_metrics(self.metrics, pid)
            except OSError as error:
                self._cannot_add_up(pid, error)

    def _cannot_add_up(self, pid: int, error: OSError) -> None:
        log.write("warning", f"metrics that process {pid} has left in {self.metrics} cannot be added up: {error}")


def _now_ms() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000_000


def reason(how: str, stale: str) -> str:
    """Why a worker has ended, in a word or two for a label: the signal, the status, or why it was to go."""
    if how.startswith("was ended by the OOM killer"):
        return "oom"
    if "by signal" in how:
        number, _, name = how.partition("by signal ")[2].partition(" ")
        return f"signal:{name.partition(')')[0].lstrip('(') or number}"
    if "with status 0" not in how:
        return "status:" + how.rpartition(" ")[2] if "with status" in how else "never_began"
    for word in ("max_requests", "max_worker_memory", "max_worker_age", "deadline"):
        if word.replace("_", "-") in stale:
            return word
    return "asked"


def crash_report(number: int, pid: int, how: str, inside: list[str], queued: int = 0) -> str:
    """What the log says of a worker that has died with requests inside, and `queued` ones that nobody had begun."""
    named = " · ".join(inside[:NAMED])
    more = f" · and {len(inside) - NAMED} more" if len(inside) > NAMED else ""
    waited = f"; {queued} more waited in it for a thread, and are lost with it" if queued else ""
    return f"worker {number} (process {pid}) {how} while it worked on: {named}{more}{waited}"


def _span(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"
