"""One client: a script that is acted out on a socket, and what came of it.

Knows: a socket and its script. Does not know: other clients, or what time is spent between two calls. Runs in the
crowd's loop (`crowd.py`), and never waits.
"""

from __future__ import annotations

import math
import select
import socket
import time
from dataclasses import dataclass, field

from torment.replies import Replies, Wrong
from torment.script import Script, Step

READABLE = select.EPOLLIN | select.EPOLLRDHUP
#: Who has ended its own side looks like one that is gone, and is taken for it if its request has waited for its turn
#: for a quarter of a second (docs/workers.md). The server's clock for that may begin a little before ours.
GIVEN_UP = 0.2


@dataclass
class Client:
    """A script under way."""

    script: Script
    sock: socket.socket
    replies: Replies
    #: By when all of it must be over.
    deadline: float
    port: int = 0
    #: The process that it talks to was killed.
    doomed: bool = False
    #: What is wrong; empty as long as nothing is.
    wrong: str = ""
    #: It was taken to have left, as it had ended its own side: its last request was not begun.
    given_up: bool = False
    #: How it ended: `left` (by itself), `eof`, `reset`, `late`; empty while it goes on.
    ended: str = ""
    #: Requests of which something was sent, or is about to be.
    begun: int = 0
    #: When the crowd will look at it again, whatever happens.
    alarm: float = 0
    #: How late the crowd was with it lately, and when that was counted, in seconds.
    lost: float = 0
    lost_at: float = 0
    _step: int = 0
    _out: memoryview = field(default_factory=lambda: memoryview(b""))
    #: When a pause ends, and when the next gulp may be taken.
    _wakes: float = 0
    _thirsty: float = 0
    #: When it has ended its own side.
    _half_at: float = math.inf
    _deaf: bool = False
    #: The server has said that nothing more comes; it has been seen.
    _peer_done: bool = False
    #: Nothing more can be sent: what is left to do is to hear what was said before.
    _broken: bool = False

    def wakes(self, now: float) -> float:
        """When to call `act` again although nothing has happened on the socket."""
        # Who stays without listening may not hear that the server has ended it: whether it has, the server is asked.
        times = [] if self.lingers else [self.deadline]
        if self._wakes > now:
            times.append(self._wakes)
        if self._thirsty > now:
            times.append(self._thirsty)
        return min(times, default=math.inf)

    def wants(self, now: float) -> int:
        """Events to be told of."""
        wanted = select.EPOLLOUT if self._out else 0
        if not self._deaf and self._thirsty <= now:
            return wanted | READABLE
        # One who does not read wants to know that the other side has ended all the same, once.
        return wanted if self._peer_done else wanted | select.EPOLLRDHUP

    def happened(self, events: int, now: float) -> None:
        """Something has happened on the socket."""
        if events & (select.EPOLLHUP | select.EPOLLERR):
            self._read(now, hurried=True)
        elif events & select.EPOLLRDHUP:
            self._peer_done = True
        if events & select.EPOLLIN and not self.ended and not self._deaf and self._thirsty <= now:
            self._read(now)

    def act(self, now: float) -> None:
        """Goes on with the script as far as it goes."""
        while not self.ended:
            if now >= self.deadline and not self.lingers:
                self._finish("late")
                return
            if self._broken or (self._out and not self._send()):
                return
            if self._step >= len(self.script.steps):
                self._finish("left")
                return
            if not self._take(self.script.steps[self._step], now):
                return
            self._step += 1

    def leave(self) -> None:
        """Goes, at the end of all."""
        self._finish("left")

    def _current(self) -> str:
        return self.script.steps[self._step].do if self._step < len(self.script.steps) else ""

    def _take(self, step: Step, now: float) -> bool:
        """One step; False: it is not done yet."""
        if step.do == "send":
            self.replies.asked.extend(step.asked)
            self.begun += len(step.asked)
            self._out = memoryview(step.data)
            return True
        if step.do == "pause":
            if not self._wakes:
                self._wakes = now + step.value
            if now < self._wakes:
                return False
            self._wakes = 0
            return True
        if step.do == "until":
            return self.replies.whole >= step.value or self.replies.closing
        if step.do in ("deaf", "hear"):
            self._deaf = step.do == "deaf"
            return True
        return self._part(step, now)

    def _part(self, step: Step, now: float) -> bool:
        """A way to leave."""
        if step.do == "half":
            self._half_at = now
            try:
                self.sock.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the server has ended it; what it has sent is read
            return True
        if step.do == "end":
            return False  # the server's end is the end
        if step.do == "reset":
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self._finish("left")
        return False

    def _send(self) -> bool:
        try:
            sent = self.sock.send(self._out)
        except BlockingIOError:
            return False
        except OSError:
            # The server has ended the connection, and may have told why: that is read.
            self._out = memoryview(b"")
            self._broken = True
            self._deaf = False
            return False
        self._out = self._out[sent:]
        return not self._out

    def _read(self, now: float, *, hurried: bool = False) -> None:
        while True:
            try:
                data = self.sock.recv(self.script.gulp)
            except BlockingIOError:
                return
            except OSError:
                self._finish("reset")
                return
            if not data:
                self._finish("eof")
                return
            try:
                self.replies.feed(data)
            except Wrong as wrong:
                self.wrong = str(wrong)
                self._finish("left")
                return
            if not hurried:
                self._thirsty = now + self.script.rest if self.script.rest else 0
                return

    def _finish(self, how: str) -> None:
        self.ended = how
        self.sock.close()
        if not self.wrong:
            self.wrong = self._judge()

    def _judge(self) -> str:
        """What is wrong with how it ended."""
        replies = self.replies
        if self.ended == "late":
            owed = replies.asked[0].name if replies.asked else "nothing"
            return f"it is stuck: {replies.whole} replies have come, {owed} is due, {replies.unfinished()}"
        if self.ended == "left":
            return ""
        try:
            cut = replies.unfinished()
        except Wrong as wrong:
            return str(wrong)
        if self.doomed or not (cut or replies.asked):
            return ""
        if "nothing that shows it" in cut and self.ended == "eof":
            return cut
        if not self.script.fair or self.replies.excused or self._fragile():
            return ""
        self.given_up = not cut and self._is_given_up()
        if not cut and (replies.closing or self.given_up):
            return ""
        return f"{self.ended} after {replies.whole} replies, {len(replies.asked)} are due; {cut or 'between two'}"

    def _is_given_up(self) -> bool:
        """The last of its requests was not begun."""
        waited = time.monotonic() - self._half_at
        return self.ended == "eof" and len(self.replies.asked) == 1 and waited >= GIVEN_UP

    def _fragile(self) -> bool:
        """One of its requests gives the server a reason to end the connection."""
        asked = [one for step in self.script.steps for one in step.asked]
        return any(one.may_be_cut or one.unread for one in asked)

    def describe(self) -> str:
        """For the one who looks for the cause."""
        steps = " ".join(f"{step.do}:{len(step.data) or step.value or ''}" for step in self.script.steps[:12])
        return (
            f"connection {self.script.number} ({self.script.kind}, from port {self.port}, "
            f"worker {self.replies.worker}): {self.wrong}\n    step {self._step} of {steps[:300]}"
        )

    @property
    def lingers(self) -> bool:
        """All that it has left to do is to stay, without listening."""
        return self._deaf and not self._out and self._current() == "end"

    @property
    def cut(self) -> bool:
        """A reply came in part, or not at all, before the server ended the connection."""
        return self.ended in ("eof", "reset", "late") and not self.replies.idle
