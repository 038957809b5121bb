"""Quick views beside slow ones: who starves, with everything as it comes.

Server on CPU 0, loads on CPU 1. Needs wrk. `starvation.py [ROW…] [--command "COMMAND with {port}"]` plays the rows that
are named, or all of them, against this server or another one, started in this folder:

    crowd     50 clients of a view that sleeps 50 ms beside 8 of a quick one
    masses    500 of them
    two       two slow views, 25 clients each
    new       20 from the start, and after three seconds 50 of a view that nobody has asked for before
    auto      as crowd, with --threads auto, from the fifth second on
    database  50 clients of a view that waits 50 ms for one of ten connections, with --threads auto, from second 30 on
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

from beside_raw import HERE, answers, free_port

OWN = f"{sys.executable} -m forehand slow_views:application --bind 127.0.0.1:{{port}}"
AUTO = " --threads auto"
#: Slow paths with their clients, each with when they come, in seconds; then what is added to our own command, and after
#: how many seconds more the quick view is measured.
ROWS: dict[str, tuple[list[tuple[str, int, int]], str, int]] = {
    "crowd": ([("/slow", 50, 0)], "", 1),
    "masses": ([("/slow", 500, 0)], "", 1),
    "two": ([("/slow", 25, 0), ("/slower", 25, 0)], "", 1),
    "new": ([("/slow", 20, 0), ("/new", 50, 3)], "", 1),
    "auto": ([("/slow", 50, 0)], AUTO, 5),
    "database": ([("/database", 50, 0)], AUTO, 30),
}
#: For so long everything is measured.
SECONDS = 5


def wrk(clients: int, seconds: float, url: str) -> subprocess.Popen[str]:
    """A load that has begun."""
    command = shlex.split(f"taskset -c 1 wrk -t1 --timeout 20s --latency -c{clients} -d{seconds:g} {url}")
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def threads(pid: int) -> int:
    """How many threads the largest of a server's processes has."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return max(len(os.listdir(f"/proc/{one}/task")) for one in [str(pid), *children])


def play(command: str, row: str) -> None:
    """One row, once, printed."""
    port = free_port()
    paths, options, more = ROWS[row]
    process = subprocess.Popen(
        shlex.split(command.replace("{port}", str(port)) + (options if command == OWN else "")),
        cwd=HERE,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, {0}),
    )
    try:
        answers(port)
        url = f"http://127.0.0.1:{port}"
        last = max(when for _, _, when in paths)
        # The quick view is asked from the start: what is measured comes later.
        warm = [wrk(8, last + more, f"{url}/")]
        begun = time.monotonic()
        for path, clients, when in paths:
            time.sleep(max(0.0, begun + when - time.monotonic()))
            warm.append(wrk(clients, last + more - when, url + path))
        for load in warm:
            load.communicate()
        loads = [("quick", 8, wrk(8, SECONDS, f"{url}/"))]
        loads += [(path, clients, wrk(clients, SECONDS, url + path)) for path, clients, _ in paths]
        told = [(name, clients, load.communicate()[0]) for name, clients, load in loads]
        count = threads(process.pid)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    for name, clients, text in told:
        found = re.search(r"Distribution\s+50%\s+(\S+).*?99%\s+(\S+).*?Requests/sec:\s+(\S+)", text, re.S)
        wrong = re.search(r"Non-2xx.*|Socket errors.*", text)
        line = f"{float(found[3]):>9.0f}/s  median {found[1]:>9}  p99 {found[2]:>9}" if found else "no answer"
        print(f"{row:<9}{name:<10}{clients:>4} clients {line}  {wrong[0] if wrong else ''}", flush=True)
    print(f"{row:<9}{count} threads in all")


def main() -> int:
    """Play and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", choices=[*ROWS, []], default=[])
    parser.add_argument("--command", default=OWN)
    parser.add_argument("--times", type=int, default=1)
    options = parser.parse_args()
    for row in options.rows or ROWS:
        for _ in range(options.times):
            play(options.command, row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
