"""The command `forehand lab`: its grammar, and which file of `verbs/` a word leads to.

Knows exit statuses and how a problem is printed. Each verb is imported when it is asked for.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from forehand_lab.children import told_again
from forehand_lab.problem import INTERRUPTED, MEANINGS, MISSING, USAGE, Problem, near

VERBS = {
    "list": "name contestants, scenarios and records",
    "verify": "ask servers for a scenario's answers, and compare them byte for byte",
    "run": "measure servers under a scenario",
    "results": "print the answer of a record",
    "compare": "tell two servers, or two records, apart, or say that one cannot; a gate for CI",
    "report": "draw records as one HTML page, or as CSV, SVG or PNG",
    "selftest": "plant faults that the lab has to find exactly",
    "doctor": "say what this machine has, lacks, and would disturb a measurement",
}
MODULES = {"list": "listing"}


class Parser(argparse.ArgumentParser):
    """argparse with our exit status."""

    def error(self, message: str) -> NoReturn:
        raise Problem(USAGE, message, f"`{self.prog} --help` says what there is")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # What asks politely is treated like Ctrl-C: servers are ended and what was measured is kept.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.default_int_handler)
    try:
        with told_again():
            status = _main(given)
        sys.stdout.flush()
        return status
    except Problem as problem:
        sys.stderr.write(problem.text() + "\n")
        return problem.status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # `forehand lab list | head`: nobody reads on, which is no fault. Nothing is flushed at the end any more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _main(given: list[str]) -> int:
    verb = given[0] if given else "--help"
    if verb in ("-h", "--help"):
        sys.stdout.write(overview())
        return 0
    if verb not in VERBS:
        raise Problem(USAGE, f"there is no verb '{verb}'{near(verb, VERBS)}", f"verbs are {', '.join(VERBS)}")
    try:
        module = importlib.import_module(f"forehand_lab.verbs.{MODULES.get(verb, verb)}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("forehand_lab"):
            raise
        hint = "pip install 'PATH[lab]', where PATH is a clone of Forehand's repository"
        raise Problem(MISSING, f"the lab needs {error.name}", hint) from None
    parser = Parser(prog=f"forehand lab {verb}", description=VERBS[verb].capitalize() + ".", allow_abbrev=False)
    module.arguments(parser)
    status: int = module.act(parser.parse_args(given[1:]))
    return status


def overview() -> str:
    """The help."""
    lines = ["usage: forehand lab VERB [options]", "", "Measures Python servers under the same load.", ""]
    lines += [f"  {verb:<10}{meaning}" for verb, meaning in VERBS.items()]
    lines += ["", "`forehand lab VERB --help` has each verb's options.", ""]
    lines += ["exit statuses: " + "; ".join(f"{status} {meaning}" for status, meaning in MEANINGS.items()), ""]
    return "\n".join(lines)
