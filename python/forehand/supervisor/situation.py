"""What somebody needs to know first who was called because of a server: whether all is well, and if not what is wrong,
and which command says more.

Knows: what follows from a status, from the shared numbers and from what is inside. Does not know: how they come by, or
who is shown it (`status_text.py`). Pure.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from forehand.supervisor.decisions import LEAVING, READY

#: A request that is inside for so long is worth a word, in seconds: what `--slow-request` is by default.
LONG = 5.0
#: How far back failures are looked for, in seconds.
RECENT = 300.0
#: How far back workers that have died are told of, in seconds: somebody has to wake up first.
DIED = 3600.0
#: Routes that are named.
NAMED = 3
#: Phases that make up the whole, and how they are called.
SHOWN = {"receive": "received", "queue": "queued", "gil": "interpreter's lock", "app": "application", "send": "sent"}
Row = dict[str, Any]


def findings(status: Row, running: list[Row], ended: list[Row], now: float) -> list[str]:
    """What is not as it should be, the gravest first; none: all is well. `running` and `ended` as `forehand requests`
    has them, `now` in seconds since 1970."""
    return [line for line in (_phase(status), _workers(status), died(status, now), _full(status, running),
                              _stuck(running), _failed(ended, now)) if line]  # fmt: skip


def _phase(status: Row) -> str:
    if status["phase"] == "draining":
        return "it will stop: /readyz says so, and requests are answered until --shutdown-delay is over"
    return "" if status["phase"] == "serving" else f"it is {status['phase']}"


def _workers(status: Row) -> str:
    serve = sum(1 for one in status["workers"] if one["state"] == READY)
    if serve >= status["wanted"] or status["phase"] != "serving":
        return ""
    return f"{serve} of {status['wanted']} workers serve: the log says why the others do not"


def died(status: Row, now: float) -> str:
    """Which worker has died lately, of what, and what it worked on; empty: none has."""
    lately = [one for one in status.get("deaths", []) if one["at"] >= now - DIED]
    if not lately:
        return ""
    last = lately[-1]
    many = f"{len(lately)} workers have died in the last hour, the last one: " if len(lately) > 1 else ""
    ago = now - last["at"]
    when = f"{ago:.0f} s" if ago < 120 else f"{ago / 60:.0f} min"
    more = f" and {len(last['inside']) - 1} more" if len(last["inside"]) > 1 else ""
    on = f", while it worked on {last['inside'][0]}{more}" if last["inside"] else ""
    return f"{many}worker {last['worker']} (process {last['pid']}) {last['how']} {when} ago{on} (the log)"


def _full(status: Row, running: list[Row]) -> str:
    busy = [one for one in status["workers"] if one["state"] in (READY, LEAVING)]
    full = [one for one in busy if one["threads"] and one["busy"] >= one["threads"] and one["queued"]]
    if not full:
        return ""
    waiting = sum(one["queued"] for one in full)
    numbers = {one["worker"] for one in full}
    paths = Counter(one["request"] for one in running if one["worker"] in numbers)
    most = "".join(f": {count} are in {path}" for path, count in paths.most_common(1) if count > 1)
    where = "every worker" if len(full) == len(busy) else f"{len(full)} of {len(busy)} workers"
    return f"every thread of {where} is taken, and {_count(waiting, 'request waits', 'requests wait')}{most}"


def _stuck(running: list[Row]) -> str:
    long = [one for one in running if one["inside"] >= LONG]
    if not long:
        return ""
    oldest = max(long, key=lambda one: one["inside"])
    others = f", and {len(long) - 1} more for more than {LONG:g} s" if len(long) > 1 else ""
    return (
        f"{oldest['request']} is inside worker {oldest['worker']} for {oldest['inside']:.0f} s{others} "
        "(forehand requests --running, forehand stacks)"
    )


def _failed(ended: list[Row], now: float) -> str:
    recent = [one for one in ended if one["ended"] >= now - RECENT and (one["status"] >= 500 or one["error"])]
    # Of a worker that has died, and of what it worked on, is told above.
    recent = [one for one in recent if one["error"] != "worker_died"]
    if not recent:
        return ""
    kinds = Counter(f"{one['error'] or one['status']} of {one['request']}" for one in recent)
    kind, count = kinds.most_common(1)[0]
    text = _count(len(recent), "request has failed", "requests have failed")
    return f"{text} in the last {RECENT / 60:.0f} minutes, {count} by {kind} (forehand requests --failed)"


def numbers(status: Row, totals: Row) -> list[tuple[str, str]]:
    """What is true of all requests since the server was started: a word and a text each."""
    told = []
    total = totals["phases"]["total"]
    waiting = sum(one["queued"] for one in status["workers"])
    text = f"{totals['requests']}, {totals['inside']} inside now, {waiting} waiting"
    if totals["died_inside"]:
        text += f", {totals['died_inside']} died with their workers"
    if total[0]:
        text += f"; half below {_span(total[2])}, 95 % below {_span(total[3])}, 99 % below {_span(total[4])}"
    told.append(("requests", text))
    spent = {name: totals["phases"][name][1] for name in SHOWN}
    whole = sum(spent.values())
    if whole > 0:
        parts = [f"{SHOWN[name]} {_share(part, whole)}" for name, part in spent.items() if part >= 0.005 * whole]
        told.append(("their time", ", ".join(parts)))
    routes = sorted(((one[2], name) for name, one in totals["routes"].items()), reverse=True)
    inside = sum(seconds for seconds, _ in routes)
    if inside > 0:
        parts = [f"{name} {_share(seconds, inside)}" for seconds, name in routes[:NAMED] if seconds >= 0.005 * inside]
        told.append(("busiest", ", ".join(parts)))
    return told


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %"


def _count(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _span(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
