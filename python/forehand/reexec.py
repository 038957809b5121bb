"""Where the command goes on after it has read its options: a fresh interpreter.

Knows: how the plan is handed over (`cli._reexec`). Does not know: what is in it.
"""

from __future__ import annotations

import marshal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main(reader: int) -> NoReturn:
    """Read the plan and serve; ends the process."""
    try:
        status = _serve(reader)
    except KeyboardInterrupt:  # while modules are imported, too
        status = 130
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(status)


def _serve(reader: int) -> int:
    from forehand import ending
    from forehand.errors import Problem
    from forehand.launch import launch
    from forehand.supervisor import log

    ending.process_ends = True
    with open(reader, "rb") as file:
        plan = marshal.load(file)
    # As the application would have found it: the command, and not `-c`.
    sys.argv[:] = sys.argv[1:]
    try:
        return launch(plan)
    except Problem as problem:
        log.fail(problem.text())
        return problem.status
