"""A chat with Starlette: one page in the browser, a WebSocket for what is said, and server-sent events for the time.

forehand chat:app
"""

import asyncio
import contextlib
import datetime
from pathlib import Path

from starlette.applications import Starlette
from starlette.responses import FileResponse, JSONResponse, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocketDisconnect

PAGE = Path(__file__).with_name("chat.html")
LONGEST = 500


class Room:
    """Who is there, and what was said last."""

    def __init__(self) -> None:
        self.people = set()
        self.said = []

    async def tell(self, text: str) -> None:
        self.said = [*self.said[-49:], text]
        for person in list(self.people):
            # Somebody who has just left is taken out by their own connection.
            with contextlib.suppress(OSError, RuntimeError, WebSocketDisconnect):
                await person.send_text(text)


@contextlib.asynccontextmanager
async def lifespan(app):
    yield {"room": Room()}


async def page(request):
    return FileResponse(PAGE)


async def said(request):
    return JSONResponse({"said": request.state.room.said, "people": len(request.state.room.people)})


async def clock(request):
    """An event each second, for as long as somebody listens."""

    async def ticks():
        while True:
            yield f"data: {datetime.datetime.now(datetime.timezone.utc):%H:%M:%S}\n\n"
            await asyncio.sleep(1)

    return StreamingResponse(ticks(), media_type="text/event-stream", headers={"cache-control": "no-store"})


async def chat(websocket):
    room = websocket.state.room
    name = websocket.query_params.get("name", "somebody")[:30]
    await websocket.accept()
    room.people.add(websocket)
    try:
        await room.tell(f"{name} comes in")
        async for text in websocket.iter_text():
            await room.tell(f"{name}: {text[:LONGEST]}")
    finally:
        room.people.discard(websocket)
        await room.tell(f"{name} leaves")


app = Starlette(
    routes=[Route("/", page), Route("/said", said), Route("/clock", clock), WebSocketRoute("/chat", chat)],
    lifespan=lifespan,
)
