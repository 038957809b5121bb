"""The server's own lines in the process that serves: where they go, and how an application's failures are told.

Knows: the loggers `forehand.error` and `forehand.access`. Does not know: what the engine writes by itself
(`server/log.rs` uses the forms of `lines.py` too). `logging` is imported when the first failure comes, or where it is
configured: most processes never need it.
"""

from __future__ import annotations

import os
import sys

from forehand import errors, lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from typing import Any

#: How lines look in this process, for loggers that the application has given no handler.
form = lines.PLAIN


def engine_settings(plan: dict[str, Any]) -> dict[str, Any]:
    """What the engine is told of logs in this process: forms, and the access log that is kept. `plan`: that of
    `Settings.plan`. Whether there is a terminal shows here and not where the options were read."""
    global form
    form = lines.form(plan["log_format"], plan["log_colors"])
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
        "log_form": form,
        "access_log": "" if access == "none" else access,
        "access_log_form": lines.form("text", plan["log_colors"], 1) if plan["access_log_file"] == "-" else lines.PLAIN,
        "tracebacks": "always" if plan["reload"] else "local" if os.isatty(2) else "never",
    }


def error_logger() -> logging.Logger:
    """The logger `forehand.error`; it writes to stderr unless the application has given it a handler."""
    import logging

    from forehand.supervisor import log

    logger = logging.getLogger("forehand.error")
    if not logger.hasHandlers():

        class Lines(logging.Formatter):
            def format(self, record: logging.LogRecord) -> str:
                trace = self.formatException(record.exc_info) if record.exc_info else ""
                return lines.line(form, record.levelname.lower(), record.getMessage(), trace).rstrip("\n")

        class Patient(logging.StreamHandler):  # type: ignore[type-arg]
            """Where lines go to standard error: who reads that may have stopped, and must stop nobody else."""

            def emit(self, record: logging.LogRecord) -> None:
                if self.stream is not sys.__stderr__:
                    super().emit(record)
                    return
                try:
                    log.put(f"{self.format(record)}\n")
                except Exception:
                    self.handleError(record)

        handler = Patient()
        handler.setFormatter(Lines())
        logger.addHandler(handler)
        logger.propagate = False
    return logger


def application_error(what: str, error: BaseException) -> None:
    """Log an application's failure with its whole traceback. `what`: which request it was, or what else failed.
    Called by the engine; never raises."""
    try:
        line = what.encode("unicode_escape").decode("ascii")
        shown = (type(error), error, errors.own_frames(error.__traceback__) or error.__traceback__)
        error_logger().error("the application failed: %s", line, exc_info=shown)
    except Exception:
        # A handler of the application's own has failed: its log must not cost a worker.
        import traceback

        traceback.print_exception(error, file=sys.__stderr__)
