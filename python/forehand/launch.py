"""How a server begins: what concerns its process as a whole, and then a supervisor, or a server on its own.

Knows: the order. Does not know: options' sources or HTTP. It imports little on purpose: what a supervisor's process
holds, it holds for months.
"""

from __future__ import annotations

import os

from forehand import _core, ending
from forehand.supervisor import log, log_files, privileges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def launch(plan: dict[str, Any]) -> int:
    """Load the application that a plan names, and serve it; the exit status. Raises Problem."""
    _process(plan)
    if not plan["workers"] or plan["check"]:
        from forehand import run

        return run.alone(plan)
    from forehand.supervisor import run as supervise
    from forehand.supervisor import upgrade

    status = supervise.run(plan, None if plan["adopt"] is None else upgrade.read(plan["adopt"]))
    if ending.process_ends:
        ending.finish(status, plan["graceful_timeout"])
    return status


def _process(plan: dict[str, Any]) -> None:
    """What concerns the process as a whole, before anything is opened. Raises Problem."""
    # Before the first thread of anybody's; workers are forked, and have it too.
    _core.bound_arenas()
    log.set_up(plan)
    if plan["log_config"] or plan["log_syslog"]:
        from forehand import log_config

        log_config.set_up(plan)
    os.environ.update(plan["variables"])
    if plan["user"] or plan["group"]:
        privileges.resolve(plan["user"], plan["group"])
    if plan["umask"]:
        os.umask(int(plan["umask"], 8))
    if plan["log_file"] != "-" or plan["access_log_file"] != "-":
        log_files.open_own(plan, first=True, tried=plan["check"])
        # How lines look where they go now: a file has no colours.
        log.set_up(plan)
    for line in plan["sources"]:
        log.write("debug", line)
    for line in plan["doubts"]:
        log.write("warning", line)
