"""ASGI applications of two tasks for each request, one of which learns what the other waits for."""

import asyncio
import gc
import json
import os

NOTED = []
GATES = {}
START = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]}
PART = {"type": "http.response.body", "body": b"x" * 100_000, "more_body": True}


def gate(name):
    return GATES.setdefault(name, asyncio.Event())


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    await globals()["view_" + scope["path"].strip("/").replace("-", "_")](scope, receive, send)


async def reply(send, body):
    await send(START)
    await send({"type": "http.response.body", "body": body})


async def view_noted(scope, receive, send):
    await reply(send, json.dumps(NOTED).encode())


async def view_open(scope, receive, send):
    gate(scope["query_string"]).set()
    await reply(send, b"")


async def for_ever(send, event):
    """Sends until there is nobody; notes what it was told."""
    try:
        while True:
            await send(event)
    except BaseException as error:
        NOTED.append(type(error).__name__)


async def heard(receive, end):
    """Receives up to a kind of event, when it may."""
    await gate(b"receive").wait()
    while (await receive())["type"] != end:
        pass
    NOTED.append(end)


async def view_both(scope, receive, send):
    """One task sends for ever, the other one receives."""
    await send(START)
    await asyncio.gather(for_ever(send, PART), heard(receive, "http.disconnect"))


async def view_socket(scope, receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    message = {"type": "websocket.send", "bytes": os.urandom(100_000)}
    await asyncio.gather(for_ever(send, message), heard(receive, "websocket.disconnect"))


async def view_fails(scope, receive, send):
    """Leaves two tasks behind, and fails."""

    async def sends_late():
        await gate(b"send").wait()
        await for_ever(send, PART)

    await receive()
    gate(b"receive").set()
    GATES["tasks"] = [asyncio.create_task(sends_late()), asyncio.create_task(heard(receive, "http.disconnect"))]
    await asyncio.sleep(0.01)
    raise ValueError("on purpose")


async def view_denies(scope, receive, send):
    """A handshake that is never answered, or in part; another task goes on listening."""
    await receive()
    gate(b"receive").set()
    GATES["task"] = asyncio.create_task(heard(receive, "websocket.disconnect"))
    await asyncio.sleep(0.01)
    if scope["query_string"]:
        await send({"type": "websocket.http.response.start", "status": 403, "headers": []})


async def view_closes(scope, receive, send):
    """Has its own coroutine closed while it waits."""
    asyncio.get_running_loop().call_soon(asyncio.current_task().get_coro().close)
    await asyncio.sleep(0.01)


async def view_polls(scope, receive, send):
    """Asks again and again whether there is news; how many futures more there are then."""
    await receive()
    before = futures()
    for _ in range(200):
        try:
            await asyncio.wait_for(receive(), 0.0001)
        except asyncio.TimeoutError:
            pass
    await reply(send, str(futures() - before).encode())


def futures():
    gc.collect()
    return sum(isinstance(one, asyncio.Future) for one in gc.get_objects())
