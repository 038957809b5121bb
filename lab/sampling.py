"""Watches a server five times a second: memory that counts shared pages once, CPU, threads, descriptors, load.

Runs in a thread of its own. What it finds is a list of plain rows; nothing is computed here.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from typing import Any

HERTZ = 5
_TICKS = os.sysconf("SC_CLK_TCK")


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        # The process has ended between the list and the look.
        return ""


def descendants(roots: list[int]) -> list[int]:
    """The processes and all of theirs, from the kernel's lists of children."""
    found: list[int] = []
    left = list(roots)
    while left:
        pid = left.pop()
        if pid in found or not os.path.exists(f"/proc/{pid}"):
            continue
        found.append(pid)
        for thread in _listed(f"/proc/{pid}/task"):
            left += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
    return sorted(found)


def _listed(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def pss_kib(pids: list[int]) -> int:
    """Proportional set size: pages that k processes share count 1/k in each, so that the sum counts them once."""
    total = 0
    for pid in pids:
        found = re.search(r"^Pss:\s+(\d+)", _read(f"/proc/{pid}/smaps_rollup"), re.M)
        total += int(found[1]) if found else 0
    return total


def cpu_s(pids: list[int]) -> float:
    """Seconds of processor used, by the processes and by the children that they have buried."""
    total = 0.0
    for pid in pids:
        fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        if fields:
            own, buried = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
            total += buried / _TICKS + (clock_s(pid) or own / _TICKS)
    return total


def clock_s(pid: int) -> float | None:
    """A process's own clock, in seconds: to the nanosecond, where /proc counts in hundredths of a second."""
    try:
        # What clock_getcpuclockid(3) gives, which Python has not: the process above, and 2 for time on a processor.
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return None


def look(roots: list[int], begun: float) -> dict[str, Any]:
    """One row: seconds since the beginning, and what the tree of processes uses."""
    pids = descendants(roots)
    threads = descriptors = 0
    for pid in pids:
        threads += len(_listed(f"/proc/{pid}/task"))
        descriptors += len(_listed(f"/proc/{pid}/fd"))
    free = re.search(r"^MemAvailable:\s+(\d+)", _read("/proc/meminfo"), re.M)
    return {
        "t": round(time.monotonic() - begun, 3),
        "pss_kib": pss_kib(pids),
        "cpu_s": round(cpu_s(pids), 3),
        "processes": len(pids),
        "threads": threads,
        "descriptors": descriptors,
        "load": round(os.getloadavg()[0], 2),
        "free_mib": int(free[1]) // 1024 if free else 0,
    }


class Sampler:
    """`with Sampler(roots) as sampler:`; afterwards `sampler.rows`."""

    def __init__(self, roots: Callable[[], list[int]]) -> None:
        self._roots = roots
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self.rows: list[dict[str, Any]] = []

    def __enter__(self) -> Sampler:
        self._begun = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        due = self._begun
        # There is a row of the shortest time, too, however late this thread comes.
        while True:
            self.rows.append(look(self._roots(), self._begun))
            due += 1 / HERTZ
            if self._end.wait(max(0.0, due - time.monotonic())):
                return
