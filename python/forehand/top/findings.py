"""What is wrong with a server, the worst first.

Knows: what follows from two looks. Does not know: how it is shown.
"""

from __future__ import annotations

from forehand.settings import COUNTED, LIMITS
from forehand.supervisor import situation
from forehand.top.numbers import Between, Look
from forehand.top.words import span

#: A request is late from so many seconds on, and a route is slow whose mean is as long as this.
LATE, SLOW_MEAN = 5.0, 1.0
#: Of a hundred requests of a route so many have to fail for it to be told.
FAILING = 0.05
#: Limits at which clients are turned away.
TURNED_AWAY = ("queue", "queue_timeout", "concurrency", "request_timeout")


def findings(now: Look, came: Between) -> list[str]:
    """A line each; none: nothing that shows here."""
    return [*_server(now), *_threads(now), *_refused(came), *_routes(came)]


def _server(now: Look) -> list[str]:
    status = now.status
    ready = sum(one["state"] == "ready" for one in status["workers"])
    told = situation.phase(status)
    found = [told] if told else []
    if ready < status["wanted"]:
        found.append(f"{ready} of {status['wanted']} workers serve")
    died = situation.died(status, now.wall)
    return [*found, *([died] if died else []), *situation.held_up(status), *situation.of_itself(status, now.wall)]


def _threads(now: Look) -> list[str]:
    found = []
    late = [one for one in now.running if one["seconds"] >= LATE and one["state"] == situation.RUNNING]
    if late:
        many = f"{len(late)} requests are" if len(late) > 1 else "1 request is"
        found.append(f"{many} inside for {LATE:g} s or longer: {late[0]['request']}, {span(late[0]['seconds'])}")
    workers = now.status["workers"]
    full = [one for one in workers if situation.is_short(one, now.status)]
    if full:
        waiting = sum(one["queued"] - one["limited"] for one in full)
        kept = sum(max(0, one["threads"] - one["busy"]) for one in full)
        but = f" but {kept} for quicker requests" if kept else ""
        unit = "greenlet" if situation.has_greenlets(now.status) else "thread"
        found.append(f"every {unit}{but} of {len(full)} of {len(workers)} workers is taken, {waiting} wait")
    return found


def _refused(came: Between) -> list[str]:
    found = []
    for limit in TURNED_AWAY:
        count = sum(came.counted.get(name, 0) for name in COUNTED[limit])
        if count:
            found.append(f"{count} refused or cut in {span(came.seconds)}: {LIMITS[limit].flag}")
    return found


def _routes(came: Between) -> list[str]:
    failing = [one for one in came.routes if one.failed > 1 and one.failed >= FAILING * one.requests]
    slow = [one for one in came.routes if one.mean >= SLOW_MEAN]
    return [
        *(f"{one.name} fails: {one.failed} of {one.requests}" for one in failing[:2]),
        *(f"{one.name} is slow: {span(one.mean)} on average" for one in slow[:2]),
    ]
