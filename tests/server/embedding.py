"""Applications for servers within a process, what they have been told, and who asks them."""

from __future__ import annotations

import threading
import urllib.request
from typing import Any


def wsgi(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    if environ["PATH_INFO"] == "/slow":
        entered.set()
        leave.wait(20)
    start_response("200 OK", [("Content-Length", "4")])
    return [b"wsgi"]


entered, leave = threading.Event(), threading.Event()
life: list[str] = []


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        while True:
            event = (await receive())["type"]
            life.append(event)
            await send({"type": event + ".complete"})
            if event == "lifespan.shutdown":
                return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
    await send({"type": "http.response.body", "body": b"asgi"})


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=20) as reply:
        found: bytes = reply.read()
        return found
