"""`forehand requests`: which requests are inside the workers of a running server, and which were slow or have failed.

Knows: how the server's shared statistics come by, and how requests are shown. Does not know: who writes them. A process
of its own, which reads without asking any worker: it answers though all of them are stuck.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import socket
import sys
import time
from collections import Counter
from typing import Any

from forehand import _core, errors
from forehand.digits import is_whole
from forehand.errors import Problem
from forehand.inside import asking
from forehand.supervisor.situation import RUNNING, SENDING

#: How often `--follow` looks, in seconds.
EVERY = 0.5
#: Requests that have ended and are shown, where nothing else is said.
LAST = 20
#: So many requests that are inside a worker can be named at a time (`SLOT_COUNT` of `server/statistics/layout.rs`).
MOST_INSIDE = 256
Row = dict[str, Any]


def add_flags(parser: argparse.ArgumentParser) -> None:
    """What of all requests is wanted, and how."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--running", action="store_true", help="only those that are inside now")
    which.add_argument("--slow", action="store_true", help="only those that took long (--slow-request of the server)")
    which.add_argument(
        "--failed",
        action="store_true",
        help="only those with a status from 500 on, cut or refused, or whose worker died",
    )
    parser.add_argument("--last", type=_count, default=LAST, metavar="N", help=f"so many that have ended ({LAST})")
    word = "go on with those that end from now on, or with --running those that begin"
    parser.add_argument("--follow", "-f", action="store_true", help=word)
    parser.add_argument("--json", action="store_true", help="an object a line, for programs")


def _count(text: str) -> int:
    text = text.strip()
    if not is_whole(text):
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 0 on")
    return int(text)


def show(path: str, given: argparse.Namespace) -> int:
    """Show them; the exit status. Raises Problem."""
    statistics, workers = opened(path)
    ended = _ended(statistics, workers, given)
    inside = [] if given.slow or given.failed else running(statistics, workers)
    shown, begun = Shown(ended), {_place(one) for one in inside}
    _print(inside, ended[len(ended) - given.last :] if given.last < len(ended) else ended, as_json=given.json)
    # Not among the lines that a program counts.
    note = _none(given) if not inside and not ended else _unnamed(statistics, inside)
    if note and not given.json:
        sys.stderr.write(f"{note}\n")
    while given.follow and not _is_left():
        try:
            statistics, workers = opened(path)
        except Problem:
            break  # the server has ended
        new = shown.new(_ended(statistics, workers, given))
        inside = running(statistics, workers) if given.running else []
        _print([one for one in inside if _place(one) not in begun], new, as_json=given.json)
        begun = {_place(one) for one in inside}
    return errors.OK


class Shown:
    """Which of the requests that a server keeps were shown already: what it keeps no more is forgotten here, too."""

    def __init__(self, ended: list[Row]) -> None:
        #: Told the last time, and the time before: one whose worker dies may be told by nobody in between.
        self.last, self.earlier = {_key(one) for one in ended}, set[tuple[float, int, str]]()

    def new(self, ended: list[Row]) -> list[Row]:
        """Those that were not."""
        found = [one for one in ended if _key(one) not in self.last and _key(one) not in self.earlier]
        self.last, self.earlier = {_key(one) for one in ended}, self.last
        return found


