"""Reloads and upgrades under load: how many requests are lost, and what the slowest wait.

    reload.py --requests 200000 --reloads 50 [--preload] [--upgrade] [--strategy together]

The crowd of `steady.py` asks two workers at about 60 % of what they can do while the server is
reloaded again and again. Prints what was lost and the p99 of seconds with and without a reload.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Servers are started as the tests start them.
sys.path.insert(0, str(HERE.parent / "tests"))

from serving import Serving  # noqa: E402


def measure(
    requests: int, reloads: int, rate: float, options: tuple[str, ...] = (), order: str = "reload"
) -> dict[str, object]:
    """Reload so often, evenly, while at least so many requests are made. The result of `steady.py`, with
    `reloads` (how many succeeded) and `p99_ms_steady`, `p99_ms_reloading`."""
    server = Serving("crowd_app", "--workers", "2", *options, cwd=HERE)
    try:
        command = [sys.executable, str(HERE / "steady.py"), str(server.port), "--requests", str(requests)]
        # Held: on a slow machine it asks for longer, until all reloads are done.
        crowd = subprocess.Popen([*command, "--rate", str(rate), "--hold"], stdout=subprocess.PIPE, text=True)
        assert crowd.stdout is not None
        crowd.stdout.readline()
        begun = time.monotonic()
        # The first seconds show what is usual.
        warm = min(10.0, requests / rate / 4)
        gap = max(0.0, (requests / rate - warm) / reloads)
        seconds, succeeded = set(), 0
        for number in range(reloads):
            time.sleep(max(0.0, begun + warm + number * gap - time.monotonic()))
            before = time.monotonic() - begun
            code, text = server.order(order, timeout=60)
            succeeded += code == 0
            if code:
                print(text, file=sys.stderr)
            seconds |= set(range(int(before), int(time.monotonic() - begun) + 1))
        crowd.send_signal(signal.SIGUSR1)
        result: dict[str, object] = json.loads(crowd.communicate()[0])
        return {**result, "reloads": succeeded, **split(result, seconds), "log": server.log()[-2000:]}
    finally:
        server.kill()


def split(result: dict[str, object], reloading: set[int]) -> dict[str, float]:
    """The worst p99 of a second: in steady ones the median, in those with a reload the median too."""
    by_second = result["p99_ms_by_second"]
    assert isinstance(by_second, dict)
    steady = sorted(p99 for second, p99 in by_second.items() if int(second) not in reloading)
    during = sorted(p99 for second, p99 in by_second.items() if int(second) in reloading)
    middle = {"p99_ms_steady": steady, "p99_ms_reloading": during}
    return {name: some[len(some) // 2] if some else 0.0 for name, some in middle.items()}


def main() -> int:
    """The command; 1 where something was lost."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--reloads", type=int, default=50)
    parser.add_argument("--rate", type=float, default=900)
    parser.add_argument("--preload", action="store_true")
    parser.add_argument("--upgrade", action="store_true")
    parser.add_argument("--strategy", default="rolling")
    given = parser.parse_args()
    options = ("--preload",) if given.preload else ()
    options += ("--reload-strategy", given.strategy)
    order = "upgrade" if given.upgrade else "reload"
    result = measure(given.requests, given.reloads, given.rate, options, order)
    if result["lost"]:
        print(result["log"], file=sys.stderr)
    for name in ("p99_ms_by_second", "log"):
        result.pop(name)
    print(json.dumps(result, indent=2))
    return 1 if result["lost"] else 0


if __name__ == "__main__":
    sys.exit(main())
