"""How much of a FastAPI request is FastAPI's and Starlette's own Python: their application, called without a server.

    fastapi_alone.py        CPU microseconds a call, the least of many blocks; and of a bare ASGI application

`receive` and `send` are coroutines that never wait. What is left of a server's microseconds a request
(`beside_uvicorn.py fastapi`) is the server's, the event loop's and the kernel's.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from fastapi_view import app

BLOCKS, CALLS = 200, 200
SCOPE = {
    "type": "http", "asgi": {"version": "3.0", "spec_version": "2.5"}, "http_version": "1.1", "method": "GET",
    "scheme": "http", "path": "/", "raw_path": b"/", "query_string": b"", "root_path": "",
    "headers": [(b"host", b"127.0.0.1:8000")], "server": ("127.0.0.1", 8000), "client": ("127.0.0.1", 50000),
}  # fmt: skip


async def receive() -> dict[str, Any]:
    """An empty body."""
    return {"type": "http.request", "body": b"", "more_body": False}


async def send(event: dict[str, Any]) -> None:
    """Nobody listens."""


async def bare(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """The same reply by hand."""
    body = b'{"message":"Hello, World!"}'
    headers = [(b"content-length", b"27"), (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def least(application: Any) -> float:
    """CPU microseconds of a call, in a loop that is running."""
    found = []
    for _ in range(BLOCKS):
        begun = time.thread_time()
        for _ in range(CALLS):
            await application(dict(SCOPE), receive, send)
        found.append((time.thread_time() - begun) / CALLS * 1e6)
    return min(found)


async def both() -> dict[str, float]:
    """FastAPI's view, and the bare one."""
    return {"fastapi_us": await least(app), "bare_us": await least(bare)}


def main() -> int:
    """Measure and print; the exit status."""
    print(json.dumps(asyncio.run(both()), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
