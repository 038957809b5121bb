"""Views that tell in which process they run, or keep it busy until a file is there, with little rest."""

import asyncio
import os
import time

#: So long it is busy at a time, and so long it rests; seconds. The former is more than a loop may be held.
BUSY, REST = 0.2, 0.02
FIELDS = [("Content-Type", "text/plain")]


def burn():
    """Use the processor, and the interpreter."""
    until = time.monotonic() + BUSY
    while time.monotonic() < until:
        pass


def wsgi(environ, start_response):
    path, query = environ["PATH_INFO"], environ["QUERY_STRING"]
    if path == "/sleep":
        time.sleep(float(query))
    elif path == "/burn":
        while not os.path.exists(query):
            burn()
            time.sleep(REST)
    elif path == "/busy":
        burn()
    body = str(os.getpid()).encode()
    start_response("200 OK", [*FIELDS, ("Content-Length", str(len(body)))])
    return [body]


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        raise ValueError("no other protocols")
    path, query = scope["path"], scope["query_string"].decode()
    if path == "/sleep":
        await asyncio.sleep(float(query))
    elif path == "/burn":
        while not os.path.exists(query):
            burn()
            await asyncio.sleep(REST)
    elif path == "/busy":
        burn()
    body = str(os.getpid()).encode()
    headers = [(name.lower().encode(), value.encode()) for name, value in FIELDS]
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
