"""Numbers and texts of others as a terminal shows them.

Knows: units. Does not know: what is told.
"""

from __future__ import annotations


def span(seconds: float | None) -> str:
    """A time; a dash where there is none."""
    if seconds is None:
        return "-"
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def number(value: float) -> str:
    """A count, or a rate: two digits of a small one."""
    return f"{value:.2g}" if 0 < value < 10 and value != int(value) else f"{value:,.0f}"


def most(value: float) -> str:
    """How many there may be; a dash where it is any number."""
    return number(value) if value else "-"


def percent(share: float | None) -> str:
    """A share; a dash where it is not known."""
    return "-" if share is None else f"{share * 100:.1f}%" if 0 < share < 0.0995 else f"{share * 100:.0f}%"


def printable(text: str) -> str:
    """What clients have sent, without what a terminal would obey."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)


def folded(line: str, width: int) -> list[str]:
    """A line in pieces that fit, cut where two spaces stand, so that a number is not torn from its name or unit."""
    pieces = [""]
    for part in line.split("  "):
        longer = f"{pieces[-1]}  {part}" if pieces[-1] else part
        if pieces[-1] and len(longer) > width:
            pieces.append(part)
        else:
            pieces[-1] = longer
    return pieces
