"""Views that spend their time in one known way, for WSGI and ASGI."""

import asyncio
import signal
import sys
import threading
import time

LARGE = bytes(8_000_000)


def burn(seconds):
    """Use a processor for so long, by this thread's own clock."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def crash():
    """What C code can do to a process."""
    # To the main thread, and not to whichever the kernel finds first.
    signal.pthread_kill(threading.main_thread().ident, signal.SIGSEGV)
    time.sleep(60)


def parts(seconds, count):
    """So many, each after so long."""
    for _ in range(count):
        time.sleep(seconds)
        yield b"part"


def half():
    """Fails when a part of its reply is sent."""
    yield b"half"
    raise RuntimeError("raised on purpose")


def application(environ, start_response):
    _, name, *rest = environ["PATH_INFO"].split("/")
    body = environ["wsgi.input"].read()
    if name == "sleep":
        time.sleep(float(rest[0]))
    elif name == "burn":
        burn(float(rest[0]))
    elif name == "steps":
        for _ in range(5):
            burn(float(rest[0]) / 5)
            time.sleep(0.01)
    elif name == "crash":
        crash()
    elif name == "fail":
        raise RuntimeError("raised on purpose")
    elif name == "named":
        start_response("200 OK", [("Content-Length", "0"), ("X-Request-Id", "the application's")])
        return [b""]
    elif name == "id":
        content = f"{environ.get('HTTP_X_REQUEST_ID')} {environ.get('forehand.request_id')}".encode()
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(content)))])
        return [content]
    elif name == "half":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return half()
    elif name == "short":
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "9")])
        return [b"half"]
    elif name == "stream":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return parts(float(rest[0]), int(rest[1]))
    elif name == "imported":
        there = set(sys.modules)
        start_response("200 OK" if ".".join(rest) in there else "404 Not Found", [("Content-Length", "0")])
        return [b""]
    elif name == "missing":
        start_response("404 Not Found", [("Content-Length", "0")])
        return [b""]
    content = LARGE if name == "large" else str(len(body)).encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(content)))])
    return [content]


async def app(scope, receive, send):
    _, name, *rest = scope["path"].split("/")
    if name == "sleep":
        await asyncio.sleep(float(rest[0]))
    elif name == "burn":
        burn(float(rest[0]))
    elif name == "steps":
        for _ in range(5):
            burn(float(rest[0]) / 5)
            await asyncio.sleep(0.01)
    if name == "socket":
        more = [(b"x-request-id", b"the application's")] if rest else []
        await receive()
        await send({"type": "websocket.accept", "headers": more})
        await send({"type": "websocket.send", "text": scope["forehand"]["request_id"]})
        return
    if name in ("half", "short"):
        announced = [(b"content-length", b"9")] if name == "short" else []
        await send({"type": "http.response.start", "status": 200, "headers": announced})
        await send({"type": "http.response.body", "body": b"half", "more_body": name == "half"})
        raise RuntimeError("raised on purpose")
    content = LARGE if name == "large" else b"ok"
    if name == "id":
        given = [value for known, value in scope["headers"] if known == b"x-request-id"]
        content = b" ".join([*given, scope["forehand"]["request_id"].encode()])
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})
