"""What `bench/bystander.py` asks, as WSGI and as ASGI: small, large, busy and stored replies, and uploads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

#: What is more than a socket's buffer takes, and what waits behind an earlier reply.
LARGE, PAGE = b"x" * 8_000_000, b"x" * 1_000_000
#: What a busy view uses of a processor, in seconds.
BUSY = 0.0001
TEXT = [("Content-Type", "text/plain")]


def burn(seconds: float) -> None:
    """Use so much of a processor."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def content(path: str) -> bytes:
    """What a path replies."""
    if path == "/busy":
        burn(BUSY)
    return {"/large": LARGE, "/page": PAGE}.get(path, b"ok")


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """WSGI; /file?PATH sends a file by the server's own wrapper."""
    path = environ["PATH_INFO"]
    if path == "/file":
        start_response("200 OK", TEXT)
        return environ["wsgi.file_wrapper"](open(environ["QUERY_STRING"], "rb"))  # type: ignore[no-any-return] # noqa: SIM115
    if environ["REQUEST_METHOD"] == "POST":
        while environ["wsgi.input"].read(65536):
            pass
    body = content(path)
    start_response("200 OK", [*TEXT, ("Content-Length", str(len(body)))])
    return [body]


async def app(
    scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[dict[str, Any]], Awaitable[None]]
) -> None:
    """ASGI; /file?PATH sends a file by `http.response.pathsend`."""
    if scope["type"] != "http":
        return
    headers = [(b"content-type", b"text/plain")]
    if scope["path"] == "/file":
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.pathsend", "path": scope["query_string"].decode()})
        return
    if scope["method"] == "POST":
        while (await receive()).get("more_body"):
            await asyncio.sleep(0)
    body = content(scope["path"])
    headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
