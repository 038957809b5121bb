"""A small JSON API with FastAPI: items with checks, an upload that is never in memory as a whole, work behind a reply.

forehand app --static '/=page;try;index=index.html'

serves the page for it, too: the files in the folder `page`, and everything else from here.
"""

import contextlib
import hashlib
from typing import Annotated

from fastapi import BackgroundTasks, Depends, FastAPI, HTTPException, Request, WebSocket, WebSocketDisconnect
from pydantic import BaseModel, Field


class Item(BaseModel):
    name: str = Field(min_length=1, max_length=80)
    price: float = Field(gt=0)


class Store:
    def __init__(self) -> None:
        self.items: dict[int, Item] = {}
        self.noted: list[str] = []


@contextlib.asynccontextmanager
async def lifespan(app: FastAPI):
    yield {"store": Store()}


app = FastAPI(title="Items", lifespan=lifespan)


def store(request: Request) -> Store:
    return request.state.store


TheStore = Annotated[Store, Depends(store)]


@app.get("/items")
async def items(store: TheStore) -> dict[int, Item]:
    return store.items


@app.post("/items", status_code=201)
async def add(item: Item, store: TheStore, background: BackgroundTasks) -> dict[str, int]:
    number = len(store.items) + 1
    store.items[number] = item
    background.add_task(store.noted.append, f"{item.name} was added")
    return {"number": number}


@app.get("/items/{number}")
async def one(number: int, store: TheStore) -> Item:
    if number not in store.items:
        raise HTTPException(404, "there is no such item")
    return store.items[number]


@app.get("/slow")
def in_a_thread(seconds: float = 0.1) -> dict[str, float]:
    """FastAPI runs what is not async in a thread, so that it may block."""
    import time

    time.sleep(min(seconds, 5))
    return {"slept": seconds}


@app.get("/noted")
async def noted(store: TheStore) -> list[str]:
    return store.noted


@app.put("/upload")
async def upload(request: Request) -> dict[str, str | int]:
    digest, size = hashlib.sha256(), 0
    async for part in request.stream():
        digest.update(part)
        size += len(part)
    return {"size": size, "sha256": digest.hexdigest()}


@app.websocket("/echo")
async def echo(websocket: WebSocket) -> None:
    await websocket.accept()
    with contextlib.suppress(WebSocketDisconnect):
        while True:
            await websocket.send_json({"you said": await websocket.receive_json()})
