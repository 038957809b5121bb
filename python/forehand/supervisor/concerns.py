"""What is not as it should be with the server itself, for who asks: a reload that was given up, a log that cannot be
written, workers that die again and again, a certificate that ends soon, descriptors that are used up, connections that
nobody accepts.

Knows: what has happened, and when. Does not know: whether it is worth a word (`situation.py`). Runs in the supervisor.
"""

from __future__ import annotations

import _socket as socket  # without the enumerations that `socket` makes of its numbers
import os
import sys
import time

from forehand.supervisor import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forehand.listen import Listener
    from forehand.supervisor.state import State

#: Of the times at which workers have died so many are remembered.
TIMES = 1000
#: Of the last workers that have died so many are told in full.
TOLD = 8


class Concerns:
    """What a supervisor remembers of them."""

    def __init__(self) -> None:
        #: The last workers that have ended though nobody has told them to, oldest first.
        self.deaths: list[dict[str, Any]] = []
        #: When each has, in seconds since 1970.
        self.died_at: list[float] = []
        #: The last reload, where it was given up: when, and why.
        self.reload: dict[str, Any] | None = None
        #: Lines that workers' logs have lost, and when that was seen to have become more.
        self.lost = (0, 0.0)
        #: Where nothing can be sent to (`--statsd-host`), and why.
        self.statsd = ""

    def note_death(self, worker: int, pid: int, how: str, inside: list[str]) -> None:
        """A worker has died, and what it worked on."""
        now = time.time()
        self.deaths = [*self.deaths, {"worker": worker, "pid": pid, "at": now, "how": how, "inside": inside}][-TOLD:]
        self.died_at = [*self.died_at, now][-TIMES:]

    def note_reload(self, text: str) -> None:
        """A reload was given up; no text: one has come to its end, and what was before it is of the past."""
        self.reload = {"at": time.time(), "text": _why(text)} if text else None

    def note_lost(self, lines: int) -> None:
        """So many lines have the workers lost that answer now."""
        if lines > self.lost[0]:
            self.lost = (lines, time.time())
        else:
            self.lost = (lines, self.lost[1])

    def told(self, state: State, certificate: dict[str, Any] | None) -> dict[str, Any]:
        """All of it, in types that JSON has. `certificate`: what `tls.py` says of those in use."""
        now = time.time()
        return {
            "deaths": self.deaths, "died_in_an_hour": sum(1 for at in self.died_at if at >= now - 3600),
            "young_deaths": {
                "in_a_row": state.deaths, "last": state.last_words,
                "next_in": round(max(0.0, state.spawn_at - time.monotonic()), 1),
            },
            "reload_given_up": self.reload,
            "log": {"failure": log.failure, "lost": log.lost, "workers_lost": self.lost[0],
                    "workers_lost_at": self.lost[1]},
            "certificate": certificate, "statsd_failure": self.statsd,
        }  # fmt: skip

    def numbers(self, certificate: dict[str, Any] | None) -> dict[str, int]:
        """What who reads shared memory is told of it, by the names of `SERVER_NAMES` (`server/statistics`)."""
        certificate = certificate or {"expires": 0, "lasts": 0, "unused": ""}
        return {
            "reload_given_up_at": int(self.reload["at"]) if self.reload else 0,
            "log_failed": bool(log.failure), "log_lines_lost": log.lost,
            "certificate_expires": max(0, int(certificate["expires"])),
            "certificate_lasts": max(0, int(certificate["lasts"])), "certificate_unused": bool(certificate["unused"]),
        }  # fmt: skip


def descriptors(pid: int) -> dict[str, int] | None:
    """How many file descriptors a process has open, and how many it may have; None: that cannot be known here."""
    try:
        # Linux tells it as the folder's size from 6.2 on.
        used = os.stat(f"/proc/{pid}/fd").st_size or len(os.listdir(f"/proc/{pid}/fd"))
        with open(f"/proc/{pid}/limits", encoding="utf-8") as file:
            most = next(line.split()[3] for line in file if line.startswith("Max open files"))
        # The limit may have been lowered below what is open.
        return {"used": min(used, int(most)), "most": int(most)}
    except (OSError, StopIteration, ValueError):
        return None


def listen_queue(listener: Listener) -> dict[str, Any] | None:
    """How many connections wait for a worker to accept them, and how many may; None: that cannot be known here, as of a
    unix socket."""
    sock = listener.socket
    if sys.platform != "linux" or sock.family == socket.AF_UNIX:
        return None
    try:
        told = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 32)
    except OSError:
        return None
    # Of a socket that listens `tcpi_unacked` and `tcpi_sacked` mean this (linux/tcp.h).
    waiting, limit = (int.from_bytes(told[at : at + 4], sys.byteorder) for at in (24, 28))
    return {"address": listener.url, "waiting": waiting, "limit": limit}


def _why(text: str) -> str:
    """Of what is said of a failure the line that names it: behind a traceback, or the first."""
    lines = [line for line in text.splitlines() if line.strip()]
    named = [line.removeprefix("forehand: ") for line in lines if line.startswith("forehand: ")]
    return (named or lines or ["the log says why"])[0].strip()
