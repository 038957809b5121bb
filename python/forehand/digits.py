"""Numbers in options, addresses and orders: their digits are those of ASCII.

Knows: that Python's own `isdigit`, `int` and `float` take the digits of all scripts for numbers. Does not
know: which numbers are allowed. Small, as the supervisor has it too.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def is_whole(text: str) -> bool:
    """True for a whole number from zero on, without a sign."""
    return text.isascii() and text.isdigit()


def number(text: str, kind: type[int] | type[float] = int, base: int = 10) -> Any:
    """What `int` or `float` makes of a text. ValueError: it is no number, or none with these digits."""
    if not text.isascii():
        raise ValueError
    return int(text, base) if kind is int else float(text)
