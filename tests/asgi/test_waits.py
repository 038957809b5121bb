"""Where a request's task is said to wait: in itself, or in the task or the thread that it waits for."""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
import time
import types
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from forehand import slow, waits

PATIENCE = 30
#: All wait for these, here or in another thread.
FREE = threading.Event()
FREE_HERE: list[asyncio.Event] = []


def blocks() -> None:
    FREE.wait(PATIENCE)


async def suspends() -> None:
    await FREE_HERE[0].wait()


async def gathers() -> None:
    await asyncio.gather(suspends(), suspends())


async def has_a_group() -> None:
    async with asyncio.TaskGroup() as group:  # type: ignore[attr-defined, unused-ignore]
        group.create_task(suspends())


async def has_a_group_of_anyio() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(suspends)


async def asks_a_thread() -> None:
    await asyncio.to_thread(blocks)


async def asks_a_pool() -> None:
    await asyncio.get_running_loop().run_in_executor(None, blocks)


async def asks_a_thread_of_anyio() -> None:
    await anyio.to_thread.run_sync(blocks)


async def has_a_bound() -> None:
    await asyncio.wait_for(suspends(), PATIENCE)


async def waits_for_several() -> None:
    await asyncio.wait([asyncio.ensure_future(suspends())])


async def waits_for_a_task() -> None:
    await asyncio.ensure_future(suspends())


async def gives_parts() -> Any:
    await FREE_HERE[0].wait()
    yield b"part"


async def takes_parts() -> None:
    async for _ in gives_parts():
        pass


async def waits_for_nobody() -> None:
    await asyncio.get_running_loop().create_future()


def served(middleware: bool, path: str) -> Callable[[], Awaitable[None]]:
    """A call of FastAPI's, as a server makes it."""
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": [],
    }  # fmt: skip

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False} if not FREE.is_set() else {}

    async def send(event: dict[str, object]) -> None:
        pass

    def call() -> Awaitable[None]:
        # Not at the top: it takes a second, in each process that looks for tests.
        from fastapi import FastAPI

        app = FastAPI()
        app.get("/blocks")(blocks)
        app.get("/suspends")(suspends)
        if middleware:

            @app.middleware("http")
            async def passes_on(request: Any, call_next: Any) -> Any:
                return await call_next(request)

        return app(scope, receive, send)

    return call


OWN = [gathers, has_a_group_of_anyio, asks_a_thread, asks_a_pool, asks_a_thread_of_anyio, has_a_bound]
OWN += [waits_for_several, waits_for_a_task, suspends]
if sys.version_info >= (3, 11):
    OWN.append(has_a_group)
CASES: dict[str, tuple[Callable[[], Awaitable[None]], str]] = {
    one.__name__: (one, "blocks" if "asks" in one.__name__ else "suspends") for one in OWN
}
CASES["takes_parts"] = (takes_parts, "takes_parts")
CASES["waits_for_nobody"] = (waits_for_nobody, "waits_for_nobody")
for behind in (False, True):
    for view in ("blocks", "suspends"):
        CASES[f"FastAPI {view}{' behind a middleware' if behind else ''}"] = (served(behind, f"/{view}"), view)


@pytest.mark.parametrize("case", CASES)
def test_the_line_of_the_application_that_waits_is_found(case: str) -> None:
    begin, name = CASES[case]
    lines, first = inspect.getsourcelines(globals()[name])
    waiting = {
        f"{__file__}:{first + at} in {name}"
        for at, line in enumerate(lines)
        if "wait" in line or "async for" in line
    }  # fmt: skip

    async def look() -> str | None:
        FREE_HERE[:] = [asyncio.Event()]
        task = asyncio.ensure_future(begin())
        until = time.monotonic() + PATIENCE
        told = None
        try:
            while time.monotonic() < until:
                await asyncio.sleep(0.01)
                told = waits.of_task(task)
                if told and told.partition(", which waits in ")[0] in waiting:
                    break
        finally:
            FREE.set()
            FREE_HERE[0].set()
            if case == "waits_for_nobody":
                task.cancel()
            await asyncio.wait([task], timeout=PATIENCE)
        return told

    FREE.clear()
    told = asyncio.run(look())
    assert told is not None and told.partition(", which waits in ")[0] in waiting, (told, waiting)


class Lazy:
    """What would ask a database as soon as somebody asks for anything of it, as Django's `request.user` does."""

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError(f"somebody has asked for {name}")


def test_nothing_is_asked_of_what_the_frames_of_libraries_have() -> None:
    names: dict[str, Any] = {"free": FREE_HERE, "lazy": Lazy()}
    source = "async def waits_behind():\n    one, group = lazy, [lazy]\n    await free[0].wait()\n"
    exec(compile(source, f"{slow.LIBRARY}library.py", "exec"), names)

    async def look() -> str | None:
        FREE_HERE[:] = [asyncio.Event()]
        task = asyncio.ensure_future(names["waits_behind"]())
        await asyncio.sleep(0)
        told = waits.of_task(task)
        FREE_HERE[0].set()
        await task
        return told

    assert asyncio.run(look()) is None
    frame = types.SimpleNamespace(
        f_code=types.SimpleNamespace(co_varnames=(), co_argcount=0, co_cellvars=()), f_locals={"user": Lazy()}
    )
    assert slow._request([frame]) == ""  # type: ignore[list-item]


def test_a_task_that_has_not_begun_or_has_ended_waits_nowhere() -> None:
    async def look() -> list[str | None]:
        task = asyncio.ensure_future(asyncio.sleep(0))
        before = waits.of_task(task)
        await task
        return [before, waits.of_task(task)]

    assert asyncio.run(look()) == [None, None]


def test_a_chain_of_tasks_that_does_not_end_is_followed_so_far_and_no_farther() -> None:
    async def waits_for(depth: int) -> None:
        await (asyncio.ensure_future(waits_for(depth - 1)) if depth else FREE_HERE[0].wait())

    async def look(depth: int) -> str | None:
        FREE_HERE[:] = [asyncio.Event()]
        task = asyncio.ensure_future(waits_for(depth))
        for _ in range(depth + 2):
            await asyncio.sleep(0)
        told = waits.of_task(task)
        FREE_HERE[0].set()
        await task
        return told

    for depth in (waits.MOST - 2, waits.MOST - 1, waits.MOST):
        told = asyncio.run(look(depth))
        assert told is not None and " in " in told
        # The innermost waits for an event, in asyncio's code.
        assert ("asyncio/locks.py" in told) == (depth + 1 <= waits.MOST), (depth, told)


def test_of_a_tree_of_tasks_no_more_are_looked_at_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {"free": FREE_HERE, "gather": asyncio.gather}
    source = """
async def tree(depth):
    await (gather(*[tree(depth - 1) for _ in range(4)]) if depth else free[0].wait())
"""
    exec(compile(source, f"{slow.LIBRARY}library.py", "exec"), names)
    looked = []
    chain = waits._chain
    monkeypatch.setattr(waits, "_chain", lambda waiting: looked.append(waiting) or chain(waiting))

    async def look() -> str | None:
        FREE_HERE[:] = [asyncio.Event()]
        task = asyncio.ensure_future(names["tree"](4))
        for _ in range(10):
            await asyncio.sleep(0)
        told = waits.of_task(task)
        FREE_HERE[0].set()
        await task
        return told

    assert asyncio.run(look()) is None, "nothing of it is the application's"
    assert len(looked) == waits.MOST
