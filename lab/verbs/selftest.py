"""`forehand lab selftest`: plants known faults; the lab has to find each exactly."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from forehand_lab import engine, records
from forehand_lab.environments import home
from forehand_lab.problem import FAILED, OK, USAGE, Problem, near
from forehand_lab.terminal import console_of
from forehand_lab.truth.tests import LONG, QUICK, Wrong
from rich.console import Console
from rich.markup import escape

TRIES = 2


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which tests."""
    parser.add_argument("names", nargs="*", help="only these; default: all that are quick")
    parser.add_argument(
        "--long",
        action="store_true",
        help="also whether servers can be told apart: some ten minutes, half an hour at most",
    )
    parser.add_argument("--list", action="store_true", help="name them and end")


def said_by(test: Callable[..., str], console: Console) -> str:
    """What a test says; how far a long one is stands in one line on a terminal, and in lines elsewhere."""
    if test not in LONG:
        return test()
    with console.status("comparing") as status:
        return test(status.update if console.is_terminal else lambda line: console.print(f"       {escape(line)}"))


def act(asked: argparse.Namespace) -> int:
    """Run; FAILED where one fails twice: a machine that others use may spoil one try."""
    console = console_of()
    tests: list[Callable[..., str]] = [*QUICK, *LONG]
    known = {test.__name__: test for test in tests}
    if asked.list:
        for name, test in known.items():
            console.print(f"{name}: {(test.__doc__ or '').strip()}", soft_wrap=True)
        return OK
    for name in asked.names:
        if name not in known:
            raise Problem(USAGE, f"there is no truth test '{name}'{near(name, known)}", "--list names them")
    chosen = [known[name] for name in asked.names] or [*QUICK, *(LONG if asked.long else ())]
    engine.found()
    failed = 0
    with records.OneRun(home()):
        for test in chosen:
            words = test.__name__.replace("_", " ")
            # A share of comparisons that have to agree is not asked twice: the better of two is no share.
            tries = 1 if test in LONG else TRIES
            for number in range(tries):
                try:
                    console.print(f"[green]ok[/]     {words}: {escape(said_by(test, console))}")
                    break
                except (Wrong, engine.EngineFailed) as wrong:
                    last = number == tries - 1
                    failed += last
                    console.print(f"[red]{'FAILED' if last else 'again '}[/] {words}: {escape(str(wrong))}")
    console.print(f"{len(chosen) - failed} passed, {failed} failed")
    return FAILED if failed else OK
