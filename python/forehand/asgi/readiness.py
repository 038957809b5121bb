"""The readiness call of an ASGI application: one GET that never leaves the process.

Knows: the application as ASGI sees it. Does not know: sockets. Runs in the event loop, behind
the lifespan's start and before the first connection is accepted.
"""

from __future__ import annotations

import asyncio

from forehand.supervisor import readiness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


async def prove(how: str, application: Callable[..., Any], state: dict[str, Any]) -> None:
    """As `forehand.supervisor.readiness.prove`. Raises Problem."""
    if how == "auto":
        # Modules that are imported late may do what is forbidden on an event loop's thread, as at a first request.
        return await asyncio.to_thread(readiness.prove, how, application)
    if not how.startswith("/"):
        return readiness.prove(how, application)
    try:
        status = await _get(how, application, state)
    except (Exception, SystemExit) as error:
        raise readiness.failed(how, f"raised {type(error).__name__}: {error}", error) from None
    if not 100 <= status < 400:
        raise readiness.failed(how, f"answered {status or 'nothing'}")


def check(how: str, application: Callable[..., Any], lifespan_mode: str) -> None:
    """The same with a loop and a lifespan of its own, where nothing is to be served. Raises Problem."""
    from forehand.asgi.lifespan import Lifespan

    async def live() -> None:
        lifespan = Lifespan(application, lifespan_mode)
        await lifespan.start()
        try:
            await prove(how, application, lifespan.state)
        finally:
            await lifespan.stop(1.0)

    asyncio.run(live())


async def _get(path: str, application: Callable[..., Any], state: dict[str, Any]) -> int:
    answered: list[int] = []
    asked = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if asked.is_set():
            await asyncio.get_running_loop().create_future()  # nobody leaves
        asked.set()
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event: dict[str, Any]) -> None:
        if event["type"] == "http.response.start":
            answered.append(event["status"])

    path, _, query = path.partition("?")
    await application(
        {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1", "method": "GET",
            "scheme": "http", "path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
            "headers": [(b"host", b"localhost"), (b"user-agent", b"forehand-readiness")],
            "client": ("127.0.0.1", 0), "server": ("localhost", 80), "state": dict(state), "extensions": {},
        },
        receive,
        send,
    )  # fmt: skip
    return answered[-1] if answered else 0
