"""`forehand status`: a server's numbers as people read them, and which limits were reached.

Knows: what the supervisor has answered, and which counter belongs to which limit. Does not know: where numbers come
from.
"""

from __future__ import annotations

from typing import Any

from forehand.settings import COUNTED, LIMITS
from forehand.supervisor.state import LEAVING, READY

#: Who has waited no longer ago than that, in seconds, is told of.
RECENT = 60


def shown(found: dict[str, Any], told: dict[str, Any] | None, *, verbose: bool) -> str:
    """A status as people read it: first what somebody needs who was called, then everything. `told`: what
    `situation.py` makes of it; None: of an older server nothing is known but what it says by itself."""
    pss = found["memory_kib"].get("pss", 0) / 1024
    state = "reloading" if found["reloading"] else found["phase"]
    preload = ", preloaded" if found["preload"] else ""
    lines = [
        f"Forehand {found['version']}, Python {found['python']}: {state} for {_span(found['uptime'])}",
        f"  {found['target']} at {'  '.join(found['addresses'])}",
        f"  supervisor {found['pid']} ({pss:.1f} MiB), generation {found['generation']}, "
        f"{found['wanted']} worker{'s' if found['wanted'] != 1 else ''} wanted{preload}",
        *_situation(told),
        "",
        f"  {'worker':>6} {'pid':>8} {'gen':>4} {'state':<9}{'age':>8} {'requests':>10} {'open':>6} {'busy':>9} "
        f"{'queued':>7} {'504s':>6} {'PSS':>8} {'shared':>8} {'private':>8}  MiB",
    ]
    for one in found["workers"]:
        memory = one["memory_kib"]
        pss, shared, private = (f"{memory.get(kind, 0) / 1024:.1f}" for kind in ("pss", "shared", "private"))
        # Of tasks there is no number that there may be.
        tasks = f"{one['busy']} task{'s' if one['busy'] != 1 else ''}"
        busy = f"{one['busy']}/{one['threads']}" if one["threads"] else tasks
        lines.append(
            f"  {one['worker']:>6} {one['pid']:>8} {one['generation']:>4} {one['state']:<9}{_span(one['age']):>8} "
            f"{one['requests']:>10} {one['connections']:>6} {busy:>9} {one['queued']:>7} {one['timeouts']:>6} "
            f"{pss:>8} {shared:>8} {private:>8}  {one['why']}".rstrip()
        )
    notes = [line for one in found["workers"] for line in _notes(one, verbose=verbose)]
    return "\n".join([*lines, *([""] if notes else []), *notes, "", *_counters(found, verbose=verbose)])


def _notes(worker: dict[str, Any], *, verbose: bool) -> list[str]:
    """What a worker has said of its threads, the last or all that is known, and of who waits; what its event loop was
    held up by; and that it takes what computes."""
    changes = worker.get("threads_changes", [])[0 if verbose else -1 :]
    lanes = [note for note in worker.get("lanes", []) if note["ago"] < RECENT or verbose]
    held = worker.get("loop_held")
    loop = []
    if held and (held["ago"] < RECENT or verbose):
        text = f"its event loop was held up for {held['seconds']:.3g} s (the log says by what)"
        loop = [f"  worker {worker['worker']}, {_span(held['ago'])} ago: {text}"]
    if worker.get("apart"):
        loop.append(f"  worker {worker['worker']} takes the requests that compute, of all workers (docs/workers.md)")
    return loop + [
        f"  worker {worker['worker']}, {_span(note['ago'])} ago: {kind}{note['text']}"
        for kind, notes in (("threads ", changes), ("", lanes))
        for note in notes
    ]


def _situation(told: dict[str, Any] | None) -> list[str]:
    if told is None:
        return []
    found = told["findings"]
    lines = ["", "  all is well" if not found else "  look at this:", *(f"  - {line}" for line in found)]
    return [*lines, "", *(f"  {name:<12} {text}" for name, text in told["numbers"])]


def limits(counters: dict[str, int]) -> dict[str, dict[str, int]]:
    """What was reached how often: for each limit's option its counters. Several limits may share one."""
    return {
        LIMITS[name].flag: {counter: counters.get(counter, 0) for counter in COUNTED[name]}
        for name in COUNTED
        if COUNTED[name]
    }


def _counters(found: dict[str, Any], *, verbose: bool) -> list[str]:
    """A line for each counter of a limit that was reached, or for each that there is."""
    sums: dict[str, int] = found["counters"]
    options: dict[str, list[str]] = {}
    for name, counters in COUNTED.items():
        for counter in counters:
            options.setdefault(counter, []).append(LIMITS[name].flag)
    names = [name for name in sums if verbose or (name in options and sums[name])]
    # One that is starting is not asked, and an older server asks none.
    silent = [
        one["worker"]
        for one in found["workers"]
        if one["state"] in (READY, LEAVING) and one.get("counters", {}) is None
    ]
    lines = [f"  worker {number} does not answer: what it has counted is missing here" for number in silent]
    if not names:
        return [*lines, "  no limit was reached"]
    rows = [("times", "by worker", "counter", "limits")]
    for name in names:
        parts = [(one["worker"], (one.get("counters") or {}).get(name, 0)) for one in found["workers"]]
        by_worker = " ".join(f"{worker}:{count}" for worker, count in parts if count)
        rows.append((str(sums[name]), by_worker, name, " ".join(options.get(name, ()))))
    wide = [max(len(row[column]) for row in rows) for column in range(3)]
    return lines + [
        f"  {times:>{wide[0]}}  {parts:<{wide[1]}}  {name:<{wide[2]}}  {limits}".rstrip()
        for times, parts, name, limits in rows
    ]


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
