"""Why an address cannot be listened to, and who is in the way.

Knows: the kernel's tables of who listens. Does not know: how addresses are written.
"""

from __future__ import annotations

import _socket as socket
import errno
import os
import sys

from forehand import errors
from forehand.errors import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Who holds a port, where it is this process.
OURSELVES = "this server"


def refused(where: str, family: int, name: tuple[Any, ...], error: OSError) -> Problem:
    """What is said of it, and what to do. `where` as people write it, `name` as sockets do."""
    if error.errno == errno.EADDRINUSE:
        holder = _holder(family, name)
        if holder == OURSELVES:
            return Problem(
                errors.ADDRESS,
                f"{where} is in use by this process itself: it was told to listen there twice, or serves there already",
                hint="name another port with --bind, or leave one of them out",
            )
        return Problem(
            errors.ADDRESS,
            f"{where} is in use{f' by {holder}' if holder else ''}",
            hint="stop that process, or choose another port with --bind",
        )
    if isinstance(error, PermissionError):
        return Problem(
            errors.PERMISSION,
            f"{where} cannot be bound: ports below 1024 need a privilege",
            hint="choose a port from 1024 on, put a proxy in front, or let systemd open the socket (fd://3)",
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return Problem(
            errors.ADDRESS,
            f"{where} is not an address of this machine",
            hint="0.0.0.0 listens on all of them, 127.0.0.1 on none that others can reach",
        )
    return Problem(errors.ADDRESS, f"{where} cannot be bound: {error.strerror}")


def _in_the_way(family: int, host: str) -> dict[str, set[str] | None]:
    """By table of the kernel's, as it writes them there: the addresses whose listeners keep others from this one, which
    are itself and the one that stands for all. None: whichever, as this one stands for all."""
    packed = socket.inet_pton(family, host.partition("%")[0])
    # Words of 32 bits, in the order of this machine's bytes (proc_net_tcp of the kernel's documentation).
    words = [packed[at : at + 4] for at in range(0, len(packed), 4)]
    written = "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)
    every = "0" * 8
    if family == socket.AF_INET6:
        # It leaves the addresses of IPv4 alone (IPV6_V6ONLY).
        return {"/proc/net/tcp6": {written, every * 4} if any(packed) else None}
    mapped = f"{every * 2}{int.from_bytes(bytes((0, 0, 255, 255)), sys.byteorder):08X}"
    return {
        "/proc/net/tcp": {written, every} if any(packed) else None,
        "/proc/net/tcp6": {every * 4, mapped + written, mapped + every},
    }


def _holder(family: int, name: tuple[Any, ...]) -> str:
    """Who listens at an address: `process 123 (python manage.py …)`, if the system tells us, or OURSELVES."""
    inodes = set()
    for table, addresses in _in_the_way(family, name[0]).items():
        try:
            with open(table, encoding="utf-8") as file:
                rows = [line.split() for line in file.readlines()[1:]]
        except OSError:
            continue
        # Column 1 is the local address, 3 the state (0A listens), 9 the inode.
        for row in rows:
            host, _, port = row[1].rpartition(":")
            if row[3] == "0A" and int(port, 16) == name[1] and (addresses is None or host in addresses):
                inodes.add(row[9])
    if not inodes:
        return ""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{fd}") in wanted:
                    if int(pid) == os.getpid():
                        return OURSELVES
                    with open(f"/proc/{pid}/cmdline", "rb") as file:
                        command = file.read().replace(b"\0", b" ").decode(errors="replace").strip()
                    return f"process {pid} ({command[:80]})"
        except OSError:
            continue  # not ours to look at, or gone
    return ""
