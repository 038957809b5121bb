"""`forehand status`, `reload`, `upgrade`, `stop`, `workers`, `stacks`, `reopen`, and where the others begin.

Knows: the control socket's lines, and how to show them. Does not know: the supervisor's
insides. A process of its own; imports what it likes.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from forehand import errors
from forehand.errors import Problem
from forehand.inside import asking, heap, profile
from forehand.supervisor import request_list, situation, status_text
from forehand.supervisor.control import BESIDE, ask_holder, folder
from forehand.top import command

ORDERS = {
    "status": "show a running server's workers, memory, and how often limits were reached",
    "reload": "start new workers with the current code and configuration, then stop the old ones",
    "upgrade": "replace the server's program itself, and keep its sockets open",
    "stop": "finish running requests, then end (--now: at once)",
    "workers": "add or remove a worker, or set their number: +1, -1, 4",
    "stacks": "show what every thread of every worker is doing",
    "tls": "read certificates and keys again (forehand tls reload), which also happens by itself when they change",
    "profile": "look where the time of running workers goes, and draw a flame graph of it",
    "heap": "show what is in a worker's memory, or what has grown there, and what holds it",
    "requests": "show which requests are running, and which were slow or have failed",
    "top": "show what a running server does, again and again: routes, workers, requests, limits",
    "reopen": "open the log files again, after they were moved away",
}

#: A supervisor says what it is at once, or on a machine that has much to do within some seconds.
PATIENCE = 10.0
#: What may follow an order, for shells to complete.
WORDS = {"workers": ("+1", "-1"), "tls": ("reload",)}
#: Those that do more than to pass one order on.
SHOWN: dict[str, Any] = {"requests": request_list, "top": command, "profile": profile, "heap": heap}


def main(arguments: Sequence[str]) -> int:
    """Give one order; the exit status. Raises Problem."""
    order = arguments[0]
    words = list(arguments[1:])
    # `-1` is a number here and no option.
    words = [f" {word}" if word[:1] == "-" and word[1:].isdigit() else word for word in words]
    given = grammar(order).parse_args(words)
    line = order
    if order == "workers":
        line += f" {given.count.strip()}"
    elif order == "status":
        line += " counters"
    elif order == "stop" and given.now:
        line += " now"
    if order in SHOWN:
        return int(SHOWN[order].show(find(given.control), given))
    return _give(order, line, find(given.control), given)


class Words(argparse.ArgumentParser):
    """argparse, which says of a server that is named without its option where that name belongs."""

    def error(self, message: str) -> NoReturn:
        more = message.removeprefix("unrecognized arguments: ")
        if more != message and not more.startswith("-"):
            message = f"'{more}' is too much: a server is named with its option: -C {more.split()[0]}"
        super().error(message)


def grammar(order: str) -> argparse.ArgumentParser:
    """What may follow an order."""
    parser = Words(prog=f"forehand {order}", description=ORDERS[order] + ".")
    parser.add_argument(
        "--control", "-C", metavar="PATH", default=os.environ.get("FOREHAND_CONTROL", ""),
        help="the server's control socket or its name, an address or a port of the server; needed only where several "
        "servers run, and not just one of them was started in this folder",
    )  # fmt: skip
    parser.add_argument(
        "--timeout", type=float, default=0, metavar="SECONDS", help="wait no longer (default: for ever)"
    )
    if order == "status":
        parser.add_argument("--json", action="store_true", help="all numbers, for programs")
        parser.add_argument("--verbose", "-v", action="store_true", help="all counters, those at zero too")
    if order == "stop":
        parser.add_argument("--now", action="store_true", help="do not wait for running requests")
    if order in SHOWN:
        SHOWN[order].add_flags(parser)
    if order == "workers":
        parser.add_argument("count", metavar="+1|-1|N")
    if order == "tls":
        parser.add_argument("what", choices=("reload",), metavar="reload", help="read certificates and keys again")
    return parser


def find(named: str) -> str:
    """The control socket: the one that is named, or the only one that answers. Raises Problem."""
    place = folder()
    try:
        paths = sorted(os.path.join(place, name) for name in os.listdir(place) if name.endswith(".sock"))
    except OSError:
        paths = []
    if named:
        short = os.path.join(place, f"{named}.sock")
        if short in paths:
            beside = [path for path in paths if path.startswith(f"{place}/{named}{BESIDE}")]
            living = [path for path in (short, *beside) if ask_holder(path)]
            if len(living) > 1:
                raise _several({path: _facts(path) for path in living})
            if living:
                return living[0]
            # A server that was killed has left it: another one may have that port, at another address.
        elif os.path.exists(named) or ("/" in named and not named.startswith("unix:") and "://" not in named):
            return named
    alive = [path for path in paths if ask_holder(path)]
    found: dict[str, dict[str, Any]] = {}
    if named:
        found = {path: _facts(path) for path in alive}
        alive = [path for path in alive if path.endswith(f":{named}.sock") or _is_named(named, found[path])]
        if not alive:
            if short in paths:
                return short
            raise _nobody(short if named.isdigit() else named, found)
    if len(alive) == 1:
        return alive[0]
    if not alive:
        raise Problem(
            errors.ADDRESS,
            f"no server was found: none answers in {place}",
            hint="a server that was started with --control PATH, or by another user, is named with --control PATH",
        )
    found = {path: found.get(path) or _facts(path) for path in alive}
    folder_here = _folder_here()
    here = [path for path, facts in found.items() if facts.get("folder", "") == folder_here]
    if len(here) == 1:
        return here[0]
    raise _several(found)


def _several(found: dict[str, dict[str, Any]]) -> Problem:
    """What is said where a name, or none, fits several servers."""
    return Problem(errors.USAGE, f"{len(found)} servers are running; say which one with -C behind the command",
                   hint=_table(found))  # fmt: skip


def _is_named(named: str, facts: dict[str, Any]) -> bool:
    """Whether a server is called by its address, or by its port."""
    addresses = facts.get("addresses", [])
    whole = [one.partition("://")[2] or one.removeprefix("unix:") for one in addresses]
    ports = [f":{one.rpartition(':')[2]}" for one in whole if not one.startswith("/")]
    return (f":{named}" if named.isdigit() else named) in (*addresses, *whole, *ports)


def _nobody(path: str, others: dict[str, dict[str, Any]]) -> Problem:
    """What is said where a name leads nowhere."""
    missing = asking.unanswered(path, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
    if others:
        missing.hint += f"\nthose that run, and answer you:\n{_table(others)}"
    return missing


def _folder_here() -> str | None:
    """The current folder; None: it was removed meanwhile, as by a deployment."""
    try:
        return os.getcwd()
    except OSError:
        return None


def _facts(path: str) -> dict[str, Any]:
    """What a server says of itself, if it says it soon."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(PATIENCE)
            sock.connect(path)
            sock.sendall(b"status\n")
            return list(_answers(sock, path, PATIENCE))[-1]
    except (OSError, ValueError, IndexError, Problem):
        return {}


