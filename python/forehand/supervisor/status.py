"""What is known of a running server without asking its workers: their rows on the scoreboard, their processes.

Knows: where each number is. Does not know: who asks. Runs in the supervisor.
"""

from __future__ import annotations

import os
import sys
import time

from forehand import __version__
from forehand.supervisor import concerns, memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forehand.supervisor.supervisor import Supervisor


def _loop_held(told: int, now: float) -> dict[str, float] | None:
    """For how long something has held up the worker's event loop the last time, and how long ago that was, in seconds;
    as `server/rows.rs` tells it. None: nothing has."""
    seen, span = divmod(told, 1 << 24)
    return {"seconds": span / 1000, "ago": round(max(0.0, now - seen / 1000), 1)} if told else None


def _loop_blocked(notes: list[dict[str, Any]]) -> dict[str, Any] | None:
    """For how many of ten seconds its event loop was held up, how long ago they ended, and by what at last; empty: that
    is not known. None: for less than one (`server/watchdog.rs`)."""
    if not notes:
        return None
    held, _, by = notes[-1]["text"].partition(" ")
    return {"seconds": int(held) / 1000, "of": 10, "ago": notes[-1]["ago"], "by": by}


def status(supervisor: Supervisor) -> dict[str, Any]:
    """The whole server, in types that JSON has."""
    assert supervisor.children is not None
    now = time.monotonic()
    workers = []
    for number, worker in supervisor.state.workers.items():
        child = supervisor.children.all.get(number)
        if child is None:
            continue
        row = {
            "worker": number, "pid": child.pid, "generation": worker.generation, "state": worker.state,
            "age": round(now - worker.since, 1), "why": worker.stale,
        }  # fmt: skip
        numbers = supervisor.children.scoreboard.read(child.row)
        row.update(numbers)
        row["pid"] = child.pid
        row["loop_held"] = _loop_held(numbers["loop_held"], now)
        row["memory_kib"] = memory.read(child.pid)
        row["descriptors"] = concerns.descriptors(child.pid)
        row["threads_changes"] = child.noted("threads")
        row["lanes"] = child.noted("lanes")
        row["loop_blocked"] = _loop_blocked(child.noted("blocked"))
        workers.append(row)
    settings = supervisor.settings
    certificate = supervisor.tls.told() if supervisor.tls is not None else None
    return {
        "version": __version__, "python": sys.version.split()[0], "pid": os.getpid(), "target": settings["target"],
        "phase": supervisor.state.phase, "generation": supervisor.state.generation,
        "reloading": supervisor.state.coming is not None, "wanted": supervisor.state.rules.wanted,
        "folder": settings["folder"], "preload": settings["preload"], "worker_class": settings["worker_class"],
        "lanes_by_hand": bool(settings["engine"]["lanes"]),
        "uptime": round(time.time() - supervisor.started, 1),
        "addresses": [one.url for one in supervisor.children.listeners],
        "listen_queues": [one for one in map(concerns.listen_queue, supervisor.children.listeners) if one],
        "memory_kib": memory.read(os.getpid()), "workers": workers,
        **supervisor.concerns.told(supervisor.state, certificate),
    }  # fmt: skip
