"""`make bench-load`: the lab's load engine beside wrk and httperf, and against its own figures.

Rounds in pairs, in turn, so that a machine that drifts drifts for both; the ratio of a round is the figure, and what is
printed is the median with the least and the greatest. Server on processor 0, load on 1. The servers are slower than
either tool: beyond a tool's own ceiling it is the tool that is measured. What is not installed is said in one line, and
the rest goes on. Needs the lab (`make build load`, extra `lab`) and a C compiler.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from forehand_lab import engine
from forehand_lab.contestant import asked_for
from forehand_lab.environments import obtained
from forehand_lab.histograms import DIGITS, HIGHEST_US, LOWEST_US, merged
from forehand_lab.launching import StartFailed, free_port, started
from forehand_lab.places import Setting
from forehand_lab.problem import Problem
from hdrh.histogram import HdrHistogram

HERE = Path(__file__).resolve().parent
SERVERS = ("gunicorn-threads", "waitress", "cheroot", "gevent", "tornado")
SERVER_CPU, LOAD_CPU = frozenset({0}), 1
CONNECTIONS = 64
# httperf's load: connections a second, and calls on each; far below any server's saturation.
RATE, CALLS = 100, 10
# Sessions that end a little late overlap with those that begin: descriptors are spared for them.
SESSIONS, THINK_S, SPARE = 20_000, 5.0, 400
Row = tuple[str, str, str, str, str]


def plan(port: int, load: dict[str, Any], seconds: float, **more: Any) -> dict[str, Any]:
    """A plan for one processor."""
    return {
        "url": f"http://127.0.0.1:{port}/", "load": load, "duration_s": seconds, "cpus": [LOAD_CPU], "threads": 1,
        **more,
    }  # fmt: skip


def ours(port: int, connections: int, seconds: float) -> dict[str, float]:
    """The engine's closed loop: replies a second, and percentiles in microseconds as wrk counts them."""
    result = engine.run(plan(port, {"kind": "closed", "connections": connections}, seconds))
    told = as_wrk_counts(result, connections, seconds)
    p50, p99 = (float(told.get_value_at_percentile(each)) for each in (50, 99))
    return {"rate": result["totals"]["replies_per_s"], "p50": p50, "p99": p99}


def as_wrk_counts(result: dict[str, Any], connections: int, seconds: float) -> HdrHistogram:
    """Response times with what wrk 4 adds to its own (stats_correct): beside each that took more than twice the mean
    time between two requests of a connection, those that a connection that does not wait would have had meanwhile.
    """
    mean_us = int(seconds * 1e6 * connections / max(result["totals"]["replies"], 1))
    told = HdrHistogram(LOWEST_US, HIGHEST_US, DIGITS)
    for item in merged([result["times"]["response"]["hdr"]]).get_recorded_iterator():
        value, count = item.value_iterated_to, item.count_added_in_this_iter_step
        told.record_value(value, count)
        if value >= 2 * mean_us:
            for missing in range(value - mean_us, mean_us, -mean_us):
                told.record_value(missing, count)
    return told


def wrk(port: int, connections: int, seconds: float) -> dict[str, float]:
    """The same by wrk."""
    words = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "--latency", f"http://127.0.0.1:{port}/"]
    text = subprocess.run(
        ["taskset", "-c", str(LOAD_CPU), *words], capture_output=True, text=True, check=True, timeout=seconds + 60
    ).stdout
    units = {"us": 1.0, "ms": 1e3, "s": 1e6}
    found = {"rate": float(re.findall(r"Requests/sec:\s+([\d.]+)", text)[0])}
    for which in ("50", "99"):
        number, unit = re.findall(rf"^\s+{which}%\s+([\d.]+)(us|ms|s)$", text, re.M)[0]
        found[f"p{which}"] = float(number) * units[unit]
    return found


