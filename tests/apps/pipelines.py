"""The same answers for WSGI and ASGI: the path, and the body that came with it."""

import asyncio
import time


def application(environ, start_response):
    """WSGI. `/block/SECONDS` keeps its thread, or the hub, for so long."""
    path = environ["PATH_INFO"]
    if path.startswith("/block/"):
        block(float(path[7:]))
    body = path.encode() + b" " + environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


async def app(scope, receive, send):
    """ASGI. `/wait` waits until the client has left, `/hint` says 103 first."""
    if scope["type"] == "lifespan":
        raise RuntimeError("no lifespan here")
    path = scope["path"]
    if path.startswith("/block/"):
        block(float(path[7:]))
    if path.startswith("/later/"):
        await asyncio.sleep(float(path[7:]))
    if path == "/hint":
        await send({"type": "http.response.early_hint", "links": [b"</a.css>; rel=preload"]})
    body, more = b"", True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            return
        body, more = body + event.get("body", b""), event.get("more_body", False)
    if path == "/wait":
        assert (await receive())["type"] == "http.disconnect"
        return
    body = path.encode() + b" " + body
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


def block(seconds):
    """Stands for what an application should not do in an event loop. The real sleep: gevent's patch lets others run."""
    REAL_SLEEP(seconds)


REAL_SLEEP = time.sleep
if time.sleep.__module__ != "time":
    from gevent.monkey import get_original

    REAL_SLEEP = get_original("time", "sleep")
