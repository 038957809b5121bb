"""The same as `tormented.py`, for event loops."""

import asyncio
import os

from tormented import SOME, OnPurpose, asked, burn, content, fork, named, pieces, told

START, BODY = "http.response.start", "http.response.body"


async def take(receive, found):
    """Of the body what is to be read; None where another task does it."""
    if found["r"] == "none":
        return b""
    if found["r"] == "lent":
        found["reader"] = asyncio.ensure_future(quietly(receive()))
        await asyncio.sleep(0.005)
        return None
    took = b""
    while found["r"] == "all" or len(took) < SOME:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError("the client has left")
        took += message.get("body", b"")
        if not message.get("more_body"):
            break
    return took if found["r"] == "all" else took[:SOME]


async def quietly(work):
    """What a task does when its request is over: nothing that anybody hears of."""
    try:
        await work
    except Exception:
        pass


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    if scope["type"] == "websocket":
        # One that takes no message for long, and then all of them.
        await receive()
        await send({"type": "websocket.accept"})
        await asyncio.sleep(4)
        while (await receive())["type"] != "websocket.disconnect":
            pass
        return
    if scope["path"] == "/tick":
        await send({"type": START, "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": BODY, "body": b"ok"})
        return
    found = asked(scope["query_string"].decode())
    try:
        took = await take(receive, found)
    except ConnectionResetError:
        return
    if found["f"]:
        fork(found["f"])
    if found["p"]:
        await asyncio.sleep(found["p"] / 1000)
    burn(found["b"])
    if found["w"] == "raise":
        raise OnPurpose(found["i"])
    await reply(scope, send, found, took)


async def reply(scope, send, found, took):
    """Start and body."""
    way = found["w"]
    fields = [(name.lower().encode(), value.encode()) for name, value in told(found, took)]
    if way == "named":
        fields.append((b"x-sendfile", named(found).encode()))
    elif way not in ("unsized", "lent"):
        fields.append((b"content-length", b"%d" % found["n"]))
    await send({"type": START, "status": 200, "headers": fields})
    if way == "named":
        # Of this body nothing is sent.
        await parts(send, {**found, "n": found["n"] // 2})
    elif way == "whole":
        await send({"type": BODY, "body": content(found["i"], 0, found["n"])})
    elif way == "raise-late":
        await send({"type": BODY, "body": content(found["i"], 0, found["n"] // 2), "more_body": True})
        raise OnPurpose(found["i"])
    elif way == "file":
        await filed(scope, send, found)
    elif way == "lent":
        # The application returns while another task still sends.
        found["sender"] = asyncio.ensure_future(quietly(parts(send, found)))
        await asyncio.sleep(0.005)
    else:
        await parts(send, found)


async def parts(send, found):
    """The body in parts."""
    for piece in pieces(found):
        await send({"type": BODY, "body": piece, "more_body": True})
    await send({"type": BODY})


async def filed(scope, send, found):
    """The body from a file without a name."""
    with os.fdopen(os.memfd_create("content"), "w+b") as file:
        file.write(content(found["i"], 0, found["n"]))
        file.flush()
        await send({"type": "http.response.zerocopysend", "file": file, "offset": 0, "count": found["n"]})
