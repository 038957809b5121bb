"""What workers are handed for TLS: memory that all of them read, also those that are made later, and out of a template.

Knows: one piece of shared memory, and that it may be read while it is written. Does not know: what is in it. The
supervisor writes it; workers read it when they begin and when they are told to.
"""

from __future__ import annotations

import binascii
import os
import time

#: Length and checksum stand before what was handed over.
HEAD = 12
#: So often a worker looks again where it has read in the midst of a change; one takes microseconds.
TRIES = 100


def make() -> int:
    """The memory's descriptor. Raises OSError where the system gives none."""
    return os.memfd_create("forehand-tls")


def put(fd: int, data: bytes) -> None:
    """Hand over something else."""
    os.pwrite(fd, data, HEAD)
    os.pwrite(fd, len(data).to_bytes(8, "little") + binascii.crc32(data).to_bytes(4, "little"), 0)
    # Of a longer one before nothing is left, as it has keys.
    os.ftruncate(fd, HEAD + len(data))


def get(fd: int) -> bytes | None:
    """What was handed over; None: there is nothing, as no address speaks HTTPS."""
    if fd < 0:
        return None
    for _ in range(TRIES):
        head = os.pread(fd, HEAD, 0)
        length, checksum = int.from_bytes(head[:8], "little"), int.from_bytes(head[8:], "little")
        data = os.pread(fd, length, HEAD)
        if len(data) == length and binascii.crc32(data) == checksum:
            return data
        time.sleep(0.001)
    raise OSError("what is handed over for TLS changes all the time")
