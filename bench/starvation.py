"""Quick views beside slow ones: who starves, with everything as it comes.

Server on CPU 0, loads on CPU 1, by the lab's engine (`make load`): its percentiles are of what it measured alone.
`starvation.py [ROW…] [--times N] [--command "COMMAND with {port}"]` plays the rows that are named, or all of them,
against this server or another one, started in this folder. A line for each load, medians over the times; bounds are
held against this server only, each with its figure, and the exit status says whether all are met.

    crowd     50 clients of a view that sleeps 50 ms beside 8 of a quick one
    masses    500 of them
    two       two slow views, 25 clients each
    new       20 from the start, and after three seconds 50 of a view that nobody has asked for before
    auto      as crowd, with --threads auto, from the fifth second on
    database  50 clients of a view that waits 50 ms for one of ten connections, with --threads auto, from second 30 on
    long      a hundred clients of a view that takes ten seconds, with --threads auto, from second 10 on, when whoever
              has waited for as long as that is refused
    pages     8 clients of a view that takes 20 ms beside 50 of one that takes a second
    scraper   twenty clients ask for four fifths of what 31 threads finish, calm, and beside one that asks for four
              times as much as is finished, with --fair-by client
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import shlex
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beside_raw import HERE, answers, free_port
from forehand_lab.engine import Load

OWN = f"{sys.executable} -m forehand slow_views:application --bind 127.0.0.1:{{port}}"
AUTO = " --threads auto"
QUICK, SLOW, DATABASE, LONG = "/", "/slow", "/database", "/long"
PAGE, REPORT = "/page", "/report"
#: What ten connections finish whose calls take 50 ms, in a second.
BEST = 10 / 0.05
#: What 31 threads finish of calls that take 50 ms, in a second.
SLOW_RATE = 31 / 0.05
#: For so long everything is measured, in seconds.
SECONDS = 5

#: A figure of a row ("rate /slow", "p99 /", "threads"): what it is bound by, in words, and whether it is.
Bounds = Mapping[str, tuple[str, Callable[[float], bool]]]


def least(bound: float) -> tuple[str, Callable[[float], bool]]:
    """A figure is so large or larger."""
    return f">= {bound:g}", lambda figure: figure >= bound


def most(bound: float) -> tuple[str, Callable[[float], bool]]:
    """A figure is so large or smaller."""
    return f"<= {bound:g}", lambda figure: figure <= bound


@dataclass(frozen=True)
class Row:
    """What is asked, and what is to come of it."""

    #: Slow paths with their clients, each with when they come, in seconds.
    slow: tuple[tuple[str, int, float], ...]
    #: So many seconds after the last have come it is measured.
    warm: float
    bounds: Bounds
    #: What is added to our own command.
    options: str = ""

    @property
    def loads(self) -> tuple[tuple[str, int, float], ...]:
        """Path, clients and beginning of every load, the quick one's first."""
        return ((QUICK, 8, 0.0), *self.slow)


FAST = {"rate /": least(50_000), "p99 /": most(2)}
ROWS = {
    "crowd": Row(((SLOW, 50, 0),), 1, {**FAST, "rate /slow": least(600)}),
    "masses": Row(((SLOW, 500, 0),), 1, {"p99 /": most(3)}),
    "two": Row(((SLOW, 25, 0), ("/slower", 25, 0)), 1, {"p99 /": most(3)}),
    "new": Row(((SLOW, 20, 0), ("/new", 50, 3)), 1, {"p99 /": most(3)}),
    "auto": Row(((SLOW, 50, 0),), 5, {**FAST, "rate /slow": least(950)}, AUTO),
    # Eight clients would have 400 pages a second.
    "pages": Row(
        ((PAGE, 8, 0), (REPORT, 50, 0)), 3, {"p99 /": most(3), "rate /page": least(200), "p99 /page": most(500)}
    ),
    "database": Row(((DATABASE, 50, 0),), 30, {"rate /database": least(0.95 * BEST), "threads": most(16)}, AUTO),
    # Those that each client has asked last have not ended when the load does.
    "long": Row(((LONG, 100, 0),), 10, {**FAST, "failed /long": most(100), "threads": least(100)}, AUTO),
}


def plan(port: int, path: str, clients: int, warm: float) -> dict[str, Any]:
    """What the engine is to do: `warm` seconds do not count."""
    whole = math.ceil(warm)
    return {
        "url": f"http://127.0.0.1:{port}{path}", "load": {"kind": "closed", "connections": clients}, "cpus": [1],
        "warmup_s": whole, "duration_s": whole + SECONDS, "drain_s": 1.0, "requests": [{"name": path}],
        "timeouts": {"connect_s": 20.0, "first_byte_s": 20.0, "body_s": 20.0},
    }  # fmt: skip


