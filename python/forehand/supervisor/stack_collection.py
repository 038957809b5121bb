"""`forehand stacks`: what every thread of every worker is doing, collected for one client.

Knows: the signal for workers that do not answer. Does not know: frames (`stacks.py`, in the worker). Runs in the
supervisor.
"""

from __future__ import annotations

import os

from forehand.supervisor.collection import Collection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forehand.supervisor.children import Child
    from forehand.supervisor.control import Client
    from forehand.supervisor.supervisor import Supervisor

#: How long the signal's answer may take.
FORCED_PATIENCE = 0.2
#: How long a worker may take that has said that it answers, where others use the processors.
BUSY_PATIENCE = 10.0


class StackCollection(Collection):
    """Stacks of all workers; those that do not answer are made to, without their interpreter."""

    word = "stacks"
    patience = 0.5

    def __init__(self, supervisor: Supervisor, client: Client) -> None:
        super().__init__(supervisor, client)
        #: Numbers of those that have begun to answer, and until when they may.
        self.answering: set[int] = set()
        self.last = self.deadline - self.patience + BUSY_PATIENCE
        #: Numbers of those that have had the signal.
        self.forced: set[int] = set()

    def heard(self, child: Child) -> None:
        """Its interpreter lets it answer."""
        self.answering.add(child.number)

    def take(self, child: Child, text: str) -> None:
        """One worker's stacks."""
        self.client.tell(worker=child.number, pid=child.pid, stacks=text)

    def complete(self) -> None:
        """All of them have been given."""
        self.client.tell(ok=True, text="")

    def late(self, now: float) -> None:
        """First the signal, whose answer is written without the interpreter; then what it wrote."""
        assert self.supervisor.children is not None
        for child in [self.supervisor.children.all[number] for number in self.wanted]:
            if child.number in self.answering and now < self.last:
                continue
            if child.number not in self.forced:
                self._force(child)
            else:
                text = os.pread(child.stacks, 1 << 20, 0).decode(errors="replace")
                note = "its interpreter does not let it answer; as the signal handler saw it:\n"
                self.take(child, note + (text or "(nothing was written)\n"))
                self.wanted.discard(child.number)
        self.deadline = now + FORCED_PATIENCE

    def _force(self, child: Child) -> None:
        from forehand import _core

        self.forced.add(child.number)
        os.ftruncate(child.stacks, 0)
        os.lseek(child.stacks, 0, os.SEEK_SET)
        try:
            os.kill(child.pid, _core.STACKS_SIGNAL)
        except ProcessLookupError:
            self.wanted.discard(child.number)  # it has just ended
