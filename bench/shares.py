"""Parts of what a machine has, for a server that is measured: groups of cgroup 1, which want root."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

#: Of the kernel's accounts of who has had how much of a processor.
PERIOD_US = 10_000


def tree(pid: int) -> list[int]:
    """A process and its children, and theirs."""
    children = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()
    return [pid, *(below for child in children for below in tree(int(child)))]


@contextlib.contextmanager
def grouped(pid: int, controller: str, limits: dict[str, str]) -> Iterator[None]:
    """A server in a group of a controller of cgroup 1, with these limits."""
    group = Path("/sys/fs/cgroup", controller, f"forehand-bench-{os.getpid()}")
    try:
        group.mkdir()
    except OSError as error:
        raise SystemExit(f"{group}: {error}; this wants the controller {controller} of cgroup 1, and root") from None
    try:
        for name, value in limits.items():
            (group / name).write_text(value)
        for one in tree(pid):
            (group / "cgroup.procs").write_text(str(one))
        yield
    finally:
        for one in tree(pid):
            (group.parent / "cgroup.procs").write_text(str(one))
        group.rmdir()


def sharing(pid: int, share: float) -> contextlib.AbstractContextManager[None]:
    """A server has no more than this part of a processor."""
    if share == 1:
        return contextlib.nullcontext()
    quota = {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(round(PERIOD_US * share))}
    return grouped(pid, "cpu", quota)