def _table(found: dict[str, dict[str, Any]]) -> str:
    """All servers: what to type, process, application, addresses."""
    short = {path: os.path.basename(path).removesuffix(".sock") for path in found}
    # A name that begins those of others is not enough.
    first = {name.partition(BESIDE)[0] for name in short.values() if BESIDE in name}
    rows = [
        (f"-C {path if name in first else name}", str(facts.get("pid", "")), str(facts.get("target", "?")),
         "  ".join(facts.get("addresses", [])))
        for path, name in short.items()
        for facts in (found[path],)
    ]  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]) for row in rows
    )


def _give(order: str, line: str, path: str, given: argparse.Namespace) -> int:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    if given.timeout:
        sock.settimeout(given.timeout)
    with sock:
        try:
            sock.connect(path)
        except OSError as error:
            raise asking.unanswered(path, error) from None
        sock.sendall(line.encode() + b"\n")
        last: dict[str, Any] = {}
        for last in _answers(sock, path, given.timeout):
            if "stacks" in last:
                print(f"== worker {last['worker']}, process {last['pid']}\n{last['stacks']}", flush=True)
    if "ok" not in last:
        raise Problem(errors.INTERNAL, "the server ended before it answered")
    if not last["ok"]:
        sys.stderr.write(f"forehand {order}: {str(last.get('text', 'it failed')).removeprefix('forehand: ')}\n")
        return int(last.get("status", errors.APPLICATION))
    if order == "status":
        last.setdefault("counters", {})  # an older server has none
        last["limits"] = status_text.limits(last["counters"])
        told = _situation(path, last)
        last["situation"] = told["findings"] if told is not None else None
        text = status_text.shown(last, told, verbose=given.verbose)
        print(json.dumps(last, indent=2) if given.json else text)
    elif last.get("text"):
        print(last["text"])
    return errors.OK


def _situation(path: str, status: dict[str, Any]) -> dict[str, Any] | None:
    """What is found wrong, and what is true of all requests; None: an older server shares no numbers."""
    try:
        shared, workers = request_list.opened(path)
        running, ended = request_list.running(shared, workers), request_list.kept(shared, workers)
        return {
            "findings": situation.findings(status, running, ended, time.time()),
            "numbers": situation.numbers(status, shared.totals()),
        }
    except (Problem, OSError, KeyError):
        return None


def _answers(sock: socket.socket, path: str, timeout: float) -> Iterator[dict[str, Any]]:
    try:
        with sock.makefile("r", encoding="utf-8") as lines:
            for line in lines:
                yield asking.answer(path, line)
    except TimeoutError:
        raise Problem(
            errors.INTERNAL, f"no answer within {timeout:g} s", hint="the order may still be carried out"
        ) from None
    except ConnectionResetError:
        return
