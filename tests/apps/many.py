"""What many streams of one connection ask for, as WSGI and as ASGI: one path each. `/file` waits for the file $GATE."""

import asyncio
import hashlib
import os
import threading
import time

PLAIN = [("Content-Type", "text/plain")]
#: What `/open/NAME` opens and `/wait/NAME` waits for.
GATES = {}
LOCK = threading.Lock()
#: How often a path was asked for, and which replies were closed or left before their end.
SEEN = {}
LEFT = []


def gate(name):
    with LOCK:
        return GATES.setdefault(name, threading.Event())


def seen(kind):
    with LOCK:
        SEEN[kind] = SEEN.get(kind, 0) + 1


class Endless:
    def __iter__(self):
        return self

    def __next__(self):
        return b"e" * 50_000

    def close(self):
        LEFT.append("endless")


def told(kind, name):
    if kind == "bytes":
        return b"x" * int(name)
    if kind == "count":
        return b"%d" % SEEN.get(name, 0)
    if kind == "left":
        return b"%d" % len(LEFT)
    return kind.encode() or b"many streams of one connection"


def application(environ, start_response):
    _, kind, name, *_ = environ["PATH_INFO"].split("/") + ["", ""]
    seen(kind)
    if kind == "echo":
        body = environ["wsgi.input"].read()
        start_response("200 OK", [*PLAIN, ("Content-Length", str(len(body)))])
        return [body]
    if kind == "digest":
        digest = hashlib.sha256()
        while part := environ["wsgi.input"].read(30_000):
            digest.update(part)
        start_response("200 OK", PLAIN)
        return [digest.hexdigest().encode()]
    if kind == "parts":
        start_response("200 OK", PLAIN)
        return (b"%05d" % number * 2000 for number in range(int(name)))
    if kind == "endless":
        start_response("200 OK", PLAIN)
        return Endless()
    if kind == "fails":
        start_response("200 OK", PLAIN)
        return failing()
    while kind == "file" and not os.path.exists(os.environ["GATE"]):
        time.sleep(0.005)
    if kind == "wait":
        # Under gevent this is a wait of its hub.
        while not gate(name).is_set():
            time.sleep(0.005)
    if kind == "open":
        gate(name).set()
    answer = told(kind, name)
    start_response("200 OK", [*PLAIN, ("Content-Length", str(len(answer)))])
    return [answer]


def failing():
    yield b"begun"
    raise RuntimeError("raised on purpose")


async def body_of(receive):
    more = True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            return
        yield event.get("body", b"")
        more = event.get("more_body", False)


async def app(scope, receive, send):
    if scope["type"] != "http":
        raise ValueError("there is no lifespan")
    _, kind, name, *_ = scope["path"].split("/") + ["", ""]
    seen(kind)

    async def start(length=None):
        headers = [(b"content-type", b"text/plain")]
        headers += [(b"content-length", b"%d" % length)] if length is not None else []
        await send({"type": "http.response.start", "status": 200, "headers": headers})

    async def part(content, more=False):
        await send({"type": "http.response.body", "body": content, "more_body": more})

    if kind == "parts":
        await start()
        for number in range(int(name)):
            await part(b"%05d" % number * 2000, True)
        return await part(b"")
    if kind == "endless":
        await start()
        try:
            while True:
                await part(b"e" * 50_000, True)
        finally:
            LEFT.append("endless")
    if kind == "fails":
        await start()
        await part(b"begun", True)
        raise RuntimeError("raised on purpose")
    if kind == "echo":
        answer = b"".join([part async for part in body_of(receive)])
    elif kind == "digest":
        digest = hashlib.sha256()
        async for content in body_of(receive):
            digest.update(content)
        answer = digest.hexdigest().encode()
    else:
        if not kind:
            # What follows the request is judged before it is answered.
            assert all([len(part) >= 0 async for part in body_of(receive)])
        while kind == "file" and not os.path.exists(os.environ["GATE"]):
            await asyncio.sleep(0.005)
        while kind == "wait" and not gate(name).is_set():
            await asyncio.sleep(0.005)
        if kind == "open":
            gate(name).set()
        answer = told(kind, name)
    await start(len(answer))
    await part(answer)
