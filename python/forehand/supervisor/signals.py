"""The supervisor's signals: gunicorn's, as words.

Knows: numbers and names. Does not know: what is done (`orders.py`). A handler notes its word;
a byte in a pipe wakes the loop, which takes the words in order.
"""

from __future__ import annotations

import os

from forehand import ending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Signal → word. SIGCHLD only wakes.
WORDS = {
    "SIGHUP": "reload",
    "SIGTERM": "stop",
    "SIGINT": "interrupt",
    "SIGQUIT": "quit",
    "SIGTTIN": "more",
    "SIGTTOU": "fewer",
    "SIGUSR1": "reopen",
    "SIGUSR2": "upgrade",
    "SIGWINCH": "rest",
    "SIGCHLD": "",
}


def hold() -> None:
    """Let signals wait: until the next program has its handlers each would have its default
    effect, which is to end or to stop the process. The mask survives exec(3)."""
    import _signal as signal

    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_BLOCK, _numbers())


def _numbers() -> list[int]:
    import _signal as signal

    return [getattr(signal, name) for name in WORDS]


class Signals:
    """Takes the process's signals. `reader` can be polled."""

    def __init__(self) -> None:
        import _signal as signal  # the module `signal` would bring `enum`

        self.asked: list[str] = []
        self.before = ending.handlers(_numbers())
        for name, word in WORDS.items():
            signal.signal(getattr(signal, name), self._noter(word))
        self.reader, self.writer = os.pipe()
        for fd in (self.reader, self.writer):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self.writer, warn_on_full_buffer=False)
        # What came while one program was becoming the next has waited (`hold`).
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _numbers())

    def give_back(self) -> None:
        """Nobody waits any more. Where the process ends now nothing is left that a word could stop, and Python's end,
        which gives each signal its default effect again, must not make a failure of it."""
        import _signal as signal

        if ending.process_ends:
            self.before = {number: signal.SIG_IGN for number in self.before if number != signal.SIGCHLD}
        for number, handler in self.before.items():
            if handler is not None:
                signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        for fd in (self.reader, self.writer):
            os.close(fd)

    def take(self) -> list[str]:
        """The words since the last time."""
        try:
            os.read(self.reader, 512)
        except OSError:
            pass  # woken for nothing
        words, self.asked = self.asked, []
        return words

    def _noter(self, word: str) -> Callable[[int, object], None]:
        def note(number: int, frame: object) -> None:
            if word:
                self.asked.append(word)

        return note
