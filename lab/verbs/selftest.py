"""`forehand lab selftest`: plants known faults; the lab has to find each exactly."""

from __future__ import annotations

import argparse

from forehand_lab import engine, records
from forehand_lab.environments import home
from forehand_lab.problem import FAILED, OK, USAGE, Problem, near
from forehand_lab.truth.tests import LONG, QUICK, Wrong
from rich.console import Console
from rich.markup import escape

TRIES = 2


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which tests."""
    parser.add_argument("names", nargs="*", help="only these; default: all that are quick")
    parser.add_argument("--long", action="store_true", help="also whether servers can be told apart: some ten minutes")
    parser.add_argument("--list", action="store_true", help="name them and end")


def act(asked: argparse.Namespace) -> int:
    """Run; FAILED where one fails twice: a machine that others use may spoil one try."""
    console = Console(highlight=False)
    known = {test.__name__: test for test in (*QUICK, *LONG)}
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
            for number in range(TRIES):
                try:
                    console.print(f"[green]ok[/]     {words}: {escape(test())}")
                    break
                except (Wrong, engine.EngineFailed) as wrong:
                    last = number == TRIES - 1
                    failed += last
                    console.print(f"[red]{'FAILED' if last else 'again '}[/] {words}: {escape(str(wrong))}")
    console.print(f"{len(chosen) - failed} passed, {failed} failed")
    return FAILED if failed else OK
