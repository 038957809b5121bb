"""The command `forehand top`: its flags, and which way it goes.

Knows: flags. Does not know: numbers or screens. A process of its own; without Textual everything but the screen works.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time

from forehand import errors
from forehand.errors import Problem
from forehand.top import lines, numbers

#: How often it looks, in seconds.
EVERY = 2.0


def add_flags(parser: argparse.ArgumentParser) -> None:
    """How it is shown, and how often."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--once", action="store_true", help="print plain text once, of one interval, and end")
    how.add_argument("--json", action="store_true", help="print an object for programs once, and end")
    parser.add_argument("--interval", type=_interval, default=EVERY, metavar="SECONDS",
                        help=f"how often to look ({EVERY:g})")  # fmt: skip


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds") from None
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{seconds:g} s is not between 0.1 s and an hour")
    return seconds


def show(path: str, given: argparse.Namespace) -> int:
    """Show it; the exit status. Raises Problem."""
    first = numbers.look(path)
    if given.once or given.json:
        time.sleep(given.interval)
        now = numbers.look(path)
        came = numbers.between(now, first)
        sys.stdout.write(lines.as_json(now, came) if given.json else lines.text(now, came))
        return errors.OK
    if importlib.util.find_spec("textual") is None:
        hint = "install it: pip install 'textual>=8'; or print plain text: forehand top --once"
        raise Problem(errors.USAGE, "the screen of forehand top needs the package textual", hint=hint)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Problem(errors.USAGE, "forehand top takes a terminal", hint="without one: forehand top --once, or --json")
    from forehand.top.screen import Top

    Top(path, given.interval, first).run()
    return errors.OK
