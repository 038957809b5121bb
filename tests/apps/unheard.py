"""Applications whose standard error leads nowhere once `/deaf` was asked for, and a reply in two parts."""

import asyncio
import os
import time

PARTS = [b"begun, ", b"ended"]


def deafen():
    """What is written to stderr from now on fails: its reader has left."""
    reader, writer = os.pipe()
    os.dup2(writer, 2)
    os.close(reader)
    os.close(writer)


def application(environ, start_response):
    if environ["PATH_INFO"] == "/deaf":
        deafen()
    start_response("200 OK", [("Content-Length", "12")])
    yield PARTS[0]
    time.sleep(0.5)
    yield PARTS[1]


async def asynchronous(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    if scope["path"] == "/deaf":
        deafen()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"12")]})
    await send({"type": "http.response.body", "body": PARTS[0], "more_body": True})
    await asyncio.sleep(0.5)
    await send({"type": "http.response.body", "body": PARTS[1]})
