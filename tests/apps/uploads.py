"""Takes bodies: answers with how many bytes there were, under WSGI and ASGI."""

import asyncio
import hashlib
import threading
import time

PLAIN = [("Content-Type", "text/plain")]


def application(environ, start_response):
    total = 0
    while part := environ["wsgi.input"].read(100_000):
        total += len(part)
    answer = b"%d" % total
    start_response("200 OK", [*PLAIN, ("Content-Length", str(len(answer)))])
    return [answer]


async def app(scope, receive, send):
    total, more = 0, True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            return
        total += len(event.get("body", b""))
        more = event.get("more_body", False)
    answer = b"%d" % total
    headers = [(b"content-length", b"%d" % len(answer)), (b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


def late_application(environ, start_response):
    time.sleep(2.5)
    return application(environ, start_response)


async def late_app(scope, receive, send):
    await asyncio.sleep(2.5)
    await app(scope, receive, send)


def reads(environ, start_response):
    """Reads by the sizes that the query says, again and again; tells what it was."""
    digest, more = hashlib.sha256(), True
    while more:
        for size in environ["QUERY_STRING"].split(","):
            part = environ["wsgi.input"].read(*([int(size)] if size else []))
            digest.update(part)
            more = bool(part)
    answer = digest.hexdigest().encode()
    start_response("200 OK", [*PLAIN, ("Content-Length", str(len(answer)))])
    return [answer]


def ticks(environ, start_response):
    """Reads all of a body at once; tells how often another thread had its turn meanwhile."""
    count, over = 0, threading.Event()

    def tick():
        nonlocal count
        while not over.wait(0.001):
            count += 1

    other = threading.Thread(target=tick)
    other.start()
    while not count:
        time.sleep(0.001)
    before = count
    length = len(environ["wsgi.input"].read())
    answer = b"%d %d" % (length, count - before)
    over.set()
    other.join()
    start_response("200 OK", [*PLAIN, ("Content-Length", str(len(answer)))])
    return [answer]
