"""What nginx speaks to the server behind it: Forehand by uwsgi beside uWSGI, by FastCGI beside its own HTTP/1.

    doors.py [--only uwsgi,fastcgi] [--shapes 1x8,2x1,2x8] [--rounds 5] [--seconds 4]
    doors.py --share 0.2        the same of servers that have a fifth of a processor each (needs root)

Both servers of a pair stand behind the same nginx at a unix socket, as the lab starts them (lab/BIAS.md says how), with
the same number of processes and threads (`--shapes PROCESSESxTHREADS`); where connections are kept, nginx is set up as
docs/behind-nginx.md says. The server has processor 0; nginx and the load engine have processor 1. In each round both
have a turn, the first of one round being the second of the next, with two loads: as many requests as it answers over
64 connections (rate, CPU of the server's processes per request), and then a fixed rate, half of what the other one
answered at the beginning (percentiles of response time). The ratio of a round is the figure; printed is the median with
the least and the greatest.

`busy` says how much of its processor a server used: where that is not nearly all, the rate is nginx's and not the
server's. With `--share` the kernel gives each server no more than that part of its processor (cpu.cfs_quota_us, in
periods of 10 ms), so that the rate is the server's; percentiles are then those of waiting for the next period.

Needs the lab (`make build load`, extra `lab`), nginx, and a C compiler for uWSGI, which comes from the package index.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from beside_wrk import LOAD_CPU, SERVER_CPU, Row, plan, ratio, row, show
from forehand_lab import engine
from forehand_lab.contestant import asked_for
from forehand_lab.environments import obtained
from forehand_lab.launching import Running, started
from forehand_lab.places import Setting
from forehand_lab.problem import Problem
from shares import sharing

CONNECTIONS = 64
WARMUP_S = 0.5
#: Of the closed loop's rate: at this share neither server nor nginx is saturated, and percentiles tell something.
SHARE = 0.5
SHAPES = ("1x8", "2x1", "2x8")
#: What a request by uwsgi may cost the server from accept to the end of the reply, in microseconds of processor.
MOST_US = 60.0


@dataclass(frozen=True)
class Pair:
    """Two contestants of the lab, and what is wanted of the ratios, ours to the other's: of the rate at least `least`,
    of processor time and 99th percentile at most `most`, if there is a bound.
    """

    what: str
    ours: str
    other: str
    threads: int
    least: float
    most: float | None = None


@dataclass(frozen=True)
class Figures:
    """Of one turn: requests/s, microseconds of processor per request, processors used, percentiles of response time in
    microseconds.
    """

    rate: float
    cpu_us: float
    busy: float
    p50: float
    p99: float


def uwsgi(shapes: Sequence[str]) -> list[Pair]:
    """Forehand and uWSGI by uwsgi_pass. With one thread uWSGI runs without threads, which is its quickest way."""
    pairs = []
    for shape in shapes:
        processes, threads = map(int, shape.split("x"))
        other = "uwsgi-nginx-threads" if threads > 1 else "uwsgi-nginx"
        pairs.append(
            Pair(f"uwsgi {shape}", f"forehand-uwsgi-nginx:{processes}", f"{other}:{processes}", threads, 1.0, 1.0)
        )
    return pairs


def fastcgi(shapes: Sequence[str]) -> list[Pair]:
    """Kept connections, by FastCGI and by HTTP/1."""
    pairs = []
    for shape in shapes:
        processes, threads = map(int, shape.split("x"))
        ours, other = (f"forehand-{name}-kept:{processes}" for name in ("fcgi-nginx", "nginx"))
        pairs.append(Pair(f"FastCGI {shape}", ours, other, threads, 0.95))
    return pairs


@contextlib.contextmanager
def behind_nginx(name: str, threads: int, share: float) -> Iterator[Running]:
    """The contestant on its part of its processor, nginx on the load's."""
    contestant = asked_for(name)
    environment = obtained(contestant)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with started(contestant, environment, Setting(threads=threads), log, SERVER_CPU) as running:
            for process in family(running.roots[1].pid):
                process.cpu_affinity([LOAD_CPU])
            with sharing(running.roots[0].pid, share):
                yield running


def family(pid: int) -> list[psutil.Process]:
    """A process and all below it."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def cpu_s(running: Running) -> float:
    """Seconds of processor that the server's processes have used, nginx left out."""
    times = (process.cpu_times() for process in family(running.roots[0].pid))
    return float(sum(each.user + each.system for each in times))


