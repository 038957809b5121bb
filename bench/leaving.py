"""What it costs that idle clients go to another worker, where one request computes without end.

    leaving.py [--clients N] [--rounds N]

Two workers, idle clients that have asked once, then a calculation with a deadline of a second. Prints JSON: how many
clients have left in each round, and the processor time of who gave them and of who took them, in microseconds a client,
from the kernel's count of each thread (schedstat): without the thread that computes, and the watchdogs, which look
after it.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from serving import Serving  # noqa: E402

ASKED = b"GET /work?1 HTTP/1.1\r\nHost: a\r\n\r\n"
#: Of a calculation: when its clients have left, and before its deadline ends it.
LOOK_S = 0.8


def threads(pid: int) -> dict[str, int]:
    """Nanoseconds on a processor, by thread; without the watchdog."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    serving = (task for task in tasks if "watch" not in (task / "comm").read_text())
    return {task.name: int((task / "schedstat").read_text().split()[0]) for task in serving}


def used(before: dict[str, int], after: dict[str, int]) -> list[int]:
    """What each thread has used meanwhile, the most first."""
    return sorted((spent - before.get(task, 0) for task, spent in after.items()), reverse=True)


def answered(sock: socket.socket) -> None:
    """One request, to the end of its answer."""
    sock.sendall(ASKED)
    assert sock.recv(65536).startswith(b"HTTP/1.1 200")


def once(server: Serving) -> dict[str, Any]:
    """A calculation; whose clients leave, and what that costs on both sides."""
    pids = [worker["pid"] for worker in server.status()["workers"]]
    gone = server.counters()["connections_handed_over"]
    before = {pid: threads(pid) for pid in pids}
    with server.connect() as sock:
        sock.sendall(b"GET /spin HTTP/1.1\r\nHost: a\r\n\r\n")
        time.sleep(LOOK_S)
        spent = {pid: used(before[pid], threads(pid)) for pid in pids}
        left = server.counters()["connections_handed_over"] - gone
        assert int(sock.recv(65536).split()[1]) == 504
    giver = max(pids, key=lambda pid: spent[pid][0])
    (taker,) = (pid for pid in pids if pid != giver)
    return {
        "left": left,
        "gave_us": sum(spent[giver][1:]) / 1000 / max(left, 1),
        "took_us": sum(spent[taker]) / 1000 / max(left, 1),
    }


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--clients", type=int, default=260)
    parser.add_argument("--rounds", type=int, default=6)
    given = parser.parse_args()
    server = Serving("crowd_app:stuck", "--workers", "2", "--request-timeout", "1s", cwd=HERE)
    try:
        clients = [server.connect() for _ in range(given.clients)]
        rounds = []
        for _ in range(given.rounds):
            for client in clients:
                answered(client)
            time.sleep(1)
            rounds.append(once(server))
            time.sleep(3)
        middle = {each: statistics.median(one[each] for one in rounds) for each in rounds[0]}
        print(json.dumps({"rounds": rounds, "middle": middle}, indent=2))
    finally:
        server.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
