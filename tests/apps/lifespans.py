"""ASGI applications that take part in the lifespan protocol, each in a way of its own."""

import asyncio
import sys
import traceback

SEEN = []


def made(*, start=None, stop=None):
    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            SEEN.append("lifespan")
            event = await receive()
            assert event == {"type": "lifespan.startup"}, event
            await (start or complete("startup"))(scope, send)
            event = await receive()
            assert event == {"type": "lifespan.shutdown"}, event
            await (stop or complete("shutdown"))(scope, send)
            return
        body = f"{SEEN} {scope['state']}".encode()
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": body})

    return app


def complete(what):
    async def step(scope, send):
        scope["state"]["number"] = 7
        sys.stderr.write(f"{what} is complete\n")
        await send({"type": f"lifespan.{what}.complete"})

    return step


def failed(what):
    async def step(scope, send):
        await send({"type": f"lifespan.{what}.failed", "message": "the database is away"})

    return step


async def raising(scope, send):
    raise LookupError("raised on purpose")


async def exiting(scope, send):
    sys.exit("DATABASE_URL is missing")


def told_and_raised(what, step):
    """As Starlette does it: the message is the traceback, and the exception goes on."""

    async def both(scope, send):
        try:
            await step(scope, send)
        except BaseException:
            await send({"type": f"lifespan.{what}.failed", "message": traceback.format_exc()})
            raise

    return both


async def returning(scope, send):
    await send({"type": "lifespan.nonsense"})


async def hanging(scope, send):
    try:
        await asyncio.sleep(600)
    finally:
        sys.stderr.write("the hanging stop was cancelled\n")


class Refusing:
    """Knows nothing but HTTP, and says so by raising."""

    async def __call__(self, scope, receive, send):
        assert scope["type"] == "http", "only HTTP here"
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": str(scope["state"]).encode()})


async def silent(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    await Refusing()(scope, receive, send)


complete_app = made()
start_fails = made(start=failed("startup"))
start_raises = made(start=raising)
start_nonsense = made(start=returning)
stop_fails = made(stop=failed("shutdown"))
stop_raises = made(stop=raising)
start_exits = made(start=exiting)
start_exits_as_starlette = made(start=told_and_raised("startup", exiting))
start_raises_as_starlette = made(start=told_and_raised("startup", raising))
stop_exits = made(stop=exiting)
stop_exits_as_starlette = made(stop=told_and_raised("shutdown", exiting))
stop_raises_as_starlette = made(stop=told_and_raised("shutdown", raising))
stop_hangs = made(stop=hanging)
refusing = Refusing()
