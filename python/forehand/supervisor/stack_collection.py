"""`forehand stacks`: what every thread of every worker is doing, collected for one client.

Knows: workers that answer, and the signal for those that do not. Does not know: frames
(`stacks.py`, in the worker). Runs in the supervisor.
"""

from __future__ import annotations

import os
import time

from forehand.supervisor import decisions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forehand.supervisor.children import Child
    from forehand.supervisor.control import Client
    from forehand.supervisor.supervisor import Supervisor

#: How long a worker may take to show its stacks before it is made to, without its interpreter.
PATIENCE = 0.5
#: How long the signal's answer may take.
FORCED_PATIENCE = 0.2


def begin(supervisor: Supervisor, client: Client) -> None:
    """Ask all workers."""
    assert supervisor.children is not None
    collection = StackCollection(supervisor, client)
    supervisor.timers.append(collection)
    supervisor.stack_readers.append(collection.came)
    for child in supervisor.children.all.values():
        # One that is still importing hears nothing, and the signal would end it.
        worker = supervisor.state.workers.get(child.number)
        if child.pid and worker is not None and worker.state in (decisions.READY, decisions.LEAVING):
            collection.wanted.add(child.number)
            child.channel.tell("stacks")
    collection.look(time.monotonic())


class StackCollection:
    """Stacks of all workers, for one client; those that do not answer are made to."""

    def __init__(self, supervisor: Supervisor, client: Client) -> None:
        self.supervisor = supervisor
        self.client = client
        self.wanted: set[int] = set()
        self.deadline = time.monotonic() + PATIENCE
        self.forced = False

    def came(self, child: Child, text: str) -> None:
        """One worker's stacks."""
        if child.number in self.wanted:
            self.wanted.discard(child.number)
            self.client.tell(worker=child.number, pid=child.pid, stacks=text)
        self.look(time.monotonic())

    def look(self, now: float) -> None:
        """Is it complete, or is it time to use the signal?"""
        if self.wanted and now >= self.deadline:
            self._force(now)
        if not self.wanted:
            self.supervisor.timers.remove(self)
            self.supervisor.stack_readers.remove(self.came)
            self.client.tell(ok=True, text="")
            self.supervisor.close_client(self.client)

    def _force(self, now: float) -> None:
        """First the signal, whose answer is written without the interpreter; then what it wrote."""
        from forehand import _core

        assert self.supervisor.children is not None
        for child in [self.supervisor.children.all.get(number) for number in list(self.wanted)]:
            if child is None:
                continue
            if not self.forced:
                os.ftruncate(child.stacks, 0)
                os.lseek(child.stacks, 0, os.SEEK_SET)
                try:
                    os.kill(child.pid, _core.STACKS_SIGNAL)
                except ProcessLookupError:
                    self.wanted.discard(child.number)  # it has just ended
                continue
            text = os.pread(child.stacks, 1 << 20, 0).decode(errors="replace")
            note = "its interpreter does not let it answer; as the signal handler saw it:\n"
            self.client.tell(worker=child.number, pid=child.pid, stacks=note + (text or "(nothing was written)\n"))
            self.wanted.discard(child.number)
        if self.forced:
            self.wanted.clear()
        self.forced = True
        self.deadline = now + FORCED_PATIENCE
