"""What web servers stand in front of: answers that are long, early, late or without an end, as WSGI and as ASGI.

The query names what is wanted and, behind a comma, which client asks: what becomes of one is told to another. All else
is answered by `doors.py`, which tells what was asked.
"""

import asyncio
import hashlib
import threading
from wsgiref.validate import validator

import doors

#: By client: how many bytes of its body have come, whether it has left, and what it waits for.
RECEIVED, LEFT, RELEASED = {}, set(), set()
CHANGED = threading.Condition()
#: One of two lines, and one that is not ASCII.
HEADERS = [("X-Twice", "1"), ("X-Twice", "2"), ("X-Latin", "\xe9")]


def _told(kind, client):
    """What is known of a client, or is done for it at once; None: something else was asked."""
    if kind == "received":
        return b"%d" % RECEIVED.get(client, 0)
    if kind == "left":
        return b"%d" % (client in LEFT)
    if kind == "release":
        with CHANGED:
            RELEASED.add(client)
            CHANGED.notify_all()
        return b"released"
    return None


class Flood:
    """A body that goes on until somebody closes it."""

    def __init__(self, client):
        self.client = client

    def __iter__(self):
        return self

    def __next__(self):
        return b"x" * 65536

    def close(self):
        LEFT.add(self.client)


def _steps(client):
    yield b"first,"
    with CHANGED:
        CHANGED.wait_for(lambda: client in RELEASED, 20)
    yield b"second"


def application(environ, start_response):
    kind, _, client = environ["QUERY_STRING"].partition(",")
    plain = [("Content-Type", "text/plain")]
    told = _told(kind, client)
    if told is not None:
        start_response("200 OK", [*plain, ("Content-Length", str(len(told)))])
        return [told]
    if kind == "flood":
        start_response("200 OK", plain)
        return Flood(client)
    if kind == "steps":
        start_response("200 OK", plain)
        return _steps(client)
    if kind == "early":
        start_response("403 Forbidden", [*plain, ("Content-Length", "5")])
        return [b"early"]
    if kind == "headers":
        start_response("200 OK", [*plain, *HEADERS, ("Content-Length", "0")])
        return [b""]
    return doors.application(environ, start_response)


checked = validator(application)


async def app(scope, receive, send):
    if scope["type"] != "http":
        raise ValueError("there is no lifespan")
    kind, _, client = scope["query_string"].decode().partition(",")

    async def reply(status, *parts, headers=()):
        headers = [(b"content-type", b"text/plain"), *headers]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})

    async def end(content=b""):
        await send({"type": "http.response.body", "body": content})

    told = _told(kind, client)
    if told is not None:
        await reply(200, headers=[(b"content-length", str(len(told)).encode())])
        await end(told)
    elif kind == "flood":
        await reply(200)
        leaving = asyncio.ensure_future(_left(receive))
        try:
            while not leaving.done():
                await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
                await asyncio.sleep(0)
        except OSError:
            pass  # what is said to nobody
        LEFT.add(client)
    elif kind == "steps":
        await reply(200, b"first,")
        while client not in RELEASED:
            await asyncio.sleep(0.01)
        await end(b"second")
    elif kind == "early":
        await reply(403, headers=[(b"content-length", b"5")])
        await end(b"early")
    elif kind == "headers":
        headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in HEADERS]
        await reply(200, headers=[*headers, (b"content-length", b"0")])
        await end()
    elif kind == "watched":
        digest = hashlib.sha256()
        more = True
        while more:
            event = await receive()
            digest.update(event.get("body", b""))
            RECEIVED[client] = RECEIVED.get(client, 0) + len(event.get("body", b""))
            more = event.get("more_body", False)
        await reply(200)
        await end(digest.hexdigest().encode())
    else:
        await doors.app(scope, receive, send)


async def _left(receive):
    while (await receive())["type"] != "http.disconnect":
        pass
