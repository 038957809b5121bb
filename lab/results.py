"""The result of a record for a terminal, a pipe or a program: what a run prints at its end, and `lab results`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from forehand_lab import answer
from forehand_lab.terminal import columns
from rich.console import Console
from rich.markup import escape

Fact = Mapping[str, Any]
# What stands beside the figure of the answer, and its head.
BESIDE = {"replies_per_s": "replies/s", "p99_ms": "99 %, ms", "cpu_us_per_request": "CPU, µs", "pss_mib": "MiB"}


def printed(console: Console, facts: Sequence[Fact]) -> None:
    """The answer as a sentence and a table, and what makes it doubtful."""
    told = answer.of(facts)
    console.print()
    if told["rows"]:
        console.print(escape(table(told, console.width)), soft_wrap=True)
    console.print(escape(told["said"]), style="bold")
    for doubt in told["doubts"]:
        console.print(escape(doubt), style="yellow")


def table(told: Mapping[str, Any], width: int) -> str:
    """A row for each server, best first. Pure."""
    heads = ["server", told["words"], "95 % interval"]
    rows = [
        [row["server"], answer.figure_of(row["mid"]), answer.interval(row).strip(" ()") or "–"] for row in told["rows"]
    ]
    known = told["rows"]
    if any(row.get("replies_per_s") is not None for row in known):
        for key, head in BESIDE.items():
            if key != told["key"]:
                heads.append(head)
                for cells, row in zip(rows, known, strict=True):
                    cells.append(answer.figure_of(row[key]))
        heads.append("failed")
        for cells, row in zip(rows, known, strict=True):
            cells.append("–" if row["failed_share"] is None else f"{100 * row['failed_share']:.2g} %")
    if any(row.get("holds") is not None for row in known):
        heads.append("holds")
        for cells, row in zip(rows, known, strict=True):
            cells.append(answer.figure_of(row["holds"]))
    heads += ["beside the first", "noisy"]
    for number, (cells, row) in enumerate(zip(rows, known, strict=True)):
        cells += [stands(row, told) if number else "", f"{row['noisy']} of {row['measured']}" if row["noisy"] else ""]
    if not any(cells[-1] for cells in rows):
        heads, rows = heads[:-1], [cells[:-1] for cells in rows]
    return columns(heads, rows, width)


def stands(row: Mapping[str, Any], told: Mapping[str, Any]) -> str:
    """How a server stands to the first, and whether that can be told."""
    if row.get("ratio") is None:
        return str(row.get("verdict", ""))
    ratio = f"{row['ratio']:.2f} ×"
    if row["sure"] is None:
        return f"{ratio}, too few rounds to tell"
    return f"{ratio}, sure" if row["sure"] else f"{ratio}, cannot be told apart"


def as_json(facts: Sequence[Fact]) -> str:
    """The answer and all figures."""
    return json.dumps(answer.everything(facts), indent=2, ensure_ascii=False)
