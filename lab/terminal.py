"""Lines and columns for a terminal, and the same for a pipe: there nothing is boxed, folded or coloured.

Pure, but for asking whether somebody looks.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.console import Console

# What a pipe gets is as wide as it is: whoever reads it folds it.
UNBOUNDED = 100_000
GAP = "  "
# A column is folded down to its longest word, or to this, whichever is less.
NARROWEST = 12
LEAST_WIDTH = 40


def console_of(*, stderr: bool = False) -> Console:
    """Where lines are printed: as wide as the terminal, or unbounded."""
    console = Console(stderr=stderr, highlight=False)
    return console if console.is_terminal else Console(stderr=stderr, highlight=False, width=UNBOUNDED)


def columns(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """A table as lines of at most `width` characters: aligned by spaces, its widest columns folded between words.

    Columns whose cells are all figures stand at the right of theirs. Pure.
    """
    table = [list(map(str, heads)), *(list(map(str, row)) for row in rows)]
    figures = [
        bool(rows) and all(is_figure(row[n]) for row in table[1:]) and any(row[n] for row in table[1:])
        for n in range(len(heads))
    ]
    widths = fitted(table, max(width, LEAST_WIDTH))
    lines: list[str] = []
    for row in table:
        cells = [folded(cell, widths[n]) for n, cell in enumerate(row)]
        for at in range(max(map(len, cells))):
            parts = [cell[at] if at < len(cell) else "" for cell in cells]
            shown = [part.rjust(widths[n]) if figures[n] else part.ljust(widths[n]) for n, part in enumerate(parts)]
            lines.append(GAP.join(shown).rstrip())
    return "\n".join(lines)


def is_figure(cell: str) -> bool:
    """Whether a cell is a number, an interval, or nothing."""
    return not cell.strip("0123456789.,–- %×()") or cell == "–"


def folded(cell: str, width: int) -> list[str]:
    """A cell in lines; a word is cut only where it is longer than a line."""
    return textwrap.wrap(cell, width, break_on_hyphens=False) or [""]


def fitted(table: Sequence[Sequence[str]], width: int) -> list[int]:
    """How wide each column is, so that all fit: the widest give way first, down to their longest words. Pure."""
    natural = [max(len(row[n]) for row in table) for n in range(len(table[0]))]
    least = [
        min(natural[n], max(NARROWEST, *(len(word) for row in table for word in row[n].split() or [""])))
        for n in range(len(natural))
    ]
    widths, room = list(natural), width - len(GAP) * (len(natural) - 1)
    # The last is prose as a rule, and folds best.
    widths[-1] = max(min(widths[-1], room - sum(widths[:-1])), min(widths[-1], max(least[-1], 2 * NARROWEST)))
    while sum(widths) > room:
        able = [n for n in range(len(widths)) if widths[n] > least[n]]
        if not able:
            # Longer words than there is room for: the widest is cut.
            able = [n for n in range(len(widths)) if widths[n] > 1]
        if not able:
            break
        widths[max(able, key=lambda n: widths[n])] -= 1
    return widths
