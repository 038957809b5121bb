"""`forehand top --once` and `--json`: one look, as plain text or as an object, without any library.

Knows: widths of columns. Does not know: terminals.
"""

from __future__ import annotations

import dataclasses
import json

from forehand.top.findings import findings
from forehand.top.numbers import Between, Look
from forehand.top.tables import VIEWS, View, headline
from forehand.top.words import printable

#: Rows of a table; more are only counted.
MOST_ROWS = 20


def text(now: Look, came: Between) -> str:
    """All views below one another."""
    wrong = [f"! {printable(line)}" for line in findings(now, came)]
    parts = ["\n".join([*headline(now, came), *(wrong or ["nothing is wrong that shows here"])])]
    parts.extend(_table(view, now, came) for view in VIEWS)
    return "\n\n".join(parts) + "\n"


def _table(view: View, now: Look, came: Between) -> str:
    rows = view.rows(now, came)
    if not rows:
        return f"{view.title}: {view.none}"
    titles = [column.title for column in view.columns]
    cells = [[c.shown(value) for c, value in zip(view.columns, row, strict=True)] for row in rows[:MOST_ROWS]]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]

    def line(words: list[str]) -> str:
        each = zip(words, widths, view.columns, strict=True)
        return "  ".join(w.rjust(width) if c.right else w.ljust(width) for w, width, c in each).rstrip()

    more = [f"and {len(rows) - MOST_ROWS} more"] if len(rows) > MOST_ROWS else []
    return "\n".join([view.title, line(titles), *map(line, cells), *more])


def as_json(now: Look, came: Between) -> str:
    """The same for programs, in one line."""
    told = {
        "now": now.wall,
        "seconds": came.seconds,
        "wrong": findings(now, came),
        "status": now.status,
        "requests": now.totals["requests"],
        "requests_per_second": came.per_second,
        "failed_per_second": came.failed_per_second,
        "quantiles": dict(zip(("p50", "p95", "p99"), came.quantiles, strict=True)),
        "routes": [dataclasses.asdict(one) for one in came.routes],
        "running": now.running,
        "ended": now.ended,
        "counted": came.counted,
    }
    return json.dumps(told) + "\n"
