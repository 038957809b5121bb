"""What `delay.py` and `blocked_stream.py` ask: a file's bytes from memory, a body's digest, little, and a sleep."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """WSGI."""
    if environ["REQUEST_METHOD"] == "PUT":
        digest = hashlib.sha256()
        while part := environ["wsgi.input"].read(65536):
            digest.update(part)
        answer = digest.hexdigest().encode()
    elif environ["PATH_INFO"] == "/down":
        answer = Path(environ["QUERY_STRING"]).read_bytes()
    else:
        if environ["PATH_INFO"] == "/sleep":
            time.sleep(float(environ["QUERY_STRING"]))
        answer = b"little"
    start_response("200 OK", [("Content-Length", str(len(answer)))])
    return [answer]


async def app(scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
    """ASGI."""
    if scope["method"] == "PUT":
        digest, more = hashlib.sha256(), True
        while more:
            event = await receive()
            digest.update(event.get("body", b""))
            more = event.get("more_body", False)
        answer = digest.hexdigest().encode()
    elif scope["path"] == "/down":
        answer = Path(scope["query_string"].decode()).read_bytes()
    else:
        if scope["path"] == "/sleep":
            await asyncio.sleep(float(scope["query_string"]))
        answer = b"little"
    headers = [(b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})
