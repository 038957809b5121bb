"""The views as tables: titles, and a row for each line.

Knows: which numbers stand where. Does not know: plain text or screen.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from forehand.settings import COUNTED, LIMITS
from forehand.top.numbers import Between, Look
from forehand.top.words import most, number, percent, printable, span

#: A request that has failed: it has an error of ours, or a status from here on.
FAILED = 500
Cells = tuple[Any, ...]


@dataclass(frozen=True)
class Column:
    """`shown` makes text of a value; numbers stand at the right, and are sorted with the largest first."""

    title: str
    shown: Callable[[Any], str] = str
    right: bool = False


@dataclass(frozen=True)
class View:
    """A view. `rows`: values by their columns, sorted as it begins; `none`: what is said without rows."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: Callable[[Look, Between], list[Cells]]
    none: str


def _routes(now: Look, came: Between) -> list[Cells]:
    return [(one.name, one.share, one.per_second, one.mean, one.cpu, one.failed) for one in came.routes]


def _workers(now: Look, came: Between) -> list[Cells]:
    rows = [
        (one["worker"], one["pid"], one["state"], one["busy"], one["threads"], one["queued"], one["connections"],
         one["requests"], one["memory_kib"].get("pss", 0) / 1024)
        for one in now.status["workers"]
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -row[3])


def _running(now: Look, came: Between) -> list[Cells]:
    return [(one["seconds"], one["worker"], one["request"]) for one in now.running]


def _ended(now: Look, came: Between) -> list[Cells]:
    return [
        (time.strftime("%H:%M:%S", time.localtime(one["ended"])), one["phases"]["total"],
         one["error"] or str(one["status"]), _where(one["phases"]), one["request"])
        for one in now.ended
        if one["remarkable"] or one["error"] or one["status"] >= FAILED
    ]  # fmt: skip


def _where(phases: dict[str, float]) -> str:
    """The phase that most of it was spent in."""
    parts = {name: took for name, took in phases.items() if name not in ("total", "upstream")}
    if "cpu" in parts:
        parts.pop("app", None)
    return max(parts, key=lambda name: parts[name], default="")


def _limits(now: Look, came: Between) -> list[Cells]:
    rows = []
    for limit, counters in COUNTED.items():
        count = sum(now.totals["counters"].get(name, 0) for name in counters)
        if count:
            rows.append((LIMITS[limit].flag, sum(came.counted.get(name, 0) for name in counters), count))
    return sorted(rows, key=lambda row: (-row[1], -row[2]))


VIEWS = (
    View("routes", "Routes",
         (Column("route", printable), Column("share", percent, True), Column("req/s", number, True),
          Column("mean", span, True), Column("cpu", percent, True), Column("failed", number, True)),
         _routes, "no request of a known route since the last look"),
    View("workers", "Workers",
         (Column("worker", right=True), Column("pid", right=True), Column("state"), Column("busy", number, True),
          Column("of", most, True), Column("queued", number, True), Column("open", number, True),
          Column("requests", number, True), Column("MiB", number, True)),
         _workers, "no worker"),
    View("running", "Inside now",
         (Column("for", span, True), Column("worker", right=True), Column("request", printable)),
         _running, "no request is inside"),
    View("ended", "Slow, failed",
         (Column("at"), Column("took", span, True), Column("status"), Column("mostly"), Column("request", printable)),
         _ended, "none was slow, none has failed"),
    View("limits", "Limits",
         (Column("option"), Column("lately", number, True), Column("in all", number, True)),
         _limits, "no limit was reached"),
)  # fmt: skip


def headline(now: Look, came: Between) -> list[str]:
    """Two lines: who it is, and how much it does."""
    status = now.status
    ready = sum(one["state"] == "ready" for one in status["workers"])
    queued = sum(one["queued"] for one in status["workers"])
    p50, p95, p99 = (span(each) for each in came.quantiles)
    return [
        f"{printable(status['target'])}: {status['phase']} for {span(status['uptime'])}, {ready} of {status['wanted']} "
        f"workers, generation {status['generation']}, {time.strftime('%H:%M:%S', time.localtime(now.wall))}",
        f"{number(came.per_second)} req/s  failed {number(came.failed_per_second)}/s  inside {now.totals['inside']}  "
        f"queued {queued}  p50 {p50}  p95 {p95}  p99 {p99}",
    ]
