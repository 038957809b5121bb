"""Requests that come together while the event loop is held, and what each may do with its task."""

import asyncio
import contextvars
import json
import os
import socket
import sys
import weakref

import forehand

PATH = contextvars.ContextVar("PATH", default="none")
#: Tasks that were kept, and what was noted of their ends.
KEPT = []
KNOWN = weakref.WeakKeyDictionary()
ENDS = []
#: Paths of requests that have begun.
BEGUN = []
HEADERS = [(b"content-type", b"application/json")]


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    path, task = scope["path"], asyncio.current_task()
    BEGUN.append(path)
    told = {
        "path": path,
        "before": PATH.get(),
        "name": task.get_name(),
        "tasks": len(asyncio.all_tasks()),
        "is kept": task in KEPT,
        "is known": task in KNOWN,
        "has an attribute": hasattr(task, "path"),
        "eager": sys.version_info >= (3, 12),
        "is cancelled": bool(getattr(task, "cancelling", int)()),
    }
    PATH.set(path)
    view = VIEWS.get(path)
    if view is not None:
        await view(scope, task)
    if scope["query_string"] == b"ask":
        told["asked"] = [forehand.request().id, await asyncio.create_task(ask())]
    told |= {"after": PATH.get(), "same": asyncio.current_task() is task, "name after": task.get_name()}
    told["ends"], told["begun"] = list(ENDS), list(BEGUN)
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": json.dumps(told).encode()})


async def ask():
    return forehand.request().id


async def hold(scope, task):
    """Holds the event loop until whoever asks lets go of it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gate:
        gate.settimeout(60)
        gate.sendto(b"held", ("127.0.0.1", int(scope["query_string"])))
        gate.recv(2)


async def keep(scope, task):
    KEPT.append(task)


async def know(scope, task):
    KNOWN[task] = scope["path"]


async def be_told(scope, task):
    task.add_done_callback(lambda ended: ENDS.append(f"{ended.get_name()} {ended.cancelled()}"))


async def attribute(scope, task):
    task.path = scope["path"]


async def cancel(scope, task):
    task.add_done_callback(lambda ended: ENDS.append(f"{ended.get_name()} {ended.cancelled()}"))
    task.cancel()


async def only_cancel(scope, task):
    task.cancel()


async def rename(scope, task):
    task.set_name(f"of {scope['path']}")


async def fail(scope, task):
    raise LookupError(scope["path"])


async def give_up(scope, task):
    raise asyncio.CancelledError


async def wait(scope, task):
    await asyncio.sleep(0.01)


async def child(scope, task):
    async def ends():
        await asyncio.sleep(0)
        ENDS.append(PATH.get())

    KEPT.append(asyncio.create_task(ends()))


async def fork(scope, task):
    """The child goes on with what its parent would, up to the end of this request and no further."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    else:
        # What the child would answer is for nobody.
        raise LookupError(scope["path"])


async def cancel_all(scope, task):
    """Holds the loop as well; the tasks that are made for requests next are cancelled before they begin."""
    loop, before = asyncio.get_running_loop(), asyncio.all_tasks()

    def look():
        young = asyncio.all_tasks() - before
        for one in young:
            one.cancel()
        if not young:
            loop.call_soon(look)

    await hold(scope, task)
    loop.call_soon(look)


VIEWS = {
    "/hold": hold, "/keep": keep, "/know": know, "/be-told": be_told, "/attribute": attribute, "/cancel": cancel,
    "/only-cancel": only_cancel, "/rename": rename, "/fail": fail, "/give-up": give_up, "/wait": wait,
    "/child": child, "/fork": fork, "/cancel-all": cancel_all,
}  # fmt: skip
