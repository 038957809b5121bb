"""Requests a second of `--worker-class gevent` beside gunicorn's gevent worker, on one processor.

    greenlets.py [--rounds 5] [--seconds 3] [--loads keepalive,close,sleep] [--least 5]

Needs wrk and, once, the package index: gunicorn, gevent and what its worker imports are installed into an environment
of their own, `.venvs/gunicorn`. Each round runs both servers, one after the other, with one worker on CPU 0 and the
load on CPU 1; the ratio of a round is the figure. `cpu us` is what the worker's processes used for a request, which
does not depend on how much of CPU 0 others have taken meanwhile. With `--least` the exit status tells whether the
median of keepalive's ratios is at least so much. Not named gevent.py: it would stand in that package's way.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
from pathlib import Path

from beside_raw import answers, cpu, free_port

HERE = Path(__file__).resolve().parent
VENV = HERE.parent / ".venvs" / "gunicorn"
LOADS = {
    "keepalive": ["-c64", "http://127.0.0.1:{port}/"],
    "close": ["-c64", "-H", "Connection: close", "http://127.0.0.1:{port}/"],
    # Each waits for 50 ms, which greenlets do together.
    "sleep": ["-c512", "http://127.0.0.1:{port}/slow"],
}
ORDER = ("gunicorn", "forehand")


def gunicorn() -> str:
    """The command, installed if it is not there yet."""
    command = VENV / "bin" / "gunicorn"
    if not command.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        pip = [str(VENV / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "gunicorn", "gevent", "packaging"], check=True, timeout=300)
    return str(command)


def commands() -> dict[str, list[str]]:
    """How each server is started."""
    return {
        "gunicorn": [
            gunicorn(), "-k", "gevent", "-w", "1", "-b", "127.0.0.1:{port}", "--log-level", "error", "pong:application",
        ],
        "forehand": [
            sys.executable, "-m", "forehand", "pong:application", "--worker-class", "gevent",
            "--bind", "127.0.0.1:{port}", "--log-level", "error",
        ],
    }  # fmt: skip


def family(pid: int) -> list[int]:
    """A process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def measure(command: list[str], loads: list[str], seconds: int) -> dict[str, tuple[float, float]]:
    """For each load: requests a second, and CPU microseconds a request."""
    port = free_port()
    server = subprocess.Popen(
        [part.replace("{port}", str(port)) for part in command],
        cwd=HERE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {0}),
    )  # fmt: skip
    rows = {}
    try:
        answers(port)
        for load in loads:
            before = sum(map(cpu, family(server.pid)))
            words = [word.replace("{port}", str(port)) for word in LOADS[load]]
            text = subprocess.run(
                ["taskset", "-c", "1", "wrk", "-t1", f"-d{seconds}", *words], capture_output=True, text=True, check=True
            ).stdout
            # A connection that the server closes after its reply is one that wrk fails to read from.
            errors = re.search(r"Socket errors: connect (\d+), read \d+, write (\d+), timeout (\d+)", text)
            if "Non-2xx" in text or (errors and any(map(int, errors.groups()))):
                raise SystemExit(f"{command[0]} {load}: {text}")
            done = int(re.findall(r"(\d+) requests in", text)[0])
            rate = float(re.findall(r"Requests/sec:\s+([\d.]+)", text)[0])
            rows[load] = (rate, (sum(map(cpu, family(server.pid))) - before) / done * 1e6)
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
    return rows


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--loads", default=",".join(LOADS))
    parser.add_argument("--least", type=float, default=0)
    options = parser.parse_args()
    for tool, hint in (("wrk", "Debian: wrk"), ("taskset", "Debian: util-linux")):
        if not shutil.which(tool):
            raise SystemExit(f"{tool} is missing: install it ({hint})")
    loads = options.loads.split(",")
    servers = commands()
    seen: dict[str, list[dict[str, tuple[float, float]]]] = {name: [] for name in ORDER}
    for turn in range(options.rounds):
        for name in ORDER:
            seen[name].append(measure(servers[name], loads, options.seconds))
            print(f"round {turn + 1} of {options.rounds}: {name}", file=sys.stderr)
    mid = statistics.median
    medians = {}
    print(f"{'load':<12}{'gunicorn/s':>12}{'forehand/s':>12}{'ratio':>8}{'spread':>16}{'cpu us, both':>20}")
    for load in loads:
        pairs = [(theirs[load], ours[load]) for theirs, ours in zip(seen["gunicorn"], seen["forehand"], strict=True)]
        ratios = [ours[0] / theirs[0] for theirs, ours in pairs]
        medians[load] = mid(ratios)
        used = f"{mid(theirs[1] for theirs, _ in pairs):.1f} / {mid(ours[1] for _, ours in pairs):.1f}"
        print(
            f"{load:<12}{mid(theirs[0] for theirs, _ in pairs):>12.0f}{mid(ours[0] for _, ours in pairs):>12.0f}"
            f"{medians[load]:>8.2f}{min(ratios):>8.2f} -{max(ratios):<6.2f}{used:>20}"
        )
    return 0 if medians.get("keepalive", options.least) >= options.least else 1


if __name__ == "__main__":
    sys.exit(main())
