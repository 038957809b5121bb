"""Forehand beside uvicorn and granian, each on processor 0, the load on processor 1, in turn.

    beside_uvicorn.py fastapi     a JSON view of FastAPI, 64 connections kept alive (needs wrk)
    beside_uvicorn.py websocket   64 WebSockets that have 64 bytes echoed

uvicorn runs with uvloop, httptools and `websockets`. All run the same Python and the same packages, from an
environment that is made once (`--peers DIR`). Prints a line a server: medians over the rounds, and the ratios of
the rounds to uvicorn's.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from beside_raw import HERE, answers, cpu, free_port

ROOT = HERE.parent
PACKAGES = ("fastapi==0.165.0", "uvicorn[standard]==0.54.0", "websockets>=15", "granian==2.8.7")
SOCKETS = 64


def servers(peers: Path, target: str) -> dict[str, list[str]]:
    """How each is started; {port} is filled in. Without access logs, one worker and one thread of Python."""
    python = [str(peers / "bin" / "python"), "-m"]
    return {
        "uvicorn": [*python, "uvicorn", target, "--port", "{port}", "--loop", "uvloop", "--http", "httptools", "--ws",
                    "websockets", "--log-level", "error", "--no-access-log"],
        "granian": [*python, "granian", "--interface", "asgi", "--port", "{port}", "--loop", "uvloop", "--log-level",
                    "error", target],
        "forehand": [*python, "forehand", target, "--bind", "127.0.0.1:{port}", "--loop", "uvloop", "--workers", "0"],
    }  # fmt: skip


def install(peers: Path) -> None:
    """The environment, once; Forehand comes from the work tree."""
    if not (peers / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", peers], check=True)
        subprocess.run([peers / "bin" / "pip", "-q", "install", *PACKAGES], check=True)
        [packages] = peers.glob("lib/python*/site-packages")
        (packages / "forehand.pth").write_text(f"{ROOT / 'python'}\n")
        (peers / "ready").touch()


def with_wrk(port: int, seconds: int, folder: Path) -> int:
    """Requests that were answered."""
    del folder
    url = f"http://127.0.0.1:{port}/"
    command = ["taskset", "-c", "1", "wrk", "-t1", "-c64", f"-d{seconds}", url]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in text or "Socket errors" in text:
        raise SystemExit(text)
    return int(re.findall(r"(\d+) requests in", text)[0])


def with_sockets(port: int, seconds: int, folder: Path) -> int:
    """Messages that came back."""
    command = ["taskset", "-c", "1", str(folder / "load"), str(port), str(SOCKETS), str(seconds)]
    return int(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


LOADS = {"fastapi": ("fastapi_view:app", with_wrk), "websocket": ("echo:app", with_sockets)}


def tree(pid: int) -> list[int]:
    """A process and all below it."""
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in below for one in tree(int(child)))]


def measure(command: list[str], load: str, seconds: int, folder: Path) -> tuple[float, float]:
    """What was done in a second, and what each cost the server in microseconds of processor."""
    port = free_port()
    words = ["taskset", "-c", "0", *(word.replace("{port}", str(port)) for word in command)]
    process = subprocess.Popen(words, cwd=HERE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        answers(port)
        LOADS[load][1](port, 1, folder)
        before = sum(cpu(pid) for pid in tree(process.pid))
        done = LOADS[load][1](port, seconds, folder)
        return done / seconds, (sum(cpu(pid) for pid in tree(process.pid)) - before) / done * 1e6
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("load", choices=LOADS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--peers", type=Path, default=Path(tempfile.gettempdir()) / "forehand-asgi-peers")
    given = parser.parse_args()
    for tool in ("wrk", "taskset", "cc"):
        if not shutil.which(tool):
            raise SystemExit(f"{tool} is missing: install it (Debian: wrk, util-linux, build-essential)")
    install(given.peers)
    commands = servers(given.peers, LOADS[given.load][0])
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["cc", "-O2", "-o", f"{folder}/load", HERE / "websocket_load.c"], check=True)
        for turn in range(given.rounds):
            for name, command in commands.items():
                found[name].append(measure(command, given.load, given.seconds, Path(folder)))
            print(f"round {turn + 1} of {given.rounds}", file=sys.stderr)
    for name, rows in found.items():
        ratios = [ours[0] / theirs[0] for ours, theirs in zip(rows, found["uvicorn"], strict=True)]
        rate, each = (statistics.median(row[index] for row in rows) for index in (0, 1))
        print(
            f"{name:10}{rate:10.0f}/s{each:9.2f} us each"
            f"{statistics.median(ratios):8.2f} x uvicorn ({min(ratios):.2f}-{max(ratios):.2f})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
