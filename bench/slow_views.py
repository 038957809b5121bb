"""Views that wait as if for a database, beside one that does not."""

import time
from collections.abc import Callable
from typing import Any

#: How long each waits, in seconds.
WAITS = {"/slow": 0.05, "/slower": 0.2, "/new": 0.05}


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """Five bytes, after as long as the path says."""
    wait = WAITS.get(environ["PATH_INFO"])
    if wait:
        time.sleep(wait)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return [b"Pong!"]
