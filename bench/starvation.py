"""Quick views beside slow ones: who starves, with everything as it comes.

Server on CPU 0, loads on CPU 1. Needs wrk. `starvation.py [ROW…] [--command "COMMAND with {port}"]` plays the rows that
are named, or all of them, against this server or another one, started in this folder:

    crowd     50 clients of a view that sleeps 50 ms beside 8 of a quick one
    masses    500 of them
    two       two slow views, 25 clients each
    new       20 from the start, and after three seconds 50 of a view that nobody has asked for before
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

from beside_raw import HERE, answers, free_port

OWN = f"{sys.executable} -m forehand slow_views:application --bind 127.0.0.1:{{port}}"
#: Slow paths with their clients, each with when they come, in seconds.
ROWS = {
    "crowd": [("/slow", 50, 0)],
    "masses": [("/slow", 500, 0)],
    "two": [("/slow", 25, 0), ("/slower", 25, 0)],
    "new": [("/slow", 20, 0), ("/new", 50, 3)],
}
#: The quick view is measured for so long, from a second after the last slow clients have come.
SECONDS = 5


def wrk(clients: int, seconds: float, url: str) -> subprocess.Popen[str]:
    """A load that has begun."""
    command = shlex.split(f"taskset -c 1 wrk -t1 --timeout 20s --latency -c{clients} -d{seconds:g} {url}")
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def play(command: str, row: str) -> None:
    """One row, once, printed."""
    port = free_port()
    process = subprocess.Popen(
        shlex.split(command.replace("{port}", str(port))),
        cwd=HERE,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, {0}),
    )
    try:
        answers(port)
        url = f"http://127.0.0.1:{port}"
        # The quick view is asked from the start: what is measured comes later.
        quick = wrk(8, 1 + max(when for _, _, when in ROWS[row]), f"{url}/")
        begun = time.monotonic()
        slow = []
        for path, clients, when in ROWS[row]:
            time.sleep(max(0.0, begun + when - time.monotonic()))
            left = max(other for _, _, other in ROWS[row]) - when
            slow.append((path, clients, wrk(clients, SECONDS + 2 + left, url + path)))
        quick.communicate()
        told = [("quick", 8, wrk(8, SECONDS, f"{url}/").communicate()[0])]
        told += [(path, clients, load.communicate()[0]) for path, clients, load in slow]
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    for name, clients, text in told:
        found = re.search(r"Distribution\s+50%\s+(\S+).*?99%\s+(\S+).*?Requests/sec:\s+(\S+)", text, re.S)
        wrong = re.search(r"Non-2xx.*|Socket errors.*", text)
        line = f"{float(found[3]):>9.0f}/s  median {found[1]:>9}  p99 {found[2]:>9}" if found else "no answer"
        print(f"{row:<8}{name:<9}{clients:>4} clients {line}  {wrong[0] if wrong else ''}", flush=True)


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
