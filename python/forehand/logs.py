"""The server's own lines in the process that serves: where they go, and how an application's failures are told.

Knows: what the engine is told of logs. Does not know: what it writes by itself (`server/log.rs` uses the forms of
`lines.py` too).
"""

from __future__ import annotations

import os
import sys

from forehand import errors, lines, loggers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def engine_settings(plan: dict[str, Any]) -> dict[str, Any]:
    """What the engine is told of logs in this process: forms, and the access log that is kept. `plan`: that of
    `Settings.plan`. Whether there is a terminal shows here and not where the options were read."""
    loggers.form = lines.form(plan["log_format"], plan["log_colors"])
    found = _found(plan)
    if plan["log_config"] or plan["log_syslog"]:
        from forehand import log_config

        found |= log_config.engine_settings()
    return found


def _found(plan: dict[str, Any]) -> dict[str, Any]:
    access = plan["engine"]["access_log"]
    if access == "auto":
        if plan["access_log_file"] != "-":
            access = "combined"
        else:
            access = "common" if plan["reload"] or os.isatty(1) else ""
    return {
        "log_form": loggers.form,
        "access_log": "" if access == "none" else access,
        "access_log_form": lines.form("text", plan["log_colors"], 1) if plan["access_log_file"] == "-" else lines.PLAIN,
        "tracebacks": "always" if plan["reload"] else "local" if os.isatty(2) else "never",
    }


def application_error(what: str, error: BaseException) -> None:
    """Log an application's failure with its whole traceback. `what`: which request it was, or what else failed.
    Called by the engine; never raises."""
    try:
        line = what.encode("unicode_escape").decode("ascii")
        shown = (type(error), error, errors.own_frames(error.__traceback__) or error.__traceback__)
        loggers.error_logger().error("the application failed: %s", line, exc_info=shown)
    except Exception:
        # A handler of the application's own has failed: its log must not cost a worker.
        import traceback

        traceback.print_exception(error, file=sys.__stderr__)
