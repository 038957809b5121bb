"""`forehand profile`: where the workers of a running server spend their time, as a flame graph.

Knows: what is asked of workers, and the lines in which they answer (`server/profile/report.rs`). Does not know: how
stacks are read, or how a graph is drawn (`flame.py`). A process of its own.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any

from forehand import errors
from forehand.errors import Problem
from forehand.inside import asking, flame

SECONDS = 10.0
#: Looks a second, at most: no divisor of what people use for timers.
RATE = 97
FUNCTIONS = 10
#: Of fewer looks that have found something nobody can tell shares.
ENOUGH = 30
OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
#: What runs an application under an event loop is the same below every stack.
DRIVERS = (OWN, f"{os.sep}asyncio{os.sep}", f"{os.sep}uvloop{os.sep}", f"{os.sep}gevent{os.sep}", "<")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Whom to look at, how long, and what to make of it."""
    parser.add_argument("--worker", "-w", type=int, metavar="N", help="only this worker (default: all, added up)")
    parser.add_argument(
        "--seconds", "-s", type=float, default=SECONDS, metavar="N", help=f"how long to look ({SECONDS:g})"
    )
    parser.add_argument("--route", "-r", default="", metavar="ROUTE", help="only requests of it: 'GET /orders/*'")
    parser.add_argument("--cpu", action="store_true", help="only threads that use a processor; others wait in requests")
    parser.add_argument(
        "--rate", type=int, default=RATE, metavar="N", help=f"looks a second, as long as they cost little ({RATE})"
    )
    parser.add_argument(
        "--format", "-f", choices=tuple(flame.FORMATS), default="flamegraph",
        help="flamegraph: a page for a browser; svg: a picture; speedscope, collapsed: for other tools",
    )  # fmt: skip
    parser.add_argument(
        "--output", "-o", default="", metavar="FILE", help="where to (forehand-profile-TIME; -: stdout)"
    )


def show(path: str, given: argparse.Namespace) -> int:
    """Look, and write the graph; the exit status. Raises Problem."""
    if not 0.1 <= given.seconds <= 3600:
        raise Problem(errors.USAGE, f"--seconds: {given.seconds:g} is not from 0.1 to 3600")
    if not 1 <= given.rate <= 1000:
        raise Problem(errors.USAGE, f"--rate: {given.rate} is not from 1 to 1000")
    _judge_output(given.output)
    found = asking.status(path)
    numbers = [given.worker] if given.worker is not None else [row["worker"] for row in asking.serving(found)]
    how = "cpu" if given.cpu else "wall"
    workers = [asking.ask(path, "profile", number, f"{given.seconds} {given.rate} {how}") for number in numbers]
    profile = Profile(found["folder"])
    for worker, line in asking.answers(workers, given.seconds, "looking"):
        profile.take(worker, line)
    profile.gone = [worker for worker in workers if worker not in profile.ends]
    chosen = profile.chosen(given.route)
    title = f"{found['target']}, {_many(len(numbers), 'worker')}, {time.strftime('%Y-%m-%d %H:%M:%S')}"
    written = _write(flame.FORMATS[given.format], chosen, (title, profile.facts()), given.output)
    # What is written to stdout is for a program.
    out = sys.stderr if given.output == "-" else sys.stdout
    out.write(
        "\n".join(
            [*_summary(chosen), *profile.facts(), *_doubts(chosen), *([f"written to {written}"] if written else [])]
        )
        + "\n"
    )
    return errors.OK


