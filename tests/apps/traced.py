"""Says what it is told of its trace, for WSGI and ASGI; and answers as its path says."""

import asyncio
import time


def application(environ, start_response):
    _, name, *rest = environ["PATH_INFO"].split("/")
    if name == "sleep":
        time.sleep(float(rest[0]))
    elif name == "fail":
        raise RuntimeError("raised on purpose")
    environ["forehand.route"] = f"/{name}" + "/{seconds}" * len(rest)
    content = environ.get("HTTP_TRACESTATE" if name == "state" else "HTTP_TRACEPARENT", "none").encode()
    announced = len(content) + (name == "short")
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(announced))])
    return [content]


async def app(scope, receive, send):
    _, name, *rest = scope["path"].split("/")
    if name == "sleep":
        await asyncio.sleep(float(rest[0]))
    elif name == "fail":
        raise RuntimeError("raised on purpose")
    scope["forehand.route"] = f"/{name}" + "/{seconds}" * len(rest)
    header = b"tracestate" if name == "state" else b"traceparent"
    content = b" ".join([value for known, value in scope["headers"] if known == header]) or b"none"
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})
