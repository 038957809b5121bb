"""What WebSocket applications do, well or badly: one path each."""

import asyncio
import json
import sys

#: What was noted, by the name that a client gives in `X-Client`: what one leaves behind is never taken for another's.
NOTED = {}
GATE = asyncio.Event()


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        raise RuntimeError("no lifespan here")
    name = scope["path"].strip("/").replace("-", "_")
    if scope["type"] == "http":
        body = taken(scope) if name == "noted" else b"an ordinary reply"
        if name == "open":
            GATE.set()
        await send({"type": "http.response.start", "status": 200})
        return await send({"type": "http.response.body", "body": body})
    assert await receive() == {"type": "websocket.connect"}
    await globals()["socket_" + name](scope, receive, send)


def notes(scope):
    """The notes of whoever asks: kept until they are taken by /noted."""
    return NOTED.setdefault(dict(scope["headers"]).get(b"x-client", b""), [])


def taken(scope):
    """The same as JSON, and they are no longer kept."""
    body = json.dumps(notes(scope)).encode()
    notes(scope).clear()
    return body


async def accept(send, **more):
    await send({"type": "websocket.accept", **more})


async def socket_echo(scope, receive, send):
    await accept(send)
    while (event := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", **{key: event[key] for key in ("bytes", "text") if key in event}})
    notes(scope).append(event)


async def socket_keys(scope, receive, send):
    await accept(send)
    while (event := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": " ".join(sorted(event))})


async def socket_undecided(scope, receive, send):
    """Wants to hear more before it answers the handshake."""
    sys.stderr.write("undecided\n")
    event = await receive()
    sys.stderr.write(f"undecided heard {event}\n")


async def socket_scope(scope, receive, send):
    await accept(send)
    await send({"type": "websocket.send", "text": repr(sorted(scope.items(), key=lambda item: item[0]))})


async def socket_protocols(scope, receive, send):
    await accept(send, subprotocol=scope["subprotocols"][-1], headers=[(b"x-mine", b"1")])
    await send({"type": "websocket.send", "text": json.dumps(scope["subprotocols"])})


async def socket_wrong_protocol(scope, receive, send):
    await accept(send, subprotocol="never-offered")


async def socket_refuse(scope, receive, send):
    await send({"type": "websocket.close"})
    notes(scope).append(await receive())


async def socket_deny(scope, receive, send):
    headers = [(b"x-why", b"tea")]
    await send({"type": "websocket.http.response.start", "status": 418, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": b"a tea", "more_body": True})
    await send({"type": "websocket.http.response.body", "body": b"pot"})
    notes(scope).append(await receive())


async def socket_raise_early(scope, receive, send):
    raise RuntimeError("raised on purpose")


async def socket_return_early(scope, receive, send):
    return None


async def socket_raise(scope, receive, send):
    await accept(send)
    raise RuntimeError("raised on purpose")


async def socket_return(scope, receive, send):
    await accept(send)


async def socket_close(scope, receive, send):
    await accept(send)
    await send({"type": "websocket.close", "code": 4001, "reason": "genug"})
    notes(scope).append(await receive())


async def socket_bad_close(scope, receive, send):
    await accept(send)
    try:
        await send({"type": "websocket.close", "code": 1006})
    except ValueError as error:
        await send({"type": "websocket.send", "text": str(error)})


async def socket_order(scope, receive, send):
    """Events in wrong orders and of wrong types; the client is sent what became of each."""
    wrong = [
        {"type": "websocket.send", "text": "before"},
        {"type": "http.response.start", "status": 200},
        {"type": "websocket.accept", "headers": [("a", "b")]},
        {"type": "websocket.accept", "headers": [(b"sec-websocket-accept", b"mine")]},
    ]
    outcomes = [await outcome(send, event) for event in wrong]
    await accept(send)
    wrong = [
        {"type": "websocket.accept"},
        {"type": "websocket.send"},
        {"type": "websocket.send", "text": "a", "bytes": b"b"},
        {"type": "websocket.send", "text": b"a"},
        {"type": "websocket.send", "bytes": "a"},
        {"type": "websocket.close", "code": 999},
        {"type": "websocket.http.response.start", "status": 200},
    ]
    outcomes += [await outcome(send, event) for event in wrong]
    await send({"type": "websocket.send", "text": json.dumps(outcomes)})
    await send({"type": "websocket.close"})
    notes(scope).append(await outcome(send, {"type": "websocket.send", "text": "after"}))


async def outcome(send, event):
    try:
        await send(event)
        return "ok"
    except Exception as error:
        return type(error).__name__


async def socket_flood(scope, receive, send):
    """Sends until its client has gone; notes how far it came."""
    await accept(send)
    sent = 0
    try:
        while True:
            await send({"type": "websocket.send", "bytes": bytes(65536)})
            sent += 1
            notes(scope)[:] = [f"sent {sent}"]
            await asyncio.sleep(0)
    except OSError as error:
        notes(scope).append(type(error).__name__)
        raise


async def socket_deaf(scope, receive, send):
    """Accepts and does not listen until it is told to by time."""
    await accept(send)
    await asyncio.sleep(float(scope["query_string"] or 0.5))
    count = 0
    while (event := await receive())["type"] == "websocket.receive":
        count += 1
        if event.get("text") == "how many?":
            await send({"type": "websocket.send", "text": str(count)})


async def socket_gated(scope, receive, send):
    """Accepts and does not listen until somebody asks for /open; then says how many bytes each message had."""
    await accept(send)
    notes(scope).append("waits")
    await GATE.wait()
    while (event := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": str(len(event["bytes"]))})
    notes(scope).append(event)


async def socket_origin(scope, receive, send):
    """Judges `Origin` as an application does that other pages must not open sockets to."""
    origins = [value for name, value in scope["headers"] if name == b"origin"]
    if origins != [b"https://shop.example"]:
        return await send({"type": "websocket.close"})
    await accept(send)
    await send({"type": "websocket.send", "bytes": origins[0]})


async def socket_slow(scope, receive, send):
    await accept(send)
    await send({"type": "websocket.send", "text": "here"})
    try:
        event = await receive()
        sys.stderr.write(f"heard {event['type']} {event.get('code')}\n")
        await asyncio.sleep(0.05)
    except asyncio.CancelledError:
        sys.stderr.write("cancelled\n")
        raise


async def socket_early_bird(scope, receive, send):
    """Does not answer the handshake until its client has left."""
    notes(scope).append("waits")
    notes(scope).append([(await receive())["type"], await outcome(send, {"type": "websocket.accept"})])


async def socket_ignores(scope, receive, send):
    """Goes on behind the end: sends, and asks for events again and again."""
    await accept(send)
    while (await receive())["type"] != "websocket.disconnect":
        pass
    outcomes = {await outcome(send, {"type": "websocket.send", "text": "anybody?"}) for _ in range(20)}
    heard = {(await receive())["type"] for _ in range(20)}
    notes(scope).append([sorted(outcomes), sorted(heard)])
