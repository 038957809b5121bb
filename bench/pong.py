"""The application that is measured."""

from collections.abc import Callable
from typing import Any


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """Five bytes."""
    body = b"Pong!"
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
