"""The article's application for ASGI servers: the same bytes by the other protocol."""

from pong import BODY

HEADERS = [(b"content-type", b"text/plain"), (b"content-length", str(len(BODY)).encode())]


async def application(scope, receive, send):
    """200 and five bytes; the lifespan protocol is accepted and has nothing to do."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": BODY})
