"""What ASGI applications do, well or badly: one path each."""

import asyncio
import base64
import contextvars
import json
import sys
import tempfile
import time

#: What was noted, by the name that a client gives in `X-Client`: what one leaves behind is never taken for another's.
NOTED = {}
GATES = {}
REQUEST = contextvars.ContextVar("REQUEST", default="none")
TEXT = [(b"content-type", b"text/plain")]


def gate(name):
    return GATES.setdefault(name, asyncio.Event())


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        return await lifespan(scope, receive, send)
    view = globals().get("view_" + scope["path"].strip("/").replace("-", "_"))
    if view is None:
        return await reply(send, b"no such view", 404)
    await view(scope, receive, send)


def notes(scope):
    """The notes of whoever asks: kept until they are taken by /noted."""
    return NOTED.setdefault(dict(scope["headers"]).get(b"x-client", b""), [])


def taken(scope):
    """The same as JSON, and they are no longer kept."""
    body = json.dumps(notes(scope)).encode()
    notes(scope).clear()
    return body


async def lifespan(scope, receive, send):
    assert (await receive())["type"] == "lifespan.startup"
    scope["state"]["opened"] = "at the start"
    await send({"type": "lifespan.startup.complete"})
    assert (await receive())["type"] == "lifespan.shutdown"
    sys.stderr.write("closed at the end\n")
    await send({"type": "lifespan.shutdown.complete"})


async def reply(send, body, status=200, headers=TEXT):
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def body_of(receive):
    parts = []
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            return None
        parts.append(event.get("body", b""))
        if not event.get("more_body", False):
            return b"".join(parts)


async def view_hello(scope, receive, send):
    await reply(send, b"hello")


