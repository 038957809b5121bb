"""What processes hold, as the kernel tells: memory, threads, descriptors, files without a name, sockets.

Knows: /proc. Does not know: HTTP, or which process does what.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
#: A socket's state in /proc/net/tcp.
LISTENS = "0A"
READ_BYTES = 1 << 18


@dataclass(frozen=True)
class Holding:
    """What one process holds."""

    pid: int
    rss_kib: int
    #: Of that what is no page of a file: heaps and stacks. What a server gives back of its code, and what of it is
    #: needed anew, is not counted here.
    anonymous_kib: int
    #: The most that it has held, code and all.
    peak_kib: int
    threads: int
    descriptors: int
    #: Files that have no name any more: bodies of requests.
    nameless: int
    cpu_seconds: float


def holding(pid: int) -> Holding | None:
    """What a process holds now; None where it is gone."""
    try:
        told = dict(line.split(":", 1) for line in (PROC / str(pid) / "status").read_text().splitlines())
        links = descriptors(pid)
        times = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        rss, own, peak, threads = (int(told[name].split()[0]) for name in ("VmRSS", "RssAnon", "VmHWM", "Threads"))
    except (OSError, KeyError):
        return None  # a zombie has no memory
    ticks = int(times[11]) + int(times[12])
    bodies = sum(is_body(link) for link in links.values())
    return Holding(pid, rss, own, peak, threads, len(links), bodies, ticks / os.sysconf("SC_CLK_TCK"))


def disk_kib(pid: int) -> int:
    """What the files without a name of a process take on the disk, each counted once."""
    taken = {}
    for fd, link in descriptors(pid).items():
        if is_body(link):
            found = os.stat(PROC / str(pid) / "fd" / str(fd))
            taken[found.st_ino] = found.st_blocks // 2
    return sum(taken.values())


def writes(pid: int) -> int:
    """System calls of a process that wrote something to a file, a socket or a pipe with write(2) or its kin."""
    told = (PROC / str(pid) / "io").read_text()
    return int(told.partition("syscw: ")[2].split()[0])


def forget_peak(pid: int) -> None:
    """The most that a process has held is counted from now on, with all of its code in memory (proc_pid_clear_refs(5)).

    A server gives back code that it does not run (`GivenBack`), mostly when its last client has left; the next one's
    would look like memory that it takes, and be several MiB.
    """
    fetch_files(pid)
    (PROC / str(pid) / "clear_refs").write_text("5")


def fetch_files(pid: int) -> None:
    """Have all pages of files that a process maps in its memory: the kernel fetches what somebody else reads there."""
    # One piece of memory for all of it: this process may be the one that is measured.
    room = memoryview(bytearray(READ_BYTES))
    with open(PROC / str(pid) / "mem", "rb", buffering=0) as memory:
        for line in (PROC / str(pid) / "maps").read_text().splitlines():
            span, rights, *_, name = line.split(maxsplit=5)
            if name.startswith("/") and rights.startswith("r") and rights.endswith("p"):
                at, end = (int(bound, 16) for bound in span.split("-"))
                memory.seek(at)
                while at < end and (read := memory.readinto(room[: end - at])):
                    at += read


def is_body(link: str) -> bool:
    """What a descriptor leads to is a file without a name on a disk: no memory of our own, no page that is shared."""
    return link.endswith("(deleted)") and not link.startswith(("/memfd:", "/dev/"))


def descriptors(pid: int) -> dict[int, str]:
    """What each descriptor leads to. Raises OSError where the process is gone."""
    found = {}
    for name in os.listdir(PROC / str(pid) / "fd"):
        try:
            found[int(name)] = os.readlink(PROC / str(pid) / "fd" / name)
        except FileNotFoundError:
            pass  # closed meanwhile
    return found


def state(pid: int) -> str:
    """The letter of a process's state; empty where it is gone."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def stopped(pid: int, patience: float = 2.0) -> bool:
    """Waits until no thread of a process that was sent SIGSTOP runs any more."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        try:
            stats = [path.read_text() for path in (PROC / str(pid) / "task").glob("*/stat")]
        except OSError:
            return False
        if all(stat.rpartition(")")[2].split()[0] in "TtZX" for stat in stats):
            return True
        time.sleep(0.0005)
    return False


def ended(pid: int, patience: float = 5.0) -> bool:
    """Waits until a process that was sent SIGKILL has closed what it had open."""
    until = time.monotonic() + patience
    while state(pid) not in ("", "Z", "X"):
        if time.monotonic() > until:
            return False
        time.sleep(0.0005)
    return True


def peers(pid: int, port: int) -> set[int]:
    """Ports of the clients whose connections to `port` a process has open."""
    inodes = _sockets(pid)
    return {client for client, inode in connections(pid, port) if inode in inodes}


def on_their_way(pids: list[int], port: int) -> set[tuple[int, str]]:
    """Connections to `port` that were accepted and which none of these processes has, as `connections` names them: a
    worker has sent them to another one, which has not taken them yet."""
    inodes = set()
    for pid in pids:
        try:
            inodes |= _sockets(pid)
        except OSError:
            pass  # gone
    return {(client, inode) for client, inode in connections(pids[0], port) if inode not in inodes}


def _sockets(pid: int) -> set[str]:
    return {link[8:-1] for link in descriptors(pid).values() if link.startswith("socket:[")}


def connections(pid: int, port: int) -> set[tuple[int, str]]:
    """The client's port and the inode of each connection to `port` that was accepted and that somebody has, as that
    process's network has them."""
    rows = [line.split() for line in (PROC / str(pid) / "net" / "tcp").read_text().splitlines()[1:]]
    here = [row for row in rows if int(row[1].rpartition(":")[2], 16) == port and row[3] != LISTENS]
    return {(int(row[2].rpartition(":")[2], 16), row[9]) for row in here if row[9] != "0"}


def marked(mark: str) -> list[int]:
    """All living processes that have a variable of this value, `NAME=VALUE`, wherever in the tree they are."""
    found = []
    for name in os.listdir(PROC):
        try:
            if name.isdigit() and mark.encode() in (PROC / name / "environ").read_bytes().split(b"\0"):
                found.append(int(name))
        except OSError:
            pass  # gone, or another user's
    return [pid for pid in found if state(pid) not in ("", "Z", "X")]
