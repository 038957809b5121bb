"""The loggers `forehand.error` and `forehand.access`, and what they have where nobody has given them a handler.

Knows: how lines look that come by Python's logging. Does not know: what configures it. `logging` is imported when the
first failure comes, or where it is configured: most processes never need it.
"""

from __future__ import annotations

import sys

from forehand import lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging

#: How lines look in this process, for loggers that the application has given no handler.
form = lines.PLAIN


def error_logger() -> logging.Logger:
    """The logger `forehand.error`; it writes to stderr unless the application has given it a handler."""
    import logging

    from forehand.supervisor import log

    logger = logging.getLogger("forehand.error")
    # What configures logging disables, unless it is told not to, what was there before.
    logger.disabled = False
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


def access_logger() -> logging.Logger:
    """The logger `forehand.access`; it writes to stdout unless it has a handler."""
    import logging

    logger = logging.getLogger("forehand.access")
    if not logger.hasHandlers():
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)
        logger.propagate = False
    return logger
