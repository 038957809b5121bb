"""Pages of any size, as WSGI and as ASGI.

`/N` is one body of N bytes; `/parts/N/M` is N parts of M bytes; `/list/N/M` the same as a list; `/write/N/M` the same
by `write`; `/count` is how many were asked for before. What a byte is follows from its place, so that a reply that is
cut or mixed up shows.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

COUNT = itertools.count()
PATTERN = bytes(range(33, 127))


@functools.cache
def page(size: int) -> bytes:
    """A page of that size; the same object each time."""
    return (PATTERN * (size // len(PATTERN) + 1))[:size]


def asked(path: str) -> tuple[str, int, int]:
    """What a path asks for: the way, how many parts, and their size."""
    number = next(COUNT)
    if path == "/count":
        return "count", 1, number
    way, _, rest = path.strip("/").rpartition("/") if path.count("/") == 1 else path.strip("/").partition("/")
    if not way:
        return "whole", 1, int(rest or 2)
    count, size = rest.split("/")
    return way, int(count), int(size)


def wsgi(environ: dict[str, Any], start_response: Any) -> Any:
    way, count, size = asked(environ["PATH_INFO"])
    if way == "count":
        start_response("200 OK", [])
        return [str(size).encode()]
    if way == "whole":
        start_response("200 OK", [("Content-Length", str(size))])
        # A new object each time, as a template makes one.
        return [bytes(bytearray(page(size)))]
    write = start_response("200 OK", [])
    if way == "write":
        for _ in range(count):
            write(page(size))
        return []
    return [page(size)] * count if way == "list" else (page(size) for _ in range(count))


async def asgi(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        raise RuntimeError("only pages are here")
    way, count, size = asked(scope["path"])
    if way == "count":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(size).encode()})
        return
    headers = [(b"content-length", str(size).encode())] if way == "whole" else []
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if way == "whole":
        await send({"type": "http.response.body", "body": bytes(bytearray(page(size)))})
        return
    for _ in range(count):
        await send({"type": "http.response.body", "body": page(size), "more_body": True})
    await send({"type": "http.response.body"})
