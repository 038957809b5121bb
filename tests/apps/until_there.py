"""Requests for `/wait` are answered once the file that `GATE` names is there; that they run, another one says."""

import asyncio
import os
import time


def waits(path):
    if path != "/wait":
        return False
    with open(os.environ["GATE"] + ".runs", "w"):
        pass
    return not os.path.exists(os.environ["GATE"])


def application(environ, start_response):
    while waits(environ["PATH_INFO"]):
        time.sleep(0.01)
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]


async def app(scope, receive, send):
    while waits(scope["path"]):
        await asyncio.sleep(0.01)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})