def threads_for_requests(pid: int) -> int:
    """How many threads of a server's processes can be inside the application, by their names; else all."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    counts = []
    for one in [str(pid), *children]:
        names = [(task / "comm").read_text().strip() for task in Path(f"/proc/{one}/task").iterdir()]
        own = [name for name in names if name.startswith("forehand-") and name[len("forehand-") :].isdigit()]
        counts.append(len(own) or len(names))
    return max(counts)


@contextlib.contextmanager
def running(command: str) -> Iterator[tuple[int, int]]:
    """A server on CPU 0: its port and process."""
    port = free_port()
    words = shlex.split(command.replace("{port}", str(port)))
    # A session of its own: servers whose workers outlive them are ended with these.
    process = subprocess.Popen(
        words, cwd=HERE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {0}),
    )  # fmt: skip
    try:
        answers(port)
        yield port, process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def play(command: str, row: Row) -> dict[str, float]:
    """One row, once: every figure by its name."""
    with contextlib.ExitStack() as ends:
        port, pid = ends.enter_context(running(command + (row.options if command == OWN else "")))
        loads: list[Load] = []
        last = max(when for _, _, when in row.slow)
        begun = time.monotonic()
        for path, clients, when in row.loads:
            time.sleep(max(0.0, begun + when - time.monotonic()))
            loads.append(Load(plan(port, path, clients, last + row.warm - when)))
            ends.callback(loads[-1].kill)
        counts: list[int] = []
        over = threading.Event()

        def count() -> None:
            while not over.wait(0.5):
                if time.monotonic() >= begun + last + row.warm:
                    counts.append(threads_for_requests(pid))

        counter = threading.Thread(target=count)
        counter.start()
        try:
            results = [load.result() for load in loads]
        finally:
            over.set()
            counter.join()
    figures: dict[str, float] = {"threads": max(counts, default=0)}
    for (path, _, _), result in zip(row.loads, results, strict=True):
        percentiles = result["times"]["response"]["percentiles_us"]
        figures[f"rate {path}"] = result["totals"]["replies_per_s"]
        figures[f"failed {path}"] = result["totals"]["failed"]
        for name, key in (("median", "50"), ("p99", "99")):
            found = percentiles.get(key)
            figures[f"{name} {path}"] = found / 1000 if found else float("nan")
    return figures


def shown(name: str, row: Row, times: list[dict[str, float]], own: bool) -> bool:
    """Prints a row. True: its bounds hold."""
    middle = {key: statistics.median(one[key] for one in times) for key in times[0]}
    for path, clients, _ in row.loads:
        spread = [one[f"p99 {path}"] for one in times]
        print(
            f"{name:<9}{path:<10}{clients:>4} clients {middle[f'rate {path}']:>9.0f}/s  median"
            f" {middle[f'median {path}']:>8.2f} ms  p99 {middle[f'p99 {path}']:>8.2f} ms"
            f" ({min(spread):.2f} to {max(spread):.2f})  failed {middle[f'failed {path}']:.0f}",
            flush=True,
        )
    print(f"{name:<9}{middle['threads']:.0f} threads")
    missed = [key for key, (_, holds) in row.bounds.items() if own and not holds(middle[key])]
    for key, (bound, _) in row.bounds.items() if own else ():
        unit = " ms" if key.startswith("p99") else "/s" if key.startswith("rate") else ""
        print(
            f"{name:<9}{key} {middle[key]:.2f}{unit}, bound {bound}: {'NOT MET' if key in missed else 'met'}",
            flush=True,
        )
    return not missed


def asks(port: int, rate: float, sources: list[str]) -> dict[str, Any]:
    """Somebody asks for what is slow so often in a second, from these addresses."""
    return {
        "url": f"http://127.0.0.1:{port}{SLOW}", "cpus": [1], "sources": sources, "warmup_s": 2,
        "duration_s": 2 + SECONDS,
        "load": {"kind": "open", "arrivals": "poisson", "rate": rate}, "drain_s": 1.0, "requests": [{"name": SLOW}],
        "timeouts": {"connect_s": 20.0, "first_byte_s": 20.0, "body_s": 20.0},
    }  # fmt: skip


def scraped(command: str, fair: str) -> dict[str, float]:
    """The clients calm, and beside the scraper: what they are given of what they ask for, and when."""
    figures: dict[str, float] = {}
    clients = asks(0, 0.8 * SLOW_RATE, [f"127.0.1.{number}" for number in range(1, 21)])
    with running(command + fair) as (port, _):
        clients["url"] = asks(port, 0, [])["url"]
        for name, scraper in (("calm", None), ("beside", asks(port, 4 * SLOW_RATE, ["127.0.2.1"]))):
            beside = Load(scraper) if scraper else None
            result = Load(clients).result()
            if beside:
                figures["scraper"] = given(beside.result())
            figures[f"success {name}"] = given(result)
            figures[f"p99 {name}"] = result["times"]["response"]["percentiles_us"]["99"] / 1000
    return figures


def given(result: Mapping[str, Any]) -> float:
    """Of what was asked for, what was answered with 200."""
    totals = result["totals"]
    return float(totals["replies"] / max(1, totals["replies"] + totals["failed"]))


def scraper(command: str, times: int) -> bool:
    """Prints the row. True: its bounds hold."""
    found = [scraped(command, " --fair-by client" if command == OWN else "") for _ in range(times)]
    middle = {key: statistics.median(one[key] for one in found) for key in found[0]}
    for name in ("calm", "beside"):
        spread = [one[f"p99 {name}"] for one in found]
        print(
            f"scraper  {name:<10}others are given {middle[f'success {name}']:.1%}, p99 {middle[f'p99 {name}']:.1f} ms"
            f" ({min(spread):.1f} to {max(spread):.1f})",
            flush=True,
        )
    print(f"scraper  is given {middle['scraper']:.1%}")
    if command != OWN:
        return True
    ratio = middle["p99 beside"] / middle["p99 calm"]
    bounds = [
        (f"others are given {middle['success beside']:.1%}, bound >= 99.0%", middle["success beside"] >= 0.99),
        (f"p99 {ratio:.2f} x calm, bound <= 2", ratio <= 2),
    ]
    for text, met in bounds:
        print(f"scraper  {text}: {'met' if met else 'NOT MET'}", flush=True)
    return all(met for _, met in bounds)


def main() -> int:
    """Play and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", choices=[*ROWS, "scraper", []], default=[])
    parser.add_argument("--command", default=OWN)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    held = True
    for name in options.rows or [*ROWS, "scraper"]:
        if name == "scraper":
            held &= scraper(options.command, options.times)
            continue
        times = [play(options.command, ROWS[name]) for _ in range(options.times)]
        held &= shown(name, ROWS[name], times, options.command == OWN)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
