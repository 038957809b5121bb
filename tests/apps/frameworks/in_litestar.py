"""In Litestar."""

from litestar import Litestar, Request, WebSocket, get, post, websocket
from litestar.response import Stream


@get("/json")
async def json() -> dict[str, str]:
    return {"framework": "litestar"}


@post("/echo", status_code=200, media_type="application/octet-stream")
async def echo(request: Request) -> bytes:
    return await request.body()


@get("/stream")
async def stream() -> Stream:
    async def parts():
        for number in range(100):
            yield f"{number}\n".encode() * 100

    return Stream(parts())


@get("/fail")
async def fail() -> None:
    raise RuntimeError("raised on purpose")


@websocket("/ws")
async def ws(socket: WebSocket) -> None:
    await socket.accept()
    async for message in socket.iter_data("text"):
        await socket.send_text(message)


app = Litestar([json, echo, stream, fail, ws])
