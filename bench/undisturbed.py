"""What of a p99 beside stuck requests is the server's, and what other programs of the machine have to do with it.

    undisturbed.py [--seconds N] [--times N]       calm, a process that burns, and endless loops and deadlocks, in turn

Requests as in `supervision.py stuck`. The kernel's own tracepoints tell meanwhile who has had which processor when
(`perf`, as root); a program that is neither the server nor the load and has one for 0.4 ms or longer disturbs whoever
is asked in that time or in the two milliseconds after it. Prints a line for each window: percentiles of all requests,
and of those that nobody has disturbed; then the ratios to the calm windows (medians).
"""

from __future__ import annotations

import argparse
import csv
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import supervision
from reload import HERE
from serving import Serving
from steady import quantile

OPTIONS = ("--workers", "2", "--request-timeout", "1s", "--request-timeouts", "/sleep=0,/stream=0")
#: Names of threads that are the server's, the load's, the burning process's, this program's, or nobody's.
OURS = ("forehand", "load-", "python", "perf", "swapper")
#: So long a program has a processor that disturbs, and so long it goes on to: seconds.
BURST, AFTER = 0.0004, 0.002
#: Before the tracepoints are read everything has begun, and after it nothing has ended yet: seconds.
BEFORE, LEFT = 5, 7
SWITCH = re.compile(r"\[(\d+)\]\s+([\d.]+):.*next_comm=(.*) next_pid=")
PERCENTILES = (0.5, 0.9, 0.99)
#: Begin, end and name of whatever had a processor.
Run = tuple[float, float, str]


def window(kind: str, seconds: int, folder: Path) -> tuple[list[float], list[float]]:
    """Milliseconds that each request has taken, of all and of the undisturbed ones."""
    trace, data = folder / "trace.csv", folder / "switches.data"
    begun: list[float] = []
    usual = supervision.load

    def traced(plan: dict[str, Any]) -> subprocess.Popen[bytes]:
        if "warmup_s" not in plan:
            return usual(plan)
        begun.append(monotonic())
        return usual({**plan, "trace": str(trace)})

    server = Serving("crowd_app:stuck", *OPTIONS, cwd=HERE)
    recording = threading.Thread(target=record, args=(seconds, data))
    supervision.load = traced
    try:
        trouble = troubles(server)[kind]
        for _ in range(2):
            trouble()  # what is asked for is known, as after the first minutes of any server
        recording.start()
        supervision.p99_beside(server, seconds, trouble)
        recording.join()
    finally:
        supervision.load = usual
        server.kill()
    return sorted_out(trace, begun[0], runs(data))


def troubles(server: Serving) -> dict[str, Callable[[], Any]]:
    """What goes on beside the requests, by name."""
    return {
        "calm": supervision.rest,
        "process": supervision.burn_and_rest,
        "stuck": lambda: list(supervision.ask_for_stuck(server)),
    }


def record(seconds: int, data: Path) -> None:
    """The kernel's tracepoint of each change of thread, for the middle of a window."""
    sleep(BEFORE)
    command = ["perf", "record", "-q", "-k", "CLOCK_MONOTONIC", "-m", "16M", "-a", "-e", "sched:sched_switch"]
    subprocess.run([*command, "-o", data, "--", "sleep", str(seconds - LEFT)], check=True, stderr=subprocess.DEVNULL)


def runs(data: Path) -> list[Run]:
    """Who has had a processor from when to when, in the order of the ends."""
    command = ["perf", "script", "-i", str(data), "--ns", "-F", "comm,tid,cpu,time,event,trace"]
    found: list[Run] = []
    now: dict[str, tuple[float, str]] = {}
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        switch = SWITCH.search(line)
        if switch is None:
            continue
        cpu, at, name = switch[1], float(switch[2]), switch[3]
        if cpu in now:
            found.append((now[cpu][0], at, now[cpu][1]))
        now[cpu] = (at, name)
    if not found:
        raise SystemExit("perf has recorded nothing: it has to be there, and this run as root")
    return found


def sorted_out(trace: Path, begun: float, known: list[Run]) -> tuple[list[float], list[float]]:
    """The requests of a window by whether somebody has disturbed them."""
    with trace.open() as file:
        spans = [(int(row["planned_us"]) / 1e6, int(row["ended_us"]) / 1e6) for row in csv.DictReader(file)]
    first, last = known[0][0] + 0.1, known[-1][1] - 0.1
    begun = when_the_load_began(begun, [end for _, end in spans], [run for run in known if run[2].startswith("load-")])
    bursts = sorted((begin, end) for begin, end, name in known if end - begin >= BURST and not name.startswith(OURS))
    starts = [begin for begin, _ in bursts]
    everything, undisturbed = [], []
    for planned, ended in spans:
        came, over = begun + planned, begun + ended
        if not first < came < over < last:
            continue
        everything.append((over - came) * 1000)
        before = bisect_right(starts, over)
        if all(end + AFTER <= came for _, end in bursts[max(0, before - 8) : before]):
            undisturbed.append((over - came) * 1000)
    return everything, undisturbed


def when_the_load_began(called: float, ends: list[float], own: list[Run]) -> float:
    """Its clock begins some milliseconds after it was called: where most replies come while one of its threads runs."""
    own = sorted(own)
    until = sorted(end for _, end, _ in own)
    sample = [end for end in ends if own[0][0] + 1 < called + end < own[-1][1] - 1][::3][:1000]

    def fits(began: float) -> int:
        places = ((began + end, bisect_left(until, began + end)) for end in sample)
        return sum(place < len(own) and own[place][0] <= at for at, place in places)

    return max((called + step / 50_000 for step in range(1500)), key=fits)


def told(found: list[float]) -> str:
    """Percentiles in milliseconds."""
    return " ".join(f"{quantile(sorted(found), each):.2f}" for each in PERCENTILES)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=30, help="of each window")
    parser.add_argument("--times", type=int, default=3, help="windows of each kind")
    given = parser.parse_args()
    if shutil.which("perf") is None:
        raise SystemExit("perf is missing: install linux-perf")
    p99: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(given.times):
            for kind in ("calm", "process", "stuck"):
                everything, undisturbed = window(kind, given.seconds, Path(folder))
                both = (quantile(sorted(everything), 0.99), quantile(sorted(undisturbed), 0.99))
                p99.setdefault(kind, []).append(both)
                print(
                    f"{kind:8} p50, p90, p99 in ms: {told(everything)} of {len(everything)}; "
                    f"undisturbed: {told(undisturbed)} of {len(undisturbed)}",
                    flush=True,
                )
    middle = {kind: [statistics.median(each) for each in zip(*found, strict=True)] for kind, found in p99.items()}
    for kind in ("process", "stuck"):
        of_all, undisturbed_ratio = (mine / calm for mine, calm in zip(middle[kind], middle["calm"], strict=True))
        print(f"{kind:8} x {of_all:.2f} of calm; undisturbed: x {undisturbed_ratio:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
