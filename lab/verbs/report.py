"""`forehand lab report`: records as one HTML page, and as CSV, SVG or PNG beside it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from forehand_lab import exports, page, records
from forehand_lab.problem import SYSTEM, USAGE, Problem


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which records, and where to."""
    parser.add_argument("records", nargs="*", default=["latest"], help="folders or files; default: the latest")
    parser.add_argument("--out", metavar="FILE", help="default: report.html beside the first record")
    parser.add_argument("--csv", action="store_true", help="write tables, too")
    parser.add_argument("--svg", action="store_true", help="write charts as SVG, too")
    parser.add_argument("--png", action="store_true", help="write charts as PNG, too")


def act(asked: argparse.Namespace) -> int:
    """Write, and say where."""
    paths = [records.located(name) for name in asked.records]
    found = {path.parent.resolve().name: records.read(str(path)) for path in paths}
    target = Path(asked.out) if asked.out else paths[0].parent / "report.html"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(drawn(found))
        sys.stdout.write(f"{target}\n")
        for name, facts in found.items():
            folder = target.parent / f"{target.stem}-{name}" if len(found) > 1 else target.parent
            if asked.csv:
                shown(exports.csv_files(facts, folder))
            for kind in ("svg", "png"):
                if getattr(asked, kind):
                    shown(exports.charts(facts, folder, kind))
    except OSError as error:
        raise Problem(
            SYSTEM, f"{error.filename or target}: {error.strerror}", "choose another place with --out"
        ) from None
    return 0


def drawn(found: dict[str, list[dict[str, Any]]]) -> str:
    """The page; Problem where a fact lacks what this lab writes into it."""
    try:
        return page.built(found)
    except KeyError as lacking:
        message = f"a record has facts without {lacking}: another version of the lab has written it"
        raise Problem(USAGE, message, "measure again, or read it with the lab that wrote it") from None


def shown(paths: list[Path]) -> None:
    """A line for each file."""
    for path in paths:
        sys.stdout.write(f"{path}\n")