def httperf(port: int, seconds: float) -> float:
    """Replies a second, by httperf."""
    words = ["httperf", "--server", "127.0.0.1", "--port", str(port), "--rate", str(RATE), "--timeout", "5"]
    words += ["--num-conns", str(int(RATE * seconds)), "--num-calls", str(CALLS)]
    text = subprocess.run(
        ["taskset", "-c", str(LOAD_CPU), *words], capture_output=True, text=True, check=True, timeout=seconds + 60
    ).stdout
    replies, spent = re.findall(r"replies (\d+) test-duration ([\d.]+) s", text)[0]
    return int(replies) / float(spent)


def beside_httperf(port: int, seconds: float) -> float:
    """The same by the engine, whose count ends it: as in httperf, what comes after the last start counts too."""
    load = {"kind": "sessions", "rate": RATE, "requests": CALLS, "count": int(RATE * seconds)}
    result = engine.run(plan(port, load, 3 * seconds))
    rate: float = result["totals"]["replies_per_s"]
    return rate


def ratio(pairs: list[tuple[float, float]]) -> tuple[float, str]:
    """The median of ratios, and how it is printed."""
    ratios = [one / other for one, other in pairs if other]
    middle = statistics.median(ratios)
    return middle, f"{middle:.3f} ({min(ratios):.3f}–{max(ratios):.3f})"


def row(what: str, wanted: str, found: str, shown: str, fine: bool) -> Row:
    """A line of the table."""
    return what, wanted, found, shown, "holds" if fine else "DOES NOT HOLD"


def show(compared: str, rows: list[Row]) -> None:
    """The table; `compared` says whose figures stand in its third column."""
    heads = ("what", "wanted", compared, "ratio, or figure: median (least–greatest)", "")
    widths = [max(len(line[column]) for line in (heads, *rows)) for column in range(len(heads))]
    for line in (heads, *rows):
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def beside(name: str, port: int, connections: int, options: argparse.Namespace) -> list[Row]:
    """The engine and wrk in turn on one server."""
    pairs = [(ours(port, connections, options.seconds), wrk(port, connections, options.seconds))
             for _ in range(options.rounds)]  # fmt: skip
    rows = []
    for key, unit, bound in (("rate", "replies/s", 0.05), ("p50", "us", 0.10), ("p99", "us", 0.10)):
        middle, shown = ratio([(one[key], other[key]) for one, other in pairs])
        one, other = (statistics.median(each[key] for each in side) for side in zip(*pairs, strict=True))
        if name == "raw":
            if key != "rate":
                continue
            wanted, fine = "≥ 0.95 of wrk", middle >= 0.95
        else:
            wanted, fine = f"wrk ± {bound:.0%}", abs(middle - 1) <= bound
        rows.append(
            row(f"{name}, {connections} connections: {key}", wanted, f"{one:.0f} / {other:.0f} {unit}", shown, fine)
        )
    return rows


