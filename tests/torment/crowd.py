"""The crowd: hundreds of clients at a time on one thread, and what else is to happen at its time.

Knows: the kernel's events, and who waits for which. Does not know: what clients do, or what is judged.
"""

from __future__ import annotations

import heapq
import itertools
import select
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from torment.client import Client
from torment.replies import Replies
from torment.script import Script

#: A client that is not done so many seconds after its beginning is stuck. Longer than every timeout of the server's.
PATIENCE = 25.0
#: A crowd that is later than this with a round, in seconds, is no judge of the server's patience with it. The same
#: for a client that lost so much of its time in small pieces.
LATE = 0.7
#: What a client loses is forgotten at this pace, in seconds a second: one that is always a little late keeps its pace.
FORGOTTEN = 0.2
#: Where there is no room a client comes so many seconds later.
FULL = 0.05


@dataclass
class Crowd:
    """Clients of one server. `begin` and `at` add to what `run` does."""

    port: int
    supervisor: int
    #: So many are there at a time, but for those who stay; 0: no bound.
    room: int = 0
    clients: list[Client] = field(default_factory=list)
    #: Clients that are connected.
    there: dict[int, Client] = field(default_factory=dict)
    most: int = 0
    #: The latest that a round has ever been, in seconds, where it was too late.
    lag: float = 0
    _epoll: select.epoll = field(default_factory=select.epoll)
    _asked: dict[int, int] = field(default_factory=dict)
    _timers: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    #: Of the timers, those that are more than alarms of clients.
    _planned: int = 0
    _order: itertools.count[int] = field(default_factory=itertools.count)

    def at(self, when: float, what: Callable[[], None]) -> None:
        """Do something then (monotonic seconds)."""

        def planned() -> None:
            self._planned -= 1
            what()

        self._planned += 1
        self._alarm(when, planned)

    def _alarm(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (when, next(self._order), what))

    def invite(self, scripts: Iterable[Script], now: float) -> None:
        """Have clients come at their times."""
        for script in scripts:
            self.at(now + script.starts, lambda script=script: self._begin(script))  # type: ignore[misc]

    def run(self) -> None:
        """Until nothing more is to happen, and nobody is there but those who stay without listening."""
        due = time.monotonic()
        while self._planned or any(not client.lingers for client in self.there.values()):
            now = self._look_at_clock(due)
            while self._timers and self._timers[0][0] <= now:
                heapq.heappop(self._timers)[2]()
            wait = min(max(self._timers[0][0] - now, 0), 1.0) if self._timers else 1.0
            due = now + wait
            events = self._epoll.poll(wait)
            for fd, happened in events:
                # What is heard late may be an answer to what was said late.
                now = self._look_at_clock(due)
                client = self.there.get(fd)
                if client:
                    client.happened(happened, now)
                    self._go_on(client, fd)

    def _look_at_clock(self, due: float) -> float:
        """What time it is, where it should be no later than `due`."""
        now = time.monotonic()
        if now - due > LATE:
            # Somebody else has had this processor: none of these clients can have kept its pace.
            self.lag = max(self.lag, now - due)
            for late in self.there.values():
                late.replies.excused = True
        return now

    def release(self) -> None:
        """Those who stay may go."""
        for client in self.there.values():
            client.leave()
        self.there.clear()

    def _begin(self, script: Script) -> None:
        if 0 < self.room <= sum(not client.lingers for client in self.there.values()):
            self.at(time.monotonic() + FULL, lambda: self._begin(script))
            return
        sock = socket.socket()
        sock.setblocking(False)
        if script.room:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, script.room)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        now = time.monotonic()
        client = Client(script, sock, Replies(self.supervisor), now + PATIENCE)
        self.clients.append(client)
        try:
            # On loopback this is done at once, or not at all.
            if sock.connect_ex(("127.0.0.1", self.port)):
                sock.setblocking(True)
                sock.settimeout(5)
                sock.connect(("127.0.0.1", self.port))
                sock.setblocking(False)
        except OSError as error:
            client.wrong, client.ended = f"it could not connect: {error}", "reset"
            sock.close()
            return
        client.port = sock.getsockname()[1]
        fd = sock.fileno()
        self.there[fd] = client
        self.most = max(self.most, len(self.there))
        self._asked[fd] = 0
        self._epoll.register(fd, 0)
        self._go_on(client, fd)

    def _go_on(self, client: Client, fd: int) -> None:
        now = time.monotonic()
        client.act(now)
        if client.ended:
            # A closed descriptor has left the set by itself.
            del self.there[fd], self._asked[fd]
            return
        wanted = client.wants(now)
        if wanted != self._asked[fd]:
            self._epoll.modify(fd, wanted)
            self._asked[fd] = wanted
        wakes = client.wakes(now)
        if wakes != client.alarm:
            client.alarm = wakes
            self._alarm(wakes, lambda: self._woken(client, fd, wakes))

    def _woken(self, client: Client, fd: int, due: float) -> None:
        if self.there.get(fd) is client:
            if client.alarm == due:
                now = time.monotonic()
                client.lost = max(0.0, client.lost - (now - client.lost_at) * FORGOTTEN) + now - due
                client.lost_at = now
                if client.lost > LATE:
                    client.replies.excused = True
            client.alarm = 0
            self._go_on(client, fd)
