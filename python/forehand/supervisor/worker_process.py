"""A worker's process as its own code sees it: what it was given, its line to the supervisor, its signals.

Knows: descriptors, signals, hooks. Does not know: engines and applications. Runs in the worker.
"""

from __future__ import annotations

import os

from forehand import _core, forked
from forehand.supervisor import hooks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from forehand.listen import Lent
    from forehand.supervisor.channel import Channel

#: Signals that a worker, or what forks workers, hears or lets pass.
NOTED = ("SIGTERM", "SIGQUIT", "SIGUSR1", "SIGINT", "SIGHUP", "SIGUSR2", "SIGTTIN", "SIGTTOU", "SIGWINCH")


class Inherited:
    """What a worker has from the supervisor: its number and generation, and descriptors: of its channel, of the pipe
    that ends with the parent, of a file for stacks, of memory with what TLS needs (-1: none), of the statistics that
    all share, of its row on the scoreboard and what goes with it (`Scoreboard.place`), of the listeners
    (`Listener.lent`)."""

    __slots__ = (
        "channel_fd",
        "generation",
        "listeners",
        "number",
        "parent_pipe",
        "scoreboard",
        "spans",
        "stacks",
        "statistics",
        "tls_fd",
    )

    def __init__(
        self,
        number: int,
        generation: int,
        fds: tuple[int, int, int, int, int, int],
        scoreboard: tuple[int, ...],
        listeners: list[Lent],
    ) -> None:
        self.number = number
        self.generation = generation
        self.channel_fd, self.parent_pipe, self.stacks, self.tls_fd, self.statistics, self.spans = fds
        self.scoreboard = scoreboard
        self.listeners = listeners

    def fds(self) -> list[int]:
        """All descriptors."""
        page, _, *others = self.scoreboard
        own = [self.channel_fd, self.parent_pipe, self.stacks, *([self.tls_fd] if self.tls_fd >= 0 else [])]
        own += [self.statistics, *([self.spans] if self.spans >= 0 else [])]
        return [*own, page, *others, *(fd for fd, _, _ in self.listeners)]


class Signals:
    """A worker's signals. SIGINT comes from the terminal to all of the group, and the
    supervisor's word follows it; the others are the supervisor's and do nothing here."""

    def __init__(self) -> None:
        import _signal as signal

        self.asked: list[str] = []
        words = {"SIGTERM": "retire", "SIGQUIT": "quit", "SIGUSR1": "reopen"}
        for name in NOTED:
            word = words.get(name)
            # A function even where nothing is to be done: what the application starts does
            # not inherit functions, as it would inherit that a signal is ignored.
            signal.signal(getattr(signal, name), self._noter(word))
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.reader, writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        forked.take_signals([getattr(signal, name) for name in NOTED])
        _core.keep_from_children(self.reader)
        _core.keep_from_children(writer)

    def _noter(self, word: str | None) -> Callable[[int, object], None]:
        def note(number: int, frame: object) -> None:
            if word:
                self.asked.append(word)

        return note


class WorkerProcess:
    """One worker's process: the settings that it was started with, its channel and signals, and what hooks are told."""

    def __init__(self, inherited: Inherited, plan: dict[str, Any], channel: Channel) -> None:
        self.plan = plan
        self.channel = channel
        self.tls_fd = inherited.tls_fd
        self.signals = Signals()
        self.facts = {"worker": inherited.number, "generation": inherited.generation, "pid": os.getpid()}

    def ready(self, interface: str = "") -> None:
        """Requests are answered from now on; `interface` stands in the log."""
        self.channel.tell("ready", interface)
        hooks.call(self.plan, "on_worker_ready", self.facts)

    def exits(self, status: int) -> None:
        """Nothing is served any more."""
        hooks.call(self.plan, "on_worker_exit", {**self.facts, "status": status})
