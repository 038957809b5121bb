"""In Starlette, with a middleware that wraps `receive` and `send`."""

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute


async def json(request):
    return JSONResponse({"framework": "starlette"})


async def echo(request):
    return Response(await request.body())


async def stream(request):
    async def parts():
        for number in range(100):
            yield f"{number}\n".encode() * 100

    return StreamingResponse(parts())


async def fail(request):
    raise RuntimeError("raised on purpose")


async def ws(websocket):
    await websocket.accept()
    async for text in websocket.iter_text():
        await websocket.send_text(text)


async def note(request, call_next):
    return await call_next(request)


app = Starlette(
    routes=[
        Route("/json", json), Route("/echo", echo, methods=["POST"]), Route("/stream", stream), Route("/fail", fail),
        WebSocketRoute("/ws", ws),
    ],
    middleware=[Middleware(GZipMiddleware), Middleware(BaseHTTPMiddleware, dispatch=note)],
)  # fmt: skip
