"""A fast view beside a slow one: 50 connections sleep 50 ms each, 8 ask for the fast view.

Server on CPU 0, both loads on CPU 1. Needs wrk. `beside_slow.py [COMMAND with {port}]`
measures another server, started in this folder.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys

from beside_raw import HERE, answers, free_port

OWN = f"{sys.executable} -m forehand pong:application --bind 127.0.0.1:{{port}} --threads 64"


def wrk(arguments: str) -> subprocess.Popen[str]:
    """A load that has begun."""
    command = shlex.split(f"taskset -c 1 wrk -t1 --latency {arguments}")
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def main() -> int:
    """Measure three times; the exit status."""
    command = sys.argv[1] if len(sys.argv) > 1 else OWN
    for _ in range(3):
        port = free_port()
        process = subprocess.Popen(
            shlex.split(command.replace("{port}", str(port))),
            cwd=HERE,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: os.sched_setaffinity(0, {0}),
        )
        try:
            answers(port)
            slow = wrk(f"-c50 -d6 http://127.0.0.1:{port}/slow")
            fast = wrk(f"-c8 -d5 http://127.0.0.1:{port}/")
            told = [run.communicate()[0] for run in (fast, slow)]
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        found = [re.search(r"99%\s+(\S+).*?Requests/sec:\s+(\S+)", text, re.S) for text in told]
        for name, values in zip(("fast", "slow"), found, strict=True):
            print(f"{name}: {values[2]}/s, p99 {values[1]}" if values else f"{name}: no answer", end="   ")
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
