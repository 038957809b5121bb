"""Gives hints before it replies, rightly and wrongly: a path each."""

import asyncio
import threading

GATES = {}
KEPT = []
FLOODED = threading.Event()
LINKS = [("Link", "</a.css>; rel=preload; as=style"), ("Link", "</b.js>; rel=preload; as=script")]
WRONG = {
    "line": [("Link", "</a.css>\r\nSet-Cookie: a=b")],
    "bare": [("Link", "</a.css>\nSet-Cookie: a=b")],
    "name": [("Link: x\r\nSet-Cookie", "a=b")],
    "bytes": [(b"Link", b"</a.css>")],
    "triple": [("Link", "</a.css>", "x")],
    "number": 1,
    # What frames a reply is left out of hints.
    "length": [("Content-Length", "7"), ("Transfer-Encoding", "chunked"), ("Connection", "close"), LINKS[0]],
}


def gate(name):
    return GATES.setdefault(name, threading.Event())


def tried(hints, headers):
    """What the application hears of it."""
    try:
        return repr(hints(headers)).encode()
    except Exception as error:
        return f"{type(error).__name__}: {error}".encode()


def application(environ, start_response):
    hints, query = environ["wsgi.early_hints"], environ["QUERY_STRING"]
    path = environ["PATH_INFO"]
    if path == "/late":
        return late(hints, start_response)
    body = b"done"
    if path == "/waits":
        hints(LINKS[:1])
        hints(LINKS[1:])
        gate(query).wait(30)
    elif path == "/open":
        gate(query).set()
    elif path == "/wrong":
        body = tried(hints, WRONG[query])
    elif path == "/none":
        body = tried(hints, [])
    elif path == "/keeps":
        KEPT.append(hints)
    elif path == "/uses-kept":
        body = tried(KEPT[-1], LINKS)
    elif path == "/elsewhere":
        told = []
        thread = threading.Thread(target=lambda: told.append(tried(hints, LINKS)))
        thread.start()
        thread.join()
        body = told[0]
    elif path == "/started":
        start_response("200 OK", [("Content-Length", "4")])
        hints(LINKS)
        return [body]
    elif path == "/floods":
        # More than any socket takes, and then nothing.
        for _ in range(int(query)):
            hints([("Link", "<" + "x" * 60_000 + ">")])
        FLOODED.set()
        # In steps, between which a deadline can end it.
        for _ in range(600):
            gate("never").wait(0.05)
    elif path == "/flooded":
        body = str(FLOODED.is_set()).encode()
    elif path == "/fails":
        hints(LINKS)
        raise LookupError("behind hints")
    else:
        hints(LINKS)
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


def late(hints, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    yield b"first,"
    yield tried(hints, LINKS)


async def app(scope, receive, send):
    if scope["type"] != "http":
        raise ValueError("there is no lifespan")
    if scope["path"] == "/floods":
        for _ in range(int(scope["query_string"])):
            await send({"type": "http.response.early_hint", "links": [b"<" + b"x" * 60_000 + b">"]})
        FLOODED.set()
        await asyncio.sleep(30)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(FLOODED.is_set()).encode()})
