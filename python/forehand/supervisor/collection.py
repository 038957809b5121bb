"""Answers of all workers to one word, collected for one client of the control socket.

Knows: workers that answer, and how long they may take. Does not know: what the answers are. Runs in the supervisor,
which waits for none of them.
"""

from __future__ import annotations

import time

from forehand.supervisor.state import LEAVING, READY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forehand.supervisor.children import Child
    from forehand.supervisor.control import Client
    from forehand.supervisor.supervisor import Supervisor


class Collection:
    """What one client has asked of all workers. A class of its own says what becomes of it."""

    #: What workers are asked; their answers begin with it.
    word: str
    #: How long they may take, in seconds.
    patience: float

    def __init__(self, supervisor: Supervisor, client: Client) -> None:
        self.supervisor = supervisor
        self.client = client
        #: Numbers of the workers that have not answered.
        self.wanted: set[int] = set()
        self.deadline = time.monotonic() + self.patience

    def begin(self) -> None:
        """Ask all workers."""
        assert self.supervisor.children is not None
        self.supervisor.timers.append(self)
        self.supervisor.collections.append(self)
        for child in self.supervisor.children.all.values():
            # One that is still importing does not listen.
            worker = self.supervisor.state.workers.get(child.number)
            if child.pid and worker is not None and worker.state in (READY, LEAVING):
                self.wanted.add(child.number)
                child.channel.tell(self.word)
        self.look(time.monotonic())

    def came(self, child: Child, text: str) -> None:
        """One worker's answer."""
        if child.number in self.wanted:
            self.wanted.discard(child.number)
            self.take(child, text)
        self.look(time.monotonic())

    def heard(self, child: Child) -> None:
        """One worker says that it has begun to answer."""

    def look(self, now: float) -> None:
        """Is it complete, or have they taken too long?"""
        assert self.supervisor.children is not None
        # One that has ended does not answer.
        self.wanted &= set(self.supervisor.children.all)
        if self.wanted and now >= self.deadline:
            self.late(now)
        if not self.wanted:
            self.supervisor.timers.remove(self)
            self.supervisor.collections.remove(self)
            self.complete()
            self.supervisor.close_client(self.client)

    def take(self, child: Child, text: str) -> None:
        """What one worker has answered."""
        raise NotImplementedError

    def late(self, now: float) -> None:
        """It is time, and some have not answered: wait longer for some, or for none."""
        self.wanted.clear()

    def complete(self) -> None:
        """Give the client the last line."""
        raise NotImplementedError