class Profile:
    """What workers have said. `folder`: of the server, below which files are its own."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.samples: list[flame.Sample] = []
        self.ends: dict[asking.Worker, tuple[int, int, int, int]] = {}
        #: Those that were to be looked at, and have ended before they could answer.
        self.gone: list[asking.Worker] = []
        self._frames: dict[tuple[int, str], flame.Frame] = {}

    def take(self, worker: asking.Worker, line: str) -> None:
        """A line of a worker's. Raises Problem."""
        kind, *words = line.split("\t")
        if kind == "X":
            raise Problem(errors.APPLICATION, f"worker {worker.number}: {words[0]}")
        if kind == "F":
            number, at, function, file = words
            self._frames[worker.number, number] = flame.Frame(function, flame.short(file, self.folder), int(at), file)
        elif kind == "S":
            ns, found, route, numbers = words
            frames = [self._frames[worker.number, number] for number in numbers.split(",") if number]
            seen = flame.Sample(route or flame.NO_ROUTE, _trimmed(frames), int(ns) / 1e9, int(found))
            self.samples.append(seen)
        elif kind == "E":
            milliseconds, looks, failed, cpu = map(int, words)
            self.ends[worker] = (milliseconds, looks, failed, cpu)

    def chosen(self, route: str) -> list[flame.Sample]:
        """The samples of a route; without one all. Raises Problem where there are none."""
        if not self.ends:
            raise Problem(errors.INTERNAL, "the workers have ended before they answered", hint="the log says why")
        routes = sorted({one.route for one in self.samples})
        chosen = [one for one in self.samples if route in ("", one.route, one.route.partition(" ")[2])]
        if not chosen and routes:
            raise Problem(
                errors.APPLICATION, f"no request of {route} was seen", hint=f"those that were: {', '.join(routes)}"
            )
        if not chosen:
            raise Problem(
                errors.APPLICATION, "no request was seen, and nothing else ran",
                hint="send requests meanwhile, or look longer: --seconds",
            )  # fmt: skip
        return chosen

    def facts(self) -> list[str]:
        """How each worker was looked at, and what that cost."""
        told = []
        for worker, (milliseconds, looks, failed, cpu) in sorted(self.ends.items(), key=lambda end: end[0].number):
            seconds = max(milliseconds / 1000, 0.001)
            cost = f"{looks / seconds:.0f} a second, {cpu / 1e7 / seconds:.1f} % of a processor"
            more = f"; {failed} more have failed" if failed else ""
            told.append(f"worker {worker.number} ({worker.pid}): {looks} looks in {seconds:.1f} s, {cost}{more}")
        gone = (f"worker {one.number} ({one.pid}) has ended meanwhile: not all of it is here" for one in self.gone)
        return [*told, *gone]


def _trimmed(frames: list[flame.Frame]) -> tuple[flame.Frame, ...]:
    """Without what is below all of them. The outermost is first."""
    at = 0
    while at < len(frames) and any(part in frames[at].file for part in DRIVERS):
        at += 1
    return tuple(frames[at:])


def _summary(samples: list[flame.Sample]) -> list[str]:
    """The routes and the functions that took most."""
    whole = sum(one.seconds for one in samples)
    lines = ["  route"]
    for route, seconds in flame.by_route(samples)[:FUNCTIONS]:
        lines.append(f"  {seconds / whole:6.1%}  {route}")
    lines.append("    self   total  function")
    for function in flame.by_function(samples)[:FUNCTIONS]:
        lines.append(f"  {function.own / whole:6.1%}  {function.whole / whole:6.1%}  {function.name}")
    return lines


def _doubts(samples: list[flame.Sample]) -> list[str]:
    """What is to be said of shares that rest on few looks, as under an event loop that mostly waits."""
    looks = sum(one.looks for one in samples)
    if looks >= ENOUGH:
        return []
    found = "1 look has" if looks == 1 else f"{looks} looks have"
    return [f"only {found} found anything that ran: take no share for exact; send more requests, or --seconds longer"]


def _write(made: Any, samples: list[flame.Sample], about: tuple[str, list[str]], output: str) -> str:
    text = made.make(samples, *about)
    if output == "-":
        sys.stdout.write(text)
        return ""
    path = os.path.abspath(output or time.strftime(f"forehand-profile-%Y%m%d-%H%M%S{made.suffix}"))
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise Problem(
            errors.PERMISSION, f"{path} cannot be written: {error.strerror}", hint="choose another place: --output FILE"
        ) from None
    return path


def _judge_output(output: str) -> None:
    """Whether it can be written, before anybody waits for it. Raises Problem."""
    if output == "-":
        return
    folder = os.path.dirname(os.path.abspath(output or "x"))
    if os.path.isdir(output) or not os.access(folder, os.W_OK | os.X_OK):
        why = "it is a folder" if os.path.isdir(output) else f"nothing can be written in {folder}"
        path = os.path.abspath(output) if output else "a file here"
        raise Problem(errors.PERMISSION, f"{path} cannot be written: {why}", hint="choose another place: --output FILE")


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
