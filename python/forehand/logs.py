"""Where an application's failures are told: the logger `forehand.error`.

Knows: how a line looks. Does not know: what the engine writes by itself (`server/log.rs`
uses the same form). Runs on the thread whose application has failed. `logging` is imported
when the first failure comes: most processes never need it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging

FORMAT = "%(asctime)s.%(msecs)03dZ [%(process)d] %(levelname)s: %(message)s"
NAMES = {"DEBUG": "debug", "INFO": "info", "WARNING": "warning", "ERROR": "error", "CRITICAL": "critical"}


def error_logger() -> logging.Logger:
    """The logger; it writes to stderr unless the application has given it a handler."""
    import logging
    import time

    logger = logging.getLogger("forehand.error")
    if not logger.hasHandlers():

        class Lines(logging.Formatter):
            converter = staticmethod(time.gmtime)

            def format(self, record: logging.LogRecord) -> str:
                record.levelname = NAMES.get(record.levelname, record.levelname)
                return super().format(record)

        handler = logging.StreamHandler()
        handler.setFormatter(Lines(FORMAT, "%Y-%m-%d %H:%M:%S"))
        logger.addHandler(handler)
        logger.propagate = False
    return logger


def application_error(request_line: str, error: BaseException) -> None:
    """Log an application's failure with its traceback. Called by the engine; never raises."""
    try:
        line = request_line.encode("unicode_escape").decode("ascii")
        error_logger().error("the application failed: %s", line, exc_info=error)
    except Exception:
        # A handler of the application's own has failed: its log must not cost a worker.
        import sys
        import traceback

        traceback.print_exception(error, file=sys.__stderr__)
