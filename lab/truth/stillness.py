"""What keeps a busy or a virtual machine out of a truth test whose question is whether figures are right.

Needs no leave: what is not allowed is left undone, and the test is then as good as the machine is quiet.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

from forehand_lab import machine


@contextlib.contextmanager
def awake() -> Iterator[None]:
    """Keep processors from halting, by work that gives way to any other: a virtual one needs 50 us to wake."""
    code = (
        "import os; os.sched_setaffinity(0, {%d}); os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\n"
        "while os.getppid() == %d: pass"
    )
    used = machine.cores().server | machine.cores().load
    busy = [subprocess.Popen([sys.executable, "-c", code % (core, os.getpid())]) for core in sorted(used)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def undisturbed(pid: int) -> None:
    """Schedule a process before the machine's other work, where that is allowed: what is asked is whether figures are
    right, and not whether the machine is quiet. Threads that it starts later are the same.
    """
    with contextlib.suppress(PermissionError, ProcessLookupError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setscheduler(int(thread), os.SCHED_FIFO, os.sched_param(1))
