"""How late the kernel lets run who wakes up beside a thread that computes, by the slices that both want.

    slices.py [--cpu 0] [--seconds 5]

One process burns on a processor; another one on the same processor sleeps until a time each 3 ms, works for nothing or
for 0.7 ms, and measures how late it is awake. Linux from 6.12 on lets a thread say how long a slice it wants
(sched_setattr(2)). Needs no rights, and nothing of the server.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import signal
import struct
import sys
import time

#: Numbers of sched_setattr and sched_getattr.
CALLS = {"x86_64": (314, 315), "aarch64": (274, 275)}
#: `struct sched_attr` as far as it goes here: size, policy, flags, nice, priority, runtime, deadline, period.
ATTRIBUTES = "=IIQiIQQQ"
#: Slices of who burns and of who wakes up, in milliseconds; zero: the usual ones.
CASES = ((0.0, 0.0), (3.0, 0.0), (10.0, 0.0), (0.0, 0.3), (0.3, 0.3))
#: For so long it works each time, in seconds.
WORKS = (0.0, 0.0007)
#: So often it is woken, in seconds: no multiple of any slice.
EACH = 0.0031
LIBC = ctypes.CDLL(None, use_errno=True)


def usual_slice() -> int:
    """The calling thread's slice in nanoseconds. Raises OSError."""
    found = ctypes.create_string_buffer(struct.calcsize(ATTRIBUTES))
    if LIBC.syscall(CALLS[platform.machine()][1], 0, found, len(found.raw), 0):
        raise OSError(ctypes.get_errno(), "sched_getattr")
    return int(struct.unpack(ATTRIBUTES, found.raw)[5])


def wants(slice_ns: int) -> None:
    """The calling thread wants slices of that length; zero: the usual one. Raises OSError."""
    policy, nice = os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)
    size = struct.calcsize(ATTRIBUTES)
    given = struct.pack(ATTRIBUTES, size, policy, 0, nice, 0, slice_ns, 0, 0)
    if LIBC.syscall(CALLS[platform.machine()][0], 0, given, 0):
        raise OSError(ctypes.get_errno(), "sched_setattr")


def burner(slice_ns: int) -> int:
    """A process that burns with such slices; its number."""
    child = os.fork()
    if child:
        return child
    try:
        wants(slice_ns)
        while True:
            pass
    finally:
        os._exit(1)


def lateness(seconds: float, work: float) -> list[float]:
    """How late each waking was, in milliseconds, sorted."""
    found = []
    due = time.monotonic()
    for _ in range(round(seconds / EACH)):
        # Where it has been very late the next ones are not late for it.
        due = max(due, time.monotonic()) + EACH
        time.sleep(max(0.0, due - time.monotonic()))
        found.append((time.monotonic() - due) * 1000)
        until = time.thread_time() + work
        while work and time.thread_time() < until:
            pass
    return sorted(found)


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args()
    os.sched_setaffinity(0, {options.cpu})
    print(f"a usual slice is {usual_slice() / 1e6:.1f} ms")
    for work in WORKS:
        for burns, wakes in CASES:
            # Where that is not allowed it is told here, and not in a child.
            wants(round(burns * 1e6))
            wants(0)
            child = burner(round(burns * 1e6))
            wants(round(wakes * 1e6))
            try:
                found = lateness(options.seconds, work)
            finally:
                wants(0)
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            half, most = found[len(found) // 2], found[len(found) * 99 // 100]
            late = sum(1 for one in found if one > 0.5) / len(found)
            slices = f"{burns or 'usual'} and {wakes or 'usual'}"
            print(
                f"slices {slices:<16} {work * 1000:.1f} ms of work: awake {half:.3f} ms late, p99 {most:.3f} ms,"
                f" {late:.1%} more than 0.5 ms",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
