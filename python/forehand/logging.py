"""A filter for the standard library's `logging`: what names the request that a record belongs to.

    LOGGING = {
        "filters": {"request": {"()": "forehand.logging.Context"}},
        "formatters": {"line": {"format": "%(levelname)s %(request_id)s %(message)s"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "filters": ["request"], "formatter": "line"}},
        ...
    }

Knows: records. Does not know: how a request is found (`current.py`). Runs where the application does, also where no
server is; nothing of the server imports it.
"""

from __future__ import annotations

import logging

from forehand import current

#: What a record is given.
NAMES = ("request_id", "trace_id", "span_id", "route")
#: Where there is none.
NONE = "-"


class Context(logging.Filter):
    """Sets `request_id`, `trace_id`, `span_id` and `route` on each record, `-` where there is none.

    For handlers, where it sees the records of all loggers, or for loggers. What a record has already stays, so that one
    that is passed on to another thread (`QueueHandler`) keeps its request. `name` is `logging.Filter`'s own.
    """

    def __init__(self, name: str = "") -> None:
        super().__init__(name)
        try:
            current.carry()
        except ImportError:
            pass  # the server is not here: there are no requests

    def filter(self, record: logging.LogRecord) -> bool:
        """True for what `name` lets through."""
        try:
            request = current.request()
        except Exception:
            request = None  # a line without its request is better than none
        told: dict[str, str | None] = {}
        if request is not None:
            told = {
                "request_id": request.id,
                "trace_id": request.trace_id,
                "span_id": request.span_id,
                "route": request.route,
            }
        known = record.__dict__
        for name in NAMES:
            if known.get(name) is None:
                known[name] = told.get(name) or NONE
        return bool(super().filter(record))
