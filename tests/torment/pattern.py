"""Bytes that tell whose they are: of each request's id, the content that its reply and its body must have.

Knows: ids. Does not know: HTTP. Imported by the clients and by the applications that they torment.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

#: A period that is no multiple of any buffer's size: bytes that are lost, doubled or out of their place show.
PERIOD = 1021


@lru_cache(maxsize=4096)
def block(name: str) -> bytes:
    """The period of a name: printable, so that a failing case can be read."""
    made = b"".join(hashlib.sha256(f"{name}/{part}".encode()).hexdigest().encode() for part in range(16))
    return (f"[{name}]".encode() + made)[:PERIOD]


def content(name: str, start: int, end: int) -> bytes:
    """The bytes from `start` to `end` of the endless content of a name."""
    period = block(name)
    first = start // PERIOD
    return (period * (end // PERIOD + 1 - first))[start - first * PERIOD : end - first * PERIOD]
