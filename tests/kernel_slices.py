"""How long a slice of a processor threads have (sched_getattr(2)), and programs whose threads have another or none.

kernel_slices.py 3 PROGRAM…        the program with slices of 3 ms
kernel_slices.py refuse PROGRAM…   the program where the kernel refuses the call
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from pathlib import Path

#: Numbers of sched_setattr and sched_getattr.
SET, GET = {"x86_64": (314, 315), "aarch64": (274, 275)}.get(platform.machine(), (-1, -1))
#: `struct sched_attr` as far as it goes here: size, policy, flags, nice, priority, runtime, deadline, period.
ATTRIBUTES = "=IIQiIQQQ"
LIBC = ctypes.CDLL(None, use_errno=True)
#: prctl(2).
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
#: seccomp(2): load the number of the call; is it that one; refuse it; allow it.
LOAD, IS, ANSWER = 0x20, 0x15, 0x06
REFUSED, ALLOWED = 0x00050000 | 38, 0x7FFF0000


def slice_ms(thread: int = 0) -> float:
    """A thread's slice in milliseconds; zero: it has none of its own. Raises OSError."""
    found = ctypes.create_string_buffer(struct.calcsize(ATTRIBUTES))
    if LIBC.syscall(GET, thread, found, len(found.raw), 0):
        raise OSError(ctypes.get_errno(), "sched_getattr")
    return float(struct.unpack(ATTRIBUTES, found.raw)[5] / 1e6)


def want(ms: float) -> None:
    """The calling thread, and what it starts, wants such slices. Raises OSError."""
    size, nice = struct.calcsize(ATTRIBUTES), os.getpriority(os.PRIO_PROCESS, 0)
    given = struct.pack(ATTRIBUTES, size, os.sched_getscheduler(0), 0, nice, 0, round(ms * 1e6), 0, 0)
    if LIBC.syscall(SET, 0, given, 0):
        raise OSError(ctypes.get_errno(), "sched_setattr")


def of_process(pid: int) -> dict[int, tuple[str, float]]:
    """Name and slice of each thread of a process."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found[int(task.name)] = ((task / "comm").read_text().strip(), slice_ms(int(task.name)))
        except OSError:
            continue  # it has just ended
    return found


def refuse() -> None:
    """This process, and what it becomes, has no sched_getattr(2)."""
    rules = [(LOAD, 0, 0, 0), (IS, 0, 1, GET), (ANSWER, 0, 0, REFUSED), (ANSWER, 0, 0, ALLOWED)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *rule) for rule in rules))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(rules), ctypes.addressof(code)))
    if LIBC.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or LIBC.prctl(SECCOMP, FILTER, program):
        raise OSError(ctypes.get_errno(), "seccomp")


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[0] == "refuse":
        refuse()
    else:
        want(float(words[0]))
    os.execvp(words[1], words[1:])
