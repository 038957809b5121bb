"""The report's figures as files for other programs: CSV tables, and charts by matplotlib as SVG or PNG."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forehand_lab import views
from forehand_lab.answer import KEYS

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5195", "#6B7280")
DASHES = ("-", "--", ":", "-.")
# A median of a few rounds has three; these do no harm, and keep counts of a million whole.
DIGITS = 6
PERCENTILES = ("50", "90", "95", "99", "99.9", "max")


def csv_files(facts: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    """points.csv, errors.csv, and where there are any faults.csv and capacity.csv."""
    whole = views.whole(facts)
    folder.mkdir(parents=True, exist_ok=True)
    metrics = list(views.METRICS)
    counts = ["point", "rounds", "ranked", "noisy", "offered", "started", "replies", "failed_share"]
    heads = ["server", *counts]
    heads += [f"{KEYS[metric]}{part}" for metric in metrics for part in ("", "_low", "_high")]
    heads += [f"response_us_p{p.replace('.', '_')}" if p != "max" else "response_us_max" for p in PERCENTILES]
    rows, errors = [], []
    for server, points in whole["points"].items():
        for point in points:
            estimates = [(point[metric] or {}).get(part) for metric in metrics for part in ("mid", "low", "high")]
            rows.append(
                [server, *(point[key] for key in counts), *estimates, *(point["response"][p] for p in PERCENTILES)]
            )
            errors += [[server, point["point"], kind, count] for kind, count in point["errors"].items()]
    made = [
        _written(folder / "points.csv", heads, rows),
        _written(folder / "errors.csv", ["server", "point", "kind", "count"], errors),
    ]
    if whole["faults"]:
        names = list(whole["faults"][0])
        made.append(_written(folder / "faults.csv", names, [[row[name] for name in names] for row in whole["faults"]]))
    if whole["capacity"]:
        rows = [
            [server, row["mid"], row["low"], row["high"], row["rounds"]] for server, row in whole["capacity"].items()
        ]
        made.append(_written(folder / "capacity.csv", ["server", "requests_per_s", "low", "high", "rounds"], rows))
    return made


def _written(path: Path, heads: list[str], rows: list[list[Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(heads)
        writer.writerows([shown(cell) for cell in row] for row in rows)
    return path


def shown(cell: Any) -> Any:
    """A cell: figures with as many digits as a measurement is worth, lists with semicolons."""
    if isinstance(cell, float):
        return f"{cell:.{DIGITS}g}" if abs(cell) < 10**DIGITS else f"{cell:.0f}"
    if isinstance(cell, Mapping):
        return "; ".join(f"{key} {value}" for key, value in cell.items())
    return "; ".join(map(str, cell)) if isinstance(cell, (list, tuple)) else cell


def charts(facts: Sequence[Mapping[str, Any]], folder: Path, kind: str) -> list[Path]:
    """Reply rate, response time, errors, CPU and memory by point: a file each."""
    # Heavy, and wanted by nobody else.
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    whole = views.whole(facts)
    folder.mkdir(parents=True, exist_ok=True)
    unit = whole["manifest"]["unit"]
    series: dict[str, tuple[str, Any]] = {
        "rate": ("replies/s", lambda point: point["replies/s"]),
        "p50": ("median response time, ms", lambda point: _percentile(point, "50")),
        "p99": ("99th percentile of response time, ms", lambda point: _percentile(point, "99")),
        "errors": ("requests that failed, %", lambda point: _share(point)),
        "cpu": ("CPU, µs a request", lambda point: point["CPU us/request"]),
        "memory": ("memory, MiB (PSS)", lambda point: point["PSS MiB"]),
    }
    made = []
    for name, (label, metric) in series.items():
        figure, axes = pyplot.subplots(figsize=(9, 5.5), layout="constrained")
        drawn = False
        for number, (server, points) in enumerate(whole["points"].items()):
            found = [(point["point"], metric(point)) for point in points if metric(point)]
            if not found:
                continue
            drawn = True
            spread = [[each["mid"] - (each["low"] or each["mid"]) for _, each in found],
                      [(each["high"] or each["mid"]) - each["mid"] for _, each in found]]  # fmt: skip
            style: dict[str, Any] = {"color": COLOURS[number % 8], "linestyle": DASHES[number // 8 % 4]}
            axes.errorbar([at for at, _ in found], [each["mid"] for _, each in found], spread, label=server,
                          linewidth=3, marker="o", capsize=4, **style)  # fmt: skip
        axes.set(xlabel=unit, ylabel=label, title=f"{whole['manifest']['title']}: {label}")
        at = sorted({point["point"] for points in whole["points"].values() for point in points})
        if len(at) > 1 and at[0] > 0 and at[-1] / at[0] > 8:
            # As on the page: points that span a decade stand on a logarithmic axis, and are named.
            axes.set_xscale("log")
            axes.set_xticks(at, [f"{point:g}" for point in at], minor=False)
            axes.minorticks_off()
        if name.startswith("p"):
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        if not drawn:
            pyplot.close(figure)
            continue
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
        path = folder / f"{name}.{kind}"
        figure.savefig(path, dpi=150)
        pyplot.close(figure)
        made.append(path)
    return made


def _percentile(point: Mapping[str, Any], which: str) -> dict[str, Any] | None:
    value = point["response"][which]
    return {"mid": value / 1000, "low": None, "high": None} if value else None


def _share(point: Mapping[str, Any]) -> dict[str, Any] | None:
    share = point["failed_share"]
    return {"mid": 100 * share, "low": None, "high": None} if share is not None else None