def load(port: int, shape: dict[str, Any], seconds: float) -> dict[str, Any]:
    """A load's result. Raises Problem where a reply was wrong or did not come: such figures say nothing."""
    result = engine.run(plan(port, shape, seconds))
    if result["errors"]:
        raise Problem(1, f"replies were wrong, or did not come: {result['errors']}")
    return result


def closed(running: Running, seconds: float) -> tuple[float, float]:
    """Requests/s over connections that are always busy, and what each cost the server."""
    shape = {"kind": "closed", "connections": CONNECTIONS}
    load(running.port, shape, WARMUP_S)
    before = cpu_s(running)
    totals = load(running.port, shape, seconds)["totals"]
    return totals["replies_per_s"], (cpu_s(running) - before) / totals["replies"] * 1e6


def turn(name: str, threads: int, rate: float, options: argparse.Namespace) -> Figures:
    """A server's turn of a round."""
    seconds = options.seconds
    with behind_nginx(name, threads, options.share) as running:
        most, cpu_us = closed(running, seconds)
        shape = {"kind": "open", "arrivals": "poisson", "rate": rate, "max_connections": CONNECTIONS}
        told = load(running.port, shape, seconds)["times"]["response"]["percentiles_us"]
        return Figures(most, cpu_us, most * cpu_us / 1e6, told["50"], told["99"])


def measured(pair: Pair, options: argparse.Namespace) -> list[Row]:
    """All rounds of a pair, as lines of the table."""
    with behind_nginx(pair.other, pair.threads, options.share) as running:
        rate = round(closed(running, options.seconds)[0] * SHARE, -2)
    found: dict[str, list[Figures]] = {pair.ours: [], pair.other: []}
    for number in range(options.rounds):
        names = (pair.ours, pair.other) if number % 2 == 0 else (pair.other, pair.ours)
        for name in names:
            found[name].append(turn(name, pair.threads, rate, options))
        print(f"{pair.what}: round {number + 1} of {options.rounds}", file=sys.stderr)

    def compared(what: str, key: str, least: float | None, most: float | None) -> Row:
        pairs = [(getattr(a, key), getattr(b, key)) for a, b in zip(found[pair.ours], found[pair.other], strict=True)]
        middle, shown = ratio(pairs)
        one, other = (statistics.median(side) for side in zip(*pairs, strict=True))
        wanted = f"≥ {least:g}" if least is not None else f"≤ {most:g}" if most is not None else ""
        fine = (least is None or middle >= least) and (most is None or middle <= most)
        return row(f"{pair.what}: {what}", wanted, f"{one:.4g} / {other:.4g}", shown, fine)

    rows = [
        compared("requests/s", "rate", pair.least, None),
        compared("CPU µs a request", "cpu_us", None, pair.most),
        compared("busy", "busy", None, None),
        compared(f"p50 µs at {rate:.0f}/s", "p50", None, None),
        compared(f"p99 µs at {rate:.0f}/s", "p99", None, pair.most),
    ]
    if pair.most is not None:
        each = statistics.median(one.cpu_us for one in found[pair.ours])
        what = f"{pair.what}: a connection and its request"
        rows.append(row(what, f"≤ {MOST_US:.0f} µs CPU", "", f"{each:.1f} µs", each <= MOST_US))
    return rows


def main() -> int:
    """Measure and print; 1 where something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="uwsgi,fastcgi", help="default: %(default)s")
    parser.add_argument("--shapes", default=",".join(SHAPES), help="processes and threads (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each load (default: 4)")
    parser.add_argument("--share", type=float, default=1, help="of its processor, for each server (default: all of it)")
    options = parser.parse_args()
    if not SERVER_CPU | {LOAD_CPU} <= os.sched_getaffinity(0):
        raise SystemExit("two processors are needed: one for the server, one for nginx and the load")
    doors = {"uwsgi": uwsgi, "fastcgi": fastcgi}
    pairs = [pair for door in options.only.split(",") for pair in doors[door](options.shapes.split(","))]
    rows = [line for pair in pairs for line in measured(pair, options)]
    show("Forehand / other", rows)
    return int(any(line[-1] != "holds" for line in rows))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Problem as problem:
        sys.exit(problem.text())
