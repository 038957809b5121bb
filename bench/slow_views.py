"""Views that wait as if for a database, beside one that does not."""

import threading
import time
from collections.abc import Callable
from typing import Any

#: How long each waits, in seconds.
WAITS = {"/slow": 0.05, "/slower": 0.2, "/new": 0.05, "/database": 0.05, "/page": 0.02, "/report": 1.0, "/long": 10.0}
#: Connections of the database.
CONNECTIONS = threading.Semaphore(10)


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """Five bytes, after as long as the path says."""
    path = environ["PATH_INFO"]
    if path == "/database":
        with CONNECTIONS:
            time.sleep(WAITS[path])
    elif path in WAITS:
        time.sleep(WAITS[path])
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return [b"Pong!"]
