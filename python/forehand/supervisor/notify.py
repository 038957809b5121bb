"""systemd: readiness, reloads and the watchdog (sd_notify(3)), and sockets (sd_listen_fds(3)).

Knows: datagrams to the address in NOTIFY_SOCKET. Does not know: what a unit does with them.
Without that variable nothing is sent.
"""

from __future__ import annotations

import _socket as socket
import os
import time

FIRST = 3


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

    def variables(self) -> dict[str, str]:
        """What a program that takes this one's place needs to find in its environment."""
        found = {}
        if self.address:
            found["NOTIFY_SOCKET"] = "@" + self.address[1:] if self.address.startswith("\0") else self.address
        if self.every:
            found["WATCHDOG_USEC"] = str(round(self.every * 2e6))
        return found

    def send(self, *words: str) -> None:
        """Send assignments such as READY=1."""
        if not self.address:
            return
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            sock.sendto("\n".join(words).encode(), self.address)
        except OSError:
            pass  # the manager is gone or busy, and must stop nothing
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
        """Say so when it is time; when the next time is."""
        if not self.every:
            return float("inf")
        if now >= self.next:
            self.send("WATCHDOG=1")
            self.next = now + self.every
        return self.next


def sockets() -> list[str]:
    """Addresses of the sockets that systemd has opened for this process, as `--bind` has them."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return []
    count = os.environ.pop("LISTEN_FDS", "0")
    for name in ("LISTEN_PID", "LISTEN_FDNAMES"):
        os.environ.pop(name, None)
    return [f"fd://{FIRST + index}" for index in range(int(count) if count.isdigit() else 0)]
