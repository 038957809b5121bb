"""Processes: how a worker comes to be, what a supervisor holds of it, and how it is reaped.

Knows: fork, pipes, process ids. Does not know: why one is started or ended. Runs in the
supervisor, and for one line in each child.
"""

from __future__ import annotations

import gc
import os
import time

from forehand.supervisor import channel, worker
from forehand.supervisor.channel import Channel
from forehand.supervisor.scoreboard import Scoreboard
from forehand.supervisor.worker_process import Inherited

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forehand.listen import Listener
    from forehand.supervisor.statistics import Statistics


class Child:
    """One worker's process: its line, its row on the scoreboard, the file that its stacks go to."""

    __slots__ = (
        "channel",
        "faulty",
        "queued",
        "generation",
        "killed",
        "notes",
        "number",
        "pid",
        "row",
        "stacks",
        "told",
    )

    def __init__(self, number: int, generation: int, line: int, row: int, stacks: int) -> None:
        self.number = number
        self.generation = generation
        #: Zero until it is known: a worker out of a template process tells it itself.
        self.pid = 0
        self.channel = Channel(line)
        self.row = row
        self.stacks = stacks
        #: Whether SIGKILL was sent to it from here, and why, for people; None: it was not.
        self.killed: str | None = None
        #: The thread that a fault in C has ended, and the worker with it; zero: none is known.
        self.faulty = 0
        #: Requests that waited in it for a thread when it ended: nobody has begun them.
        self.queued = 0
        #: What it said of its failure: (exit status, text).
        self.told: tuple[int, str] | None = None
        #: What it has said of its threads and lanes, and of its loop, the last of each kind, with when.
        self.notes: dict[str, list[tuple[float, str]]] = {}

    def note(self, kind: str, text: str, most: int) -> None:
        """Keep what it says, and so many of the same kind."""
        self.notes[kind] = [*self.notes.get(kind, []), (time.monotonic(), text)][-most:]

    def noted(self, kind: str) -> list[dict[str, Any]]:
        """What it has said, oldest first, each with how many seconds ago that was."""
        now = time.monotonic()
        return [{"ago": round(now - at, 1), "text": text} for at, text in self.notes.get(kind, [])]


class Children:
    """All workers' processes, and what they share: listeners, scoreboard, the parent's pipe."""

    def __init__(
        self, listeners: list[Listener], scoreboard: Scoreboard, statistics: Statistics, parent_pipe: tuple[int, int]
    ) -> None:
        self.listeners = listeners
        self.scoreboard = scoreboard
        self.statistics = statistics
        #: Read end, write end. Only the supervisor holds the write end, so that its death is
        #: the end of the pipe for all who hold the other.
        self.parent_pipe = parent_pipe
        self.all: dict[int, Child] = {}
        #: Memory with what workers need for TLS (`handed_tls.py`); -1: nothing.
        self.tls_fd = -1
        #: Memory in which spans are left (`tracing.py`); -1: nothing is traced.
        self.spans_fd = -1
        #: Descriptors that no child may keep.
        self.private: set[int] = set()

    def make(self, number: int, generation: int) -> tuple[Child, int]:
        """A child that is about to be: with it the descriptor of its own end."""
        ours, theirs = channel.pair()
        try:
            stacks = os.memfd_create("forehand-stacks")
        except OSError:
            os.close(ours)
            os.close(theirs)
            raise
        child = Child(number, generation, ours, self.scoreboard.take(), stacks)
        self.statistics.take(child.row)
        self.all[number] = child
        return child, theirs

    def fork(self, number: int, generation: int, plan: dict[str, Any]) -> Child:
        """Start a worker that imports the application itself. Raises OSError."""
        child, theirs = self.make(number, generation)
        try:
            pid = os.fork()
        except OSError:
            os.close(theirs)
            self.drop(child)
            raise
        if pid == 0:
            self.close_supervisors_fds()
            worker.run(self.inherited(child, theirs), plan)
        os.close(theirs)
        child.pid = pid
        return child

    def inherited(self, child: Child, line: int) -> Inherited:
        """What the worker is given."""
        lent = [listener.lent() for listener in self.listeners]
        fds = (line, self.parent_pipe[0], child.stacks, self.tls_fd, self.statistics.fd, self.spans_fd)
        return Inherited(child.number, child.generation, fds, self.scoreboard.place(child.row), lent)

    def close_supervisors_fds(self) -> None:
        """In a new child: let go of what is the supervisor's."""
        import _signal as signal

        signal.set_wakeup_fd(-1)
        os.close(self.parent_pipe[1])
        for child in self.all.values():
            child.channel.close()
        for fd in self.private:
            try:
                os.close(fd)
            except OSError:
                pass  # it was closed before
        # What the supervisor has made is not looked through again by a worker's collector.
        gc.freeze()

    def by_pid(self, pid: int) -> Child | None:
        """The child that a process is."""
        return next((child for child in self.all.values() if child.pid == pid), None)

    def drop(self, child: Child, exit: int = 0) -> list[str]:
        """Its process is no more. What it worked on, as lines. `exit`: where the statistics say why it has ended."""
        self.all.pop(child.number, None)
        child.channel.close()
        os.close(child.stacks)
        child.queued = self.scoreboard.read(child.row)["queued"]
        inside = self.statistics.fold(child.row, (child.number, child.pid, exit), child.faulty)
        self.scoreboard.free(child.row)
        return inside


def described(status: int) -> tuple[str, bool]:
    """A wait status in words, and whether it was a failure."""
    if os.WIFSIGNALED(status):
        import _signal as signal

        number = os.WTERMSIG(status)
        name = next((n for n in dir(signal) if n.startswith("SIG") and getattr(signal, n) == number), "")
        return f"was ended by signal {number}{f' ({name})' if name else ''}", True
    code = os.WEXITSTATUS(status)
    return f"ended with status {code}", code != 0
