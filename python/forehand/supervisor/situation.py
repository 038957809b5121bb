"""What somebody needs to know first who was called because of a server: whether all is well, and if not what is wrong,
and which command says more.

Knows: what follows from a status, from the shared numbers and from what is inside. Does not know: how they come by, or
who is shown it (`status_text.py`). Pure.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from forehand.supervisor.state import DRAINING, LEAVING, READY, WAITING

#: A request that is inside for so long is worth a word, in seconds: what `--slow-request` is by default.
LONG = 5.0
#: What a request is that is inside: its application works on it, or is done with it, and its client reads slowly.
RUNNING = "running"
SENDING = "sending"
#: How far back failures are looked for, in seconds.
RECENT = 300.0
#: How far back workers that have died are told of, in seconds: somebody has to wake up first.
DIED = 3600.0
#: A certificate that ends so soon is told of, in seconds; or later, in the last quarter of its life.
ENDS_SOON = 14 * 86400.0
#: Of descriptors such a share in use is told of.
FEW = 0.95
#: Of ten seconds an event loop was held up for so many: requests that take no time wait for others then.
HELD_UP = 3.0
#: Of so many threads one may be kept for quick requests, and another one for slow ones beside such that take longer.
KEPT_SHARE = 4
#: So many requests that have failed a worker keeps.
KEPT = 128
#: Routes that are named.
NAMED = 3
#: Phases that make up the whole, and how they are called.
SHOWN = {"receive": "received", "queue": "queued", "gil": "interpreter's lock", "app": "application", "send": "sent"}
Row = dict[str, Any]


def findings(status: Row, running: list[Row], ended: list[Row], now: float) -> list[str]:
    """What is not as it should be, the gravest first; none: all is well. `running` and `ended` as `forehand requests`
    has them, `now` in seconds since 1970."""
    found = [phase(status), _workers(status), died(status, now), *held_up(status), _full(status, running)]
    return [line for line in (*found, _stuck(running), *of_itself(status, now), _failed(ended, now)) if line]


def of_itself(status: Row, now: float) -> list[str]:
    """What is wrong with the server and not with requests: descriptors, its log, certificates, its code, where it sends
    numbers to, addresses at which nobody is let in. An older server says nothing of them."""
    found = [_descriptors(status), _log(status, now), _certificate(status, now), _reload(status, now), _statsd(status)]
    return [line for line in (*_unaccepted(status), *found) if line]


def _unaccepted(status: Row) -> list[str]:
    # One more than its limit fits.
    full = [one for one in status.get("listen_queues", []) if one["waiting"] > one["limit"]]
    return [
        f"{one['address']}: {_count(one['waiting'], 'connection waits', 'connections wait')} for a worker to accept, "
        f"and there is no room for more, so that others have to try again (--backlog {one['limit']})"
        for one in full
    ]


def _descriptors(status: Row) -> str:
    for one in status["workers"]:
        told = one.get("descriptors")
        if told and told["used"] >= FEW * told["most"]:
            return (
                f"worker {one['worker']} has {told['used']} of the {told['most']} file descriptors that it may have: "
                "raise `ulimit -n`, or lower --limit-connections"
            )
    return ""


def _log(status: Row, now: float) -> str:
    told = status.get("log") or {}
    if told.get("failure"):
        return f"the log cannot be written: {told['failure']}"
    if told.get("lost"):
        return f"nobody reads the log: {_count(told['lost'], 'line was', 'lines were')} lost"
    if told.get("workers_lost") and told["workers_lost_at"] >= now - RECENT:
        many = _count(told["workers_lost"], "line was", "lines were")
        return f"{many} lost of workers' logs: nobody reads them, or the files cannot be written"
    return ""


def _certificate(status: Row, now: float) -> str:
    told = status.get("certificate")
    if not told:
        return ""
    if told["unused"]:
        return str(told["unused"]).partition("\n")[0]
    rest = told["expires"] - now
    if rest > min(ENDS_SOON, told["lasts"] / 4):
        return ""
    at = time.strftime("%Y-%m-%d %H:%M", time.gmtime(told["expires"]))
    return (
        f"the certificate has expired ({at} UTC)" if rest <= 0 else f"the certificate expires at {at} UTC, {_in(rest)}"
    )


def _reload(status: Row, now: float) -> str:
    told = status.get("reload_given_up") if status["phase"] != WAITING else None
    return (
        f"the last reload was given up {_ago(now - told['at'])}, and the code before it serves: {told['text']}"
        if told
        else ""
    )


def _statsd(status: Row) -> str:
    told = status.get("statsd_failure")
    return f"--statsd-host cannot be reached: {told}" if told else ""


def phase(status: Row) -> str:
    """What a server does that does not just serve; empty: it serves."""
    if status["phase"] == DRAINING:
        return "it will stop: /readyz says so, and requests are answered until --shutdown-delay is over"
    if status["phase"] == WAITING:
        told = (status.get("reload_given_up") or {}).get("text", "the log says why")
        return f"the application has not come up, and a change of its files is waited for (--reload): {told}"
    return "" if status["phase"] == "serving" else f"it is {status['phase']}"


def _workers(status: Row) -> str:
    serve = sum(1 for one in status["workers"] if one["state"] == READY)
    if serve >= status["wanted"] or status["phase"] != "serving":
        return ""
    few = f"{serve} of {status['wanted']} workers serve"
    young = status.get("young_deaths") or {"in_a_row": 0}
    if not young["in_a_row"]:
        return f"{few}: the log says why the others do not"
    row = f", {young['in_a_row']} in a row have died soon after their start" if young["in_a_row"] > 1 else ""
    again = f"; the next is started in {young['next_in']:.0f} s" if young["next_in"] else ""
    return f"{few}: {young['last']}{row}{again} (the log)"


def died(status: Row, now: float) -> str:
    """Which worker has died lately, of what, and what it worked on; empty: none has."""
    lately = [one for one in status.get("deaths", []) if one["at"] >= now - DIED]
    if not lately:
        return ""
    last = lately[-1]
    # Only the last ones are told in full.
    count = max(len(lately), status.get("died_in_an_hour", 0))
    many = f"{count} workers have died in the last hour, the last one: " if count > 1 else ""
    when = _ago(now - last["at"])
    more = f" and {len(last['inside']) - 1} more" if len(last["inside"]) > 1 else ""
    on = f", while it worked on {last['inside'][0]}{more}" if last["inside"] else ""
    return f"{many}worker {last['worker']} (process {last['pid']}) {last['how']} {when}{on} (the log)"


def held_up(status: Row) -> list[str]:
    """Whose event loop, or gevent's hub, something holds up for a good part of the time, and what. An older server says
    nothing of it."""
    loop = "gevent's hub" if has_greenlets(status) else "the event loop"
    found = []
    for one in status["workers"]:
        told = one.get("loop_blocked")
        # What was so long ago may have been at the beginning, and no longer counts.
        held = max(0.0, told["seconds"] - told["ago"]) if told else 0.0
        if told and held >= HELD_UP:
            found.append((held, one["worker"], told["by"] or "something that is not known"))
    if not found:
        return []
    held, worker, by = max(found)
    more = f"; {_count(len(found) - 1, 'other worker is', 'other workers are')} held up, too" if len(found) > 1 else ""
    return [
        f"{loop} of worker {worker} was held up for {held:.1f} of the last 10 s, most recently by {by}: nothing else "
        f"of that worker runs meanwhile{more} (the log, docs/asgi.md)"
    ]


def has_greenlets(status: Row) -> bool:
    """Each request has a greenlet, and no thread. An older server does not say it."""
    return bool(status.get("worker_class") == "gevent")


def _full(status: Row, running: list[Row]) -> str:
    busy = [one for one in status["workers"] if one["state"] in (READY, LEAVING)]
    full = [one for one in busy if is_short(one, status)]
    if not full:
        return ""
    waiting = sum(one["queued"] - one.get("limited", 0) for one in full)
    threads = sum(one["threads"] for one in full)
    kept = sum(max(0, one["threads"] - one["busy"]) for one in full)
    numbers = {one["worker"] for one in full}
    paths = Counter(one["request"] for one in running if one["worker"] in numbers and one["state"] == RUNNING)
    most = "".join(f": {count} are in {path}" for path, count in paths.most_common(1) if count > 1)
    where = "every worker" if len(full) == len(busy) else f"{len(full)} of {len(busy)} workers"
    wait = f"{_count(waiting, 'request waits', 'requests wait')}{most}"
    if has_greenlets(status):
        each = full[0]["threads"]
        return f"all {each} greenlets of {where} are taken (--worker-connections {each}), and {wait}"
    if not kept:
        return f"every thread of {where} is taken, and {wait}"
    spare = _count(kept, "is", "are")
    return f"{threads - kept} of {threads} threads of {where} are taken, {spare} kept for quicker requests, and {wait}"


def is_short(worker: Row, status: Row) -> bool:
    """Requests wait for a thread of this worker: all are taken, or those are left that are kept for quicker requests.

    Of four threads or more a quarter at the most is kept for quick requests, and another one for slow requests beside
    such that take much longer (`lanes/rule.rs`); of two already one where somebody says which routes are slow or quick;
    of greenlets none. Those that wait for others of a route (`[route_limits]`) wait for no thread.
    """
    threads, waiting = worker["threads"], worker["queued"] - worker.get("limited", 0)
    by_hand = 1 if status.get("lanes_by_hand") and threads > 1 else 0
    kept = 0 if has_greenlets(status) else max(by_hand, 2 * (threads // KEPT_SHARE))
    return bool(waiting > 0 and 0 < threads <= worker["busy"] + kept)


def _stuck(running: list[Row]) -> str:
    # A client that reads slowly holds up nobody.
    long = [one for one in running if one["inside"] >= LONG and one["state"] == RUNNING]
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
    # No worker keeps more than so many: of those before them nothing is known here.
    more = " or more" if len(recent) >= KEPT else ""
    text = f"{len(recent)}{more} {'request has' if len(recent) == 1 else 'requests have'} failed"
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
    known = sum(seconds for seconds, _ in routes)
    # A route is born of its second answer: what was before that, and what is refused, has none.
    inside = max(known, totals["phases"]["app"][1])
    if known > 0:
        shown = [*routes[:NAMED], (inside - known, "requests without a route")]
        parts = [f"{name} {_share(seconds, inside)}" for seconds, name in shown if seconds >= 0.005 * inside]
        told.append(("busiest", ", ".join(parts)))
    if totals["unplaced"]:
        text = f"{_count(totals['unplaced'], 'request', 'requests')}: the places for routes are taken"
        told.append(("no route", text))
    return told


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %"


def _count(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _ago(seconds: float) -> str:
    return f"{seconds:.0f} s ago" if seconds < 120 else f"{seconds / 60:.0f} min ago"


def _in(seconds: float) -> str:
    hours = seconds / 3600
    return f"in {hours / 24:.0f} days" if hours >= 48 else f"in {hours:.0f} h"


def _span(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
