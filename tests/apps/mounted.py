"""An ASGI application that answers after as many seconds as its query says, wherever it is mounted."""

import asyncio


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        raise RuntimeError("no lifespan here")
    await asyncio.sleep(float(scope["query_string"] or 0))
    body = scope["path"].encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})
