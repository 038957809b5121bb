"""systemd: readiness, reloads and the watchdog (sd_notify(3)).

Knows: datagrams to the address in NOTIFY_SOCKET. Does not know: what a unit does with them.
Without that variable nothing is sent.
"""

from __future__ import annotations

import _socket as socket
import os
import time

#: Seconds after which a manager that was too busy is told again.
AGAIN = 0.1


class Notify:
    """The line to the service manager."""

    def __init__(self) -> None:
        address = os.environ.pop("NOTIFY_SOCKET", "")
        self.address = "\0" + address[1:] if address.startswith("@") else address
        usec = os.environ.pop("WATCHDOG_USEC", "0")
        ours = os.environ.pop("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        #: Seconds between two signs of life: half of what is asked for, as sd_watchdog_enabled(3) says.
        self.every = int(usec) / 2e6 if ours and usec.isdigit() else 0.0
        self.next = 0.0
        #: What the manager had no room for, in its order.
        self.untold: list[bytes] = []

    def variables(self) -> dict[str, str]:
        """What a program that takes this one's place needs to find in its environment."""
        found = {}
        if self.address:
            found["NOTIFY_SOCKET"] = "@" + self.address[1:] if self.address.startswith("\0") else self.address
        if self.every:
            found["WATCHDOG_USEC"] = str(round(self.every * 2e6))
        return found

    def send(self, *words: str) -> None:
        """Send assignments such as READY=1; to a manager that is busy, later."""
        if self.address:
            self.untold.append("\n".join(words).encode())
            self._tell()

    def _tell(self) -> None:
        """Never waits: a manager that reads nothing has a queue of a few messages, and must stop nothing."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sock.setblocking(False)
        try:
            while self.untold:
                sock.sendto(self.untold[0], self.address)
                self.untold.pop(0)
        except BlockingIOError:
            pass
        except OSError:
            self.untold.clear()  # it is gone
        finally:
            sock.close()

    def ready(self, status: str) -> None:
        """The server serves."""
        self.send("READY=1", f"MAINPID={os.getpid()}", f"STATUS={status}")

    def reloading(self) -> None:
        """A reload begins; `ready` ends it."""
        self.send("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self) -> None:
        """The server is about to end."""
        self.send("STOPPING=1")

    def alive(self, now: float) -> float:
        """Say so when it is time; when the next time is. Who is told late is told of one sign and not of all."""
        if self.untold:
            self._tell()
        if self.every and now >= self.next:
            if not self.untold:
                self.send("WATCHDOG=1")
            self.next = now + self.every
        if self.untold:
            return now + AGAIN
        return self.next if self.every else float("inf")
