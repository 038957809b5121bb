"""Each request burns a fifth of a millisecond and tells how many were begun before it, under WSGI and ASGI."""

import time

BEGUN = 0


def burn():
    global BEGUN
    BEGUN += 1
    end = time.perf_counter() + 0.0002
    while time.perf_counter() < end:
        pass
    return b"%06d" % BEGUN


def application(environ, start_response):
    answer = burn()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(answer)))])
    return [answer]


async def app(scope, receive, send):
    answer = burn()
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(answer))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})