@contextlib.contextmanager
def raw_server() -> Iterator[int]:
    """The yardstick: a server that parses nothing; its port."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["cc", "-O2", "-o", f"{folder}/raw", str(HERE / "raw.c")], check=True)
        port = free_port()
        with subprocess.Popen(
            [f"{folder}/raw", str(port)], preexec_fn=lambda: os.sched_setaffinity(0, SERVER_CPU)
        ) as process:
            try:
                while engine.run(plan(port, {"kind": "closed", "connections": 1, "count": 1}, 1.0))["errors"]:
                    if process.poll() is not None:
                        raise SystemExit("the raw server did not start")
                yield port
            finally:
                process.kill()


def against_raw(options: argparse.Namespace) -> list[Row]:
    """Rate beside wrk, starts on time, memory of sessions."""
    with raw_server() as port:
        rows = beside("raw", port, CONNECTIONS, options) if shutil.which("wrk") else []
        ceiling = statistics.median(ours(port, CONNECTIONS, options.seconds)["rate"] for _ in range(3))
        rows += starts(port, ceiling, options)
        rows += sessions(port)
    return rows


def starts(port: int, ceiling: float, options: argparse.Namespace) -> list[Row]:
    """How late starts are at half of what the engine can do, once its connections are open, as in every scenario:
    opening 128 of them in the first millisecond holds up what is planned for it.
    """
    load = {"kind": "open", "arrivals": "uniform", "rate": round(ceiling / 2), "max_connections": 128}
    found = []
    for _ in range(options.rounds):
        generator = engine.run(plan(port, load, options.seconds + 1, warmup_s=1))["generator"]
        found.append(generator["lateness"]["percentiles_us"]["99.9"] / 1000)
    middle = statistics.median(found)
    shown = f"{middle:.2f} ms ({min(found):.2f}–{max(found):.2f})"
    what = f"starts at {ceiling / 2:.0f}/s, half of {ceiling:.0f}"
    return [row(what, "99.9 % within 1 ms", "lateness", shown, middle <= 1.0)]


def sessions(port: int) -> list[Row]:
    """Memory of sessions that think, all in one process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(SESSIONS, hard - SPARE) if hard != resource.RLIM_INFINITY else SESSIONS
    load = {"kind": "sessions", "rate": wanted / (2 * THINK_S), "requests": 3, "think_s": THINK_S}
    result = engine.run(plan(port, load, 2 * THINK_S + 3, drain_s=2 * THINK_S + 5))
    most, memory = result["totals"]["connections"]["most_open"], result["generator"]["memory_peak_bytes"]
    each = memory / max(most, 1) / 1024
    what = f"sessions: {most} open at once" + (
        "" if wanted == SESSIONS else f" (this process may have {hard} descriptors)"
    )
    fine = each <= 12 and most >= 0.95 * wanted and not result["errors"]
    shown = f"{each:.2f} KiB each, errors {sum(result['errors'].values())}"
    return [row(what, f"{SESSIONS} at ≤ 12 KiB", f"{memory / 2**20:.1f} MiB", shown, fine)]


def against_servers(options: argparse.Namespace) -> list[Row]:
    """Five servers: wrk's throughput and percentiles, httperf's reply rate."""
    rows: list[Row] = []
    for name in options.servers.split(","):
        contestant = asked_for(name)
        print(f"{name}: installing and starting", file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            try:
                environment = obtained(contestant)
                with started(contestant, environment, Setting(), Path(folder) / "log", SERVER_CPU) as running:
                    ours(running.port, 8, 1.0)
                    if shutil.which("wrk"):
                        rows += beside(name, running.port, CONNECTIONS, options)
                    if shutil.which("httperf"):
                        pairs = [(beside_httperf(running.port, options.seconds), httperf(running.port, options.seconds))
                                 for _ in range(options.rounds)]  # fmt: skip
                        middle, shown = ratio(pairs)
                        told = f"{pairs[0][0]:.1f} / {pairs[0][1]:.1f} replies/s"
                        what = f"{name}, {RATE} connections/s × {CALLS} calls"
                        rows.append(row(what, "httperf ± 2%", told, shown, abs(middle - 1) <= 0.02))
            except (Problem, StartFailed) as problem:
                print(f"{name}: left out: {problem}", file=sys.stderr)
    return rows


def main() -> int:
    """Measure and print; 1 where something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="pairs of each comparison (default: 5)")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each load (default: 4)")
    parser.add_argument("--servers", default=",".join(SERVERS), help="default: %(default)s")
    parser.add_argument("--only", choices=("raw", "servers"), help="one half of it")
    options = parser.parse_args()
    if not {0, LOAD_CPU} <= os.sched_getaffinity(0):
        raise SystemExit("two processors are needed: one for the server, one for the load")
    if not shutil.which("cc"):
        raise SystemExit("cc is missing: install it (Debian: build-essential)")
    for tool in ("wrk", "httperf"):
        if not shutil.which(tool):
            print(f"{tool} is not here (Debian: {tool}): what it is compared with is left out", file=sys.stderr)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    halves: dict[str, Callable[[argparse.Namespace], list[Row]]] = {"raw": against_raw, "servers": against_servers}
    begun, rows = time.monotonic(), []
    for name, half in halves.items():
        if options.only in (None, name):
            rows += half(options)
    show("engine / other", rows)
    print(f"{options.rounds} rounds of {options.seconds:g} s; {time.monotonic() - begun:.0f} s in all", file=sys.stderr)
    return int(any(line[-1] != "holds" for line in rows))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Problem as problem:
        sys.exit(problem.text())
