"""The application that is measured."""

import time
from collections.abc import Callable
from typing import Any


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """Five bytes; at `/slow` after 50 ms."""
    if environ["PATH_INFO"] == "/slow":
        time.sleep(0.05)
    body = b"Pong!"
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
