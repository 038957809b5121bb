"""Answers each line of a body when it has come and before the next one does, as WSGI and as ASGI."""

import hashlib

#: Behind the answers.
END = b"the end"


def answer(line):
    """What a line is answered with: how long it was, and a hash of it."""
    return b"%d %s\n" % (len(line), hashlib.sha256(line).hexdigest().encode())


def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    for line in environ["wsgi.input"]:
        yield answer(line.removesuffix(b"\n"))
    yield END


async def app(scope, receive, send):
    if scope["type"] != "http":
        raise ValueError("there is no lifespan")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    held, more = b"", True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            return
        *lines, held = (held + event["body"]).split(b"\n")
        for line in lines:
            await send({"type": "http.response.body", "body": answer(line), "more_body": True})
        more = event["more_body"]
    await send({"type": "http.response.body", "body": END})
