"""An ASGI application that answers at once, and tells at `/lag` how late timers were since that was last asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

#: Milliseconds by which a timer of one millisecond was late, one for each.
LATE: list[float] = []
TASKS: set[asyncio.Task[None]] = set()


async def look() -> None:
    """Notes how late each timer is."""
    while True:
        due = time.monotonic() + 0.001
        await asyncio.sleep(0.001)
        LATE.append((time.monotonic() - due) * 1e3)


async def application(
    scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[Any]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """One request."""
    if scope["type"] != "http":
        raise NotImplementedError(scope["type"])
    if not TASKS:
        TASKS.add(asyncio.create_task(look()))
    body = b"pong"
    if scope["path"] == "/lag":
        late = sorted(LATE) or [0.0]
        LATE.clear()
        body = f"{late[-1]} {late[int(len(late) * 0.99)]}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})