async def view_scope(scope, receive, send):
    def shown(value):
        if isinstance(value, dict):
            return {key: shown(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return {type(value).__name__: [shown(inner) for inner in value]}
        return f"{type(value).__name__} {value!r}"

    await reply(send, json.dumps({key: shown(value) for key, value in scope.items()}).encode())


async def view_own(scope, receive, send):
    """Changes every container of its scope; the next request must not see it."""
    seen = json.dumps([len(scope[name]) for name in ("headers", "asgi", "extensions", "state")])
    scope["headers"].append((b"x-mine", b"1"))
    for name in ("asgi", "extensions", "state"):
        scope[name]["mine"] = 1
    scope["mine"] = 1
    await reply(send, seen.encode())


async def view_echo(scope, receive, send):
    body = await body_of(receive)
    await reply(send, b"" if body is None else body)


async def view_mirror(scope, receive, send):
    """Sends each part back as it comes."""
    await send({"type": "http.response.start", "status": 200, "headers": TEXT})
    more = True
    while more:
        event = await receive()
        more = event.get("more_body", False)
        await send({"type": "http.response.body", "body": event.get("body", b""), "more_body": more})


async def view_script(scope, receive, send):
    """Sends the events that the query describes and notes what became of each."""
    outcomes = []
    for event in json.loads(base64.b64decode(scope["query_string"])):
        for key in ("body",):
            if isinstance(event.get(key), str):
                event[key] = event[key].encode()
        if isinstance(event.get("headers"), list):
            event["headers"] = [
                tuple(part.encode() if isinstance(part, str) else part for part in pair) for pair in event["headers"]
            ]
        if "links" in event:
            event["links"] = [link.encode() for link in event["links"]]
        try:
            await send(event)
            outcomes.append("ok")
        except Exception as error:
            outcomes.append(f"{type(error).__name__}: {error}")
    notes(scope).append(outcomes)


async def view_noted(scope, receive, send):
    await reply(send, taken(scope))


async def view_raise(scope, receive, send):
    raise RuntimeError("raised on purpose")


async def view_raise_after_start(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": TEXT})
    raise RuntimeError("raised on purpose")


async def view_raise_in_body(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": TEXT})
    await send({"type": "http.response.body", "body": b"part", "more_body": True})
    raise RuntimeError("raised on purpose")


async def view_raise_after_all(scope, receive, send):
    await reply(send, b"whole")
    raise RuntimeError("raised on purpose")


async def view_nothing(scope, receive, send):
    return None


async def view_half(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": TEXT})
    await send({"type": "http.response.body", "body": b"half", "more_body": True})


async def view_exit(scope, receive, send):
    sys.exit("on purpose")


async def view_wait(scope, receive, send):
    """Waits until it is told to go on, or hears that the client has left."""
    name = scope["query_string"].decode()
    notes(scope).append(f"{name} waits")
    opened = asyncio.create_task(gate(name).wait())
    heard = asyncio.create_task(next_disconnect(receive))
    await asyncio.wait({opened, heard}, return_when=asyncio.FIRST_COMPLETED)
    notes(scope).append(f"{name} {'heard the client leave' if heard.done() else 'went on'}")
    opened.cancel()
    heard.cancel()
    await reply(send, b"waited")


async def next_disconnect(receive):
    while (await receive())["type"] != "http.disconnect":
        pass


async def view_open(scope, receive, send):
    gate(scope["query_string"].decode()).set()
    await reply(send, b"opened")


async def view_create_task(scope, receive, send):
    """`receive()` and `send()` as tasks of their own, as some frameworks use them."""
    event = await asyncio.create_task(receive())
    await asyncio.gather(asyncio.ensure_future(send({"type": "http.response.start", "status": 200, "headers": TEXT})))
    await asyncio.wait_for(send({"type": "http.response.body", "body": event["type"].encode()}), 5)


async def view_by_hand(scope, receive, send):
    """What wrappers in Python do with an awaitable: its protocol, step by step, and how each one ends."""
    ends = []
    steps = [
        lambda given: given.send(None),
        lambda given: next(given),
        lambda given: given.__await__().send(None),
        lambda given: given.throw(KeyError("thrown")),
    ]
    for step in steps:
        try:
            ends.append(step(receive()))
        except StopIteration as end:
            ends.append(end.value["type"])
        except KeyError as error:
            ends.append(str(error))
    start = send({"type": "http.response.start", "status": 200, "headers": TEXT})
    for step in steps:
        try:
            ends.append(step(start))
        except StopIteration as end:
            ends.append(end.value)
        except KeyError as error:
            ends.append(str(error))
    await send({"type": "http.response.body", "body": repr(ends).encode()})


async def view_task_name(scope, receive, send):
    name = asyncio.current_task().get_name()
    await reply(send, f"{sys.version_info[1]} {name}".encode())


async def view_timeout(scope, receive, send):
    await receive()
    try:
        await asyncio.wait_for(receive(), 0.05)
        outcome = b"an event"
    except asyncio.TimeoutError:
        outcome = b"no event"
    await reply(send, outcome)


async def view_context(scope, receive, send):
    before = REQUEST.get()
    REQUEST.set(scope["query_string"].decode())
    await asyncio.sleep(0.01)
    task = asyncio.current_task()
    inner = await asyncio.create_task(read_context())
    await reply(send, f"{before} {REQUEST.get()} {inner} {isinstance(task, asyncio.Task)}".encode())


async def read_context():
    return REQUEST.get()


async def view_forever(scope, receive, send):
    """Streams until its client has gone; notes how far it came."""
    await send({"type": "http.response.start", "status": 200, "headers": TEXT})
    sent = 0
    try:
        while True:
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
            sent += 1
            notes(scope)[:] = [f"sent {sent}"]
            await asyncio.sleep(0)
    except OSError as error:
        notes(scope).append(type(error).__name__)
        raise


async def view_large(scope, receive, send):
    await reply(send, b"y" * 10_000_000)


async def view_large_parts(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10000000")]})
    for _ in range(100):
        await send({"type": "http.response.body", "body": memoryview(b"z" * 100_000), "more_body": True})
    await send({"type": "http.response.body"})


async def view_events(scope, receive, send):
    """Server-sent events: the head first, then an event whenever the gate opens."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    await gate("events").wait()
    await send({"type": "http.response.body", "body": b"data: one\n\n", "more_body": True})
    await send({"type": "http.response.body", "body": b"data: two\n\n"})


async def view_background(scope, receive, send):
    await reply(send, b"first the reply")
    await gate("background").wait()
    notes(scope).append("then the work")


async def view_after_end(scope, receive, send):
    await reply(send, b"whole")
    notes(scope).append((await receive())["type"])
    notes(scope).append((await receive())["type"])


async def view_path_send(scope, receive, send):
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"from a file " * 100_000)
        file.flush()
        await send({"type": "http.response.start", "status": 200, "headers": TEXT})
        await send({"type": "http.response.pathsend", "path": file.name})


async def view_no_path(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": TEXT})
    await send({"type": "http.response.pathsend", "path": "/nowhere/at/all"})


async def view_zero_copy(scope, receive, send):
    with tempfile.TemporaryFile() as file:
        file.write(b"0123456789" * 50_000)
        file.flush()
        await send({"type": "http.response.start", "status": 200, "headers": TEXT})
        await send({"type": "http.response.body", "body": b"[", "more_body": True})
        for offset, count in ((0, 10), (250_000, 200_000)):
            part = {"type": "http.response.zerocopysend", "file": file, "offset": offset, "count": count}
            await send({**part, "more_body": True})
        await send({"type": "http.response.body", "body": b"]"})


async def view_trailers(scope, receive, send):
    headers = [*TEXT, (b"trailer", b"x-sum")]
    await send({"type": "http.response.start", "status": 200, "headers": headers, "trailers": True})
    await send({"type": "http.response.body", "body": b"content"})
    await send({"type": "http.response.trailers", "headers": [(b"x-sum", b"7")]})


async def view_hints(scope, receive, send):
    await send({"type": "http.response.early_hint", "links": [b"</a.css>; rel=preload"]})
    await reply(send, b"hinted")


async def view_slow(scope, receive, send):
    notes(scope).append("slow begins")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        sys.stderr.write("cancelled once\n")
        await asyncio.sleep(0.01)
        raise
    await reply(send, b"slow")


async def view_thread(scope, receive, send):
    notes(scope).append("thread begins")
    await asyncio.to_thread(time.sleep, 300)


async def view_stubborn(scope, receive, send):
    notes(scope).append("stubborn begins")
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            sys.stderr.write("cancellation swallowed\n")


async def view_group(scope, receive, send):
    """A task of the request is cancelled from inside; others are not."""
    inner = asyncio.create_task(asyncio.sleep(60))
    await asyncio.sleep(0)
    inner.cancel()
    try:
        await inner
    except asyncio.CancelledError:
        await reply(send, b"only the inner one")


async def view_concurrent(scope, receive, send):
    await asyncio.sleep(0.2)
    await reply(send, b"slept")


def vast():
    """An open file of 16 MB, whose bytes tell their place."""
    file = tempfile.NamedTemporaryFile()
    file.write(b"".join(b"%015d\n" % number for number in range(1_000_000)))
    file.flush()
    return file


async def view_vast_path(scope, receive, send):
    with vast() as file:
        await send({"type": "http.response.start", "status": 200, "headers": TEXT})
        await send({"type": "http.response.pathsend", "path": file.name})


async def view_held(scope, receive, send):
    """Holds the event loop for a second, then answers: a few bytes, or a large file."""
    if scope["query_string"] == b"file":
        with vast() as file:
            time.sleep(1)
            await send({"type": "http.response.start", "status": 200, "headers": TEXT})
            await send({"type": "http.response.pathsend", "path": file.name})
        return
    time.sleep(1)
    await reply(send, b"held")


async def view_vast_copy(scope, receive, send):
    with vast() as file:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"16000000")]})
        for offset in range(0, 16_000_000, 4_000_000):
            part = {"type": "http.response.zerocopysend", "file": file.file, "offset": offset, "count": 4_000_000}
            await send({**part, "more_body": True})
        await send({"type": "http.response.body"})


async def view_vast_parts(scope, receive, send):
    with vast() as file:
        file.seek(0)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"16000000")]})
        while part := file.read(100_000):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body"})


async def view_deaf(scope, receive, send):
    """Goes on when its client has left: passes over what `send` raises and asks for events behind the end."""
    await send({"type": "http.response.start", "status": 200, "headers": TEXT})
    refused = 0
    while refused < 50:
        try:
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
        except OSError:
            refused += 1
        await asyncio.sleep(0)
    heard = {(await receive())["type"] for _ in range(20)}
    notes(scope).append(f"went on, and heard {sorted(heard)}")


async def view_task_group(scope, receive, send):
    """A group of which one task fails: the other is cancelled, the request goes on; then a timeout of its own."""
    outcomes = []

    async def fails():
        await asyncio.sleep(0)
        raise LookupError("on purpose")

    async def lasts():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            outcomes.append("cancelled")
            raise

    async def group():
        if sys.version_info >= (3, 11):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(lasts())
                tasks.create_task(fails())
        else:
            last = asyncio.ensure_future(lasts())
            try:
                await asyncio.gather(last, fails())
            finally:
                last.cancel()
                await asyncio.gather(last, return_exceptions=True)

    try:
        await group()
    except Exception as error:
        outcomes.append("LookupError" if "LookupError" in repr(error) else repr(error))
    try:
        await asyncio.wait_for(asyncio.sleep(60), 0.01)
    except asyncio.TimeoutError:
        outcomes.append("timed out")
    await reply(send, " ".join(outcomes).encode())