def opened(path: str) -> tuple[_core.Statistics, list[Row]]:
    """The statistics of the server at a control socket, and its workers' rows. Raises Problem."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        try:
            sock.connect(path)
            sock.sendall(b"statistics\n")
            data, fds, _, _ = socket.recv_fds(sock, 1 << 20, 1)
        except OSError as error:
            raise asking.unanswered(path, error) from None
    told = asking.answer(path, data or b"{}")
    if not fds:
        raise Problem(errors.APPLICATION, f"this server shares no statistics: {told.get('text', 'it is older')}")
    try:
        return _core.Statistics(fds[0], False), told["workers"]
    except OSError as error:
        raise Problem(errors.APPLICATION, f"the server's statistics cannot be read: {error}") from None
    finally:
        os.close(fds[0])


def running(statistics: _core.Statistics, workers: list[Row]) -> list[Row]:
    """Requests that are inside, the oldest of each worker first."""
    return [
        {"state": SENDING if sending else RUNNING, "worker": worker["worker"], "pid": worker["pid"],
         "number": number, "request": line, "seconds": age, "inside": inside, "thread": thread, "id": name}
        for worker in workers
        for number, line, thread, age, inside, name, sending in statistics.inside(worker["row"], False)
    ]  # fmt: skip


def kept(statistics: _core.Statistics, workers: list[Row]) -> list[Row]:
    """All that have ended and were kept, the oldest first. Worker 0: it is no more; one that has ended with its worker
    has that one's number."""
    dead = [{"worker": 0, "pid": 0, **record} for record in statistics.records(None)]
    living = [
        {"worker": worker["worker"], "pid": worker["pid"], **record}
        for worker in workers
        for record in statistics.records(worker["row"])
    ]
    return sorted([*dead, *living], key=lambda one: one["ended"])


def _ended(statistics: _core.Statistics, workers: list[Row], given: argparse.Namespace) -> list[Row]:
    """Those that are wanted of them."""
    return [] if given.running else [one for one in kept(statistics, workers) if _wanted(one, given)]


def _wanted(one: Row, given: argparse.Namespace) -> bool:
    failed: bool = one["status"] >= 500 or one["error"] != ""
    if given.failed:
        return failed
    return not given.slow or bool(one["remarkable"] and not failed)


def _key(one: Row) -> tuple[float, int, str]:
    # Of a worker that has died the same record is told as one of the dead.
    return one["ended"], one["number"], one["request"]


def _place(one: Row) -> tuple[int, int]:
    return one["pid"], one["number"]


def _is_left() -> bool:
    """Whether nobody reads any more (`| head`), once it is time to look again: who writes only when there is something
    new would not see it until then."""
    reader = select.poll()
    reader.register(sys.stdout.fileno(), 0)
    return bool(reader.poll(EVERY * 1000))


def _print(running: list[Row], ended: list[Row], *, as_json: bool) -> None:
    lines = []
    for one in running:
        text = f"{_worker(one):<16}  {one['state']}  {one['seconds']:9.3f} s  {one['request']}"
        lines.append(json.dumps(one) if as_json else text)
    for one in ended:
        at = time.strftime("%H:%M:%S", time.localtime(one["ended"]))
        took = f"{one['phases']['total']:9.3f} s  {one['request']}"
        text = f"{_worker(one):<16}  {at}  {one['status'] or '---'}{took}  ({_phases(one)})"
        # Where it was found while it took long.
        found = f"\n    {one['where']}" if one["where"] else ""
        lines.append(json.dumps({"state": "ended", **one}) if as_json else text + found)
    if lines:
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()


def _none(given: argparse.Namespace) -> str:
    """What an empty list says."""
    if given.running:
        return "no request is inside"
    if given.slow:
        return "no request was slow: none that is kept took as long as the server's --slow-request"
    return "no request that is kept has failed" if given.failed else "no request has come yet"


def _unnamed(statistics: _core.Statistics, inside: list[Row]) -> str:
    """How many more are inside than are listed; nothing where all are, or a moment lies between two looks."""
    listed = Counter(one["pid"] for one in inside)
    more = statistics.totals()["inside"] - len(inside) if max(listed.values(), default=0) >= MOST_INSIDE else 0
    if more <= 0:
        return ""
    which = "1 more is" if more == 1 else f"{more} more are"
    return f"{which} inside that cannot be named: of a worker no more than {MOST_INSIDE} are at a time"


def _worker(one: Row) -> str:
    return f"worker {one['worker']} ({one['pid']})" if one["worker"] else "a former worker"


def _phases(one: Row) -> str:
    told = [f"{name} {took:.3f}" for name, took in one["phases"].items() if name != "total" and took >= 0.0005]
    error = f"{one['error']} by {one['died']}" if one.get("died") else one["error"]
    return ", ".join([*([error] if error else []), *told]) or "all of it below 1 ms"
