"""The same answers for WSGI and ASGI: the path, and the body that came with it."""

import asyncio
import ctypes
import errno
import os
import signal
import time


def application(environ, start_response):
    """WSGI. `/block/SECONDS` keeps its thread, or the hub, for so long."""
    path = environ["PATH_INFO"]
    at_work(path)
    if path.startswith("/spawned/"):
        import gevent

        gevent.spawn(at_work, path[8:])
    body = path.encode() + b" " + environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


async def app(scope, receive, send):
    """ASGI. `/wait` waits until the client has left, `/hint` says 103 first."""
    if scope["type"] == "lifespan":
        raise RuntimeError("no lifespan here")
    path = scope["path"]
    at_work(path)
    if path.startswith("/spawned/"):
        TASKS.append(asyncio.create_task(aside(path[8:]), name="night shift"))
    if path.startswith("/child/"):
        await asyncio.create_task(child(scope))
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


async def child(scope):
    """As middleware runs what is below it: in a task of its own."""
    await asyncio.sleep(0.01)
    at_work(scope["path"][6:])


async def aside(path):
    await asyncio.sleep(0.01)
    at_work(path)


def at_work(path):
    """What an application should not do in a loop: `/KIND/SECONDS`, or `/KIND/PATH` of a gate. `/kill` ends it."""
    kind, _, what = path[1:].partition("/")
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind in ("block", "burn", "compute"):
        globals()[kind](float(what))
    if kind in ("gate", "lock"):
        until_opened(f"/{what}", ctypes.CDLL if kind == "gate" else ctypes.PyDLL)


def block(seconds):
    """Waits, and lets go of the interpreter meanwhile."""
    REAL_SLEEP(seconds)


def until_opened(path, library):
    """Waits until somebody opens this named pipe for writing; with PyDLL nobody has the interpreter meanwhile."""
    call = library(None, use_errno=True).open
    while (pipe := call(path.encode(), os.O_RDONLY)) < 0 and ctypes.get_errno() == errno.EINTR:
        pass
    assert pipe >= 0, os.strerror(ctypes.get_errno())
    os.close(pipe)


def burn(seconds):
    """Computes in Python, which lets others have their turn."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def compute(seconds):
    """Computes in C, which lets nobody. How much takes how long is measured, as machines differ."""
    count, took = 1_000_000, 0.0
    while took < seconds:
        began = time.monotonic()
        sum(range(count))
        took = time.monotonic() - began
        count = int(count * max(1.5, min(8, 1.3 * seconds / took)))


TASKS = []
REAL_SLEEP = time.sleep
if time.sleep.__module__ != "time":
    from gevent.monkey import get_original

    REAL_SLEEP = get_original("time", "sleep")
