"""`make bench`: CPU per request of Forehand beside a server in C that runs no Python.

Needs wrk and a C compiler. Each round runs both servers once, in turn, so that a machine that
drifts drifts for both; the ratio of a round is the figure. Server on CPU 0, load on CPU 1.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from shares import tree

HERE = Path(__file__).resolve().parent
LOADS = {
    "keepalive": ["-c64"],
    "browser": ["-c64", "-s", str(HERE / "browser.lua")],
    "close": ["-c64", "-H", "Connection: close"],
    "pipeline": ["-c64", "-s", str(HERE / "pipeline.lua")],
}


def free_port() -> int:
    """A port that nobody has at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def cpu(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pss(pid: int) -> float:
    """Proportional memory in MiB."""
    found = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
    return int(found[1]) / 1024 if found else 0.0


def answers(port: int) -> None:
    """Wait until a server answers."""
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise SystemExit("a server did not start")


def measure(command: list[str], loads: list[str], seconds: int) -> dict[str, tuple[float, float, float]]:
    """For each load: CPU microseconds a request, requests a second, PSS after it."""
    port = free_port()
    process = subprocess.Popen(
        [part.replace("{port}", str(port)) for part in command],
        cwd=HERE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=lambda: os.sched_setaffinity(0, {0}),
    )  # fmt: skip
    rows = {}
    try:
        answers(port)
        for load in loads:
            url = f"http://127.0.0.1:{port}/"
            before = sum(map(cpu, tree(process.pid)))
            text = subprocess.run(
                ["taskset", "-c", "1", "wrk", "-t1", f"-d{seconds}", *LOADS[load], url],
                capture_output=True, text=True, check=True,
            ).stdout  # fmt: skip
            if "Non-2xx" in text or "Socket errors" in text:
                raise SystemExit(f"{command[0]} {load}: {text}")
            done = int(re.findall(r"(\d+) requests in", text)[0])
            rate = float(re.findall(r"Requests/sec:\s+([\d.]+)", text)[0])
            processes = tree(process.pid)
            rows[load] = ((sum(map(cpu, processes)) - before) / done * 1e6, rate, sum(map(pss, processes)))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    return rows


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--loads", default=",".join(LOADS))
    options = parser.parse_args()
    for tool, hint in (("wrk", "Debian: wrk"), ("cc", "Debian: build-essential"), ("taskset", "Debian: util-linux")):
        if not shutil.which(tool):
            raise SystemExit(f"{tool} is missing: install it ({hint})")
    loads = options.loads.split(",")
    with tempfile.TemporaryDirectory() as folder:
        raw = f"{folder}/raw"
        subprocess.run(["cc", "-O2", "-o", raw, str(HERE / "raw.c")], check=True)
        forehand = [sys.executable, "-m", "forehand", "pong:application", "--bind", "127.0.0.1:{port}"]
        seen: dict[str, list[dict[str, tuple[float, float, float]]]] = {"raw": [], "forehand": []}
        for turn in range(options.rounds):
            for name, command in (("raw", [raw, "{port}"]), ("forehand", forehand)):
                seen[name].append(measure(command, loads, options.seconds))
                print(f"round {turn + 1} of {options.rounds}: {name}", file=sys.stderr)
    print(f"{'load':<12}{'raw us':>9}{'ours us':>9}{'ratio':>8}{'spread':>14}{'ours/s':>10}{'PSS MiB':>9}")
    for load in loads:
        ratios = [ours[load][0] / theirs[load][0] for ours, theirs in zip(seen["forehand"], seen["raw"], strict=True)]
        mid = statistics.median
        print(
            f"{load:<12}{mid(r[load][0] for r in seen['raw']):>9.2f}{mid(r[load][0] for r in seen['forehand']):>9.2f}"
            f"{mid(ratios):>8.2f}{min(ratios):>8.2f}-{max(ratios):<5.2f}"
            f"{mid(r[load][1] for r in seen['forehand']):>10.0f}{mid(r[load][2] for r in seen['forehand']):>9.1f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
