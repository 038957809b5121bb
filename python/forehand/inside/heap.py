"""`forehand heap`: what is in a worker's memory, or what has grown there, and what holds it.

Knows: what is asked of a worker, and the lines of JSON in which it answers. Does not know: how objects are counted
(`census.py`). A process of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from forehand import errors
from forehand.errors import Problem
from forehand.inside import asking

#: Between the two counts of a difference.
SECONDS = 30.0


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Whose memory, and what of it."""
    parser.add_argument("--worker", "-w", type=int, metavar="N", help="this worker (default: the one that holds most)")
    parser.add_argument("--diff", "-d", action="store_true", help="count twice, and show what has grown")
    parser.add_argument(
        "--seconds", "-s", type=float, default=SECONDS, metavar="N", help=f"between the two ({SECONDS:g})"
    )
    parser.add_argument(
        "--trace", action="store_true",
        help="with --diff: also show the lines that have allocated it; the worker is slower meanwhile",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="all numbers, for programs")


def show(path: str, given: argparse.Namespace) -> int:
    """Count, and show; the exit status. Raises Problem."""
    if given.trace and not given.diff:
        raise Problem(errors.USAGE, "--trace shows what was allocated between two counts", hint="add --diff")
    if not 0.1 <= given.seconds <= 86400:
        raise Problem(errors.USAGE, f"--seconds: {given.seconds:g} is not from 0.1 to 86400")
    number = given.worker
    if number is None:
        rows = asking.serving(asking.status(path))
        number = max(rows, key=lambda row: (row["memory_kib"] or {}).get("rss", 0))["worker"]
    seconds = given.seconds if given.diff else 0.0
    worker = asking.ask(path, "heap", number, f"{seconds} {'trace' if given.trace else '-'}")
    pauses: list[float] = []
    found: dict[str, Any] = {}
    for _, line in asking.answers([worker], seconds + 1, "counting"):
        told = json.loads(line)
        if "error" in told:
            raise Problem(errors.APPLICATION, f"worker {number}: {told['error']}")
        found = told.get("found", found)
        pauses += [told["pause"]] if "pause" in told else []
    if not found:
        raise Problem(errors.INTERNAL, f"worker {number} has ended before it answered", hint="the log says why")
    found |= {"worker": number, "pid": worker.pid, "seconds": seconds, "pauses": pauses}
    sys.stdout.write((json.dumps(found, indent=2) if given.json else "\n".join(_text(found))) + "\n")
    return errors.OK


def _text(found: dict[str, Any]) -> list[str]:
    stood = " and ".join(f"{pause * 1000:.1f}" for pause in found["pauses"])
    lines = [f"worker {found['worker']} ({found['pid']}), which stood still for {stood} ms"]
    diff = found["seconds"] > 0
    if diff:
        objects, size = (found[name] - was for name, was in zip(("objects", "bytes"), found["before"], strict=True))
        lines.append(f"in {found['seconds']:g} s: {_bytes(size, sign=True)} in {objects:+,} objects; now:")
    lines += [f"{_bytes(found['bytes'])} in {found['objects']:,} objects", ""]
    lines.append(f"{'bytes':>12} {'objects':>12}  {'type that has grown' if diff else 'type'}")
    for row in found["types"]:
        lines.append(f"{_bytes(row['bytes'], sign=diff):>12} {row['objects']:>+12,}  {row['type']}" if diff
                     else f"{_bytes(row['bytes']):>12} {row['objects']:>12,}  {row['type']}")  # fmt: skip
        looked_at = sum(count for _, count in row["held_by"])
        lines += [f"{'':27}{count} of {looked_at} held by {way}" for way, count in row["held_by"]]
    if found["containers"]:
        lines += ["", f"{'more' if diff else 'entries':>12} {'now':>12}  container"]
        lines += [
            f"{row['grown']:>{'+' if diff else ''}12,} {row['now']:>12,}  {row['name']} ({row['kind']})"
            for row in found["containers"]
        ]
    if found["allocated"]:
        lines += ["", f"{'bytes':>12} {'objects':>12}  allocated since the first count, and still there, at"]
        lines += [f"{_bytes(row['bytes']):>12} {row['objects']:>12,}  {row['place']}" for row in found["allocated"]]
    return lines


def _bytes(count: int, *, sign: bool = False) -> str:
    plus = "+" if sign and count >= 0 else ""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(count) >= size:
            return f"{plus}{count / size:.1f} {unit}"
    return f"{plus}{count} B"
