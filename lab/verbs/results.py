"""`forehand lab results`: the answer of a record as a table, or all its figures as JSON."""

from __future__ import annotations

import argparse
import sys

from forehand_lab import records
from forehand_lab.results import as_json, printed
from forehand_lab.terminal import console_of


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which record, and for whom."""
    parser.add_argument("record", nargs="?", default="latest", help="folder or file; default: the latest")
    parser.add_argument("--json", action="store_true", help="the answer and every figure, for programs")


def act(asked: argparse.Namespace) -> int:
    """Print."""
    facts = records.read(asked.record)
    if asked.json:
        sys.stdout.write(as_json(facts) + "\n")
    else:
        printed(console_of(), facts)
    return 0
