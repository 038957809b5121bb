"""Tells what it was asked with, as WSGI (also inside its validator) and as ASGI; answers in all the ways there are."""

import asyncio
import hashlib
import json
from wsgiref.validate import validator

#: What was told of clients that have left: `/left` says how many.
LEFT = []


class Parts:
    """A body in parts, without a length; `fails` after the first."""

    def __init__(self, fails):
        self.rest = [b"one,", b"two,", b"three"]
        self.fails = fails

    def __iter__(self):
        return self

    def __next__(self):
        if not self.rest or (self.fails and len(self.rest) < 3):
            if self.fails:
                raise RuntimeError("broken on purpose")
            raise StopIteration
        return self.rest.pop(0)

    def close(self):
        LEFT.append(self.rest)


class Endless(Parts):
    """A body without an end, until somebody closes it."""

    def __next__(self):
        return b"x" * 65536


def _shown(value):
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, (list, tuple)):
        return [_shown(part) for part in value]
    if isinstance(value, dict):
        return {key: _shown(part) for key, part in value.items()}
    return value if isinstance(value, (str, int, bool, type(None))) else type(value).__name__


def application(environ, start_response):
    kind = environ["QUERY_STRING"]
    headers = [("Content-Type", "application/json")]
    if kind in ("parts", "broken", "endless"):
        start_response("200 OK", headers)
        return Endless(False) if kind == "endless" else Parts(kind == "broken")
    if kind == "left":
        answer = b"%d" % len(LEFT)
    elif kind == "nothing":
        start_response("204 No Content", [])
        return []
    elif kind == "unchanged":
        start_response("304 Not Modified", [("ETag", '"a"')])
        return []
    elif kind == "fails":
        raise RuntimeError("broken on purpose")
    else:
        digest = hashlib.sha256()
        total = 0
        while part := environ["wsgi.input"].read(100_000):
            digest.update(part)
            total += len(part)
        answer = json.dumps({"body": [total, digest.hexdigest()], **_shown(environ)}).encode()
    start_response("200 OK", [*headers, ("Content-Length", str(len(answer)))])
    return [answer]


checked = validator(application)


async def _body(receive):
    digest, total, more = hashlib.sha256(), 0, True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise ConnectionError("the client has left")
        part = event.get("body", b"")
        total += len(part)
        digest.update(part)
        more = event.get("more_body", False)
    return [total, digest.hexdigest()]


async def app(scope, receive, send):
    if scope["type"] != "http":
        raise ValueError("there is no lifespan")
    kind = scope["query_string"].decode()

    async def start(status, *headers):
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})

    async def part(content, more=False):
        await send({"type": "http.response.body", "body": content, "more_body": more})

    if kind in ("parts", "broken", "endless"):
        await start(200)
        await part(b"one,", True)
        if kind == "endless":
            await receive()
            while (await receive())["type"] != "http.disconnect":
                await asyncio.sleep(0)
            LEFT.append(kind)
            return
        if kind == "broken":
            raise RuntimeError("broken on purpose")
        await part(b"two,", True)
        await part(b"three")
    elif kind == "nothing":
        await start(204)
        await part(b"")
    elif kind == "unchanged":
        await start(304, (b"etag", b'"a"'))
        await part(b"")
    elif kind == "fails":
        raise RuntimeError("broken on purpose")
    else:
        facts = {"body": await _body(receive), **_shown(dict(scope))}
        answer = b"%d" % len(LEFT) if kind == "left" else json.dumps(facts).encode()
        await start(200, (b"content-length", str(len(answer)).encode()))
        await part(answer)
