"""In FastAPI."""

from fastapi import FastAPI, Request, Response, WebSocket
from fastapi.responses import StreamingResponse

app = FastAPI()


@app.get("/json")
async def json():
    return {"framework": "fastapi"}


@app.post("/echo")
async def echo(request: Request):
    return Response(await request.body())


@app.get("/stream")
async def stream():
    async def parts():
        for number in range(100):
            yield f"{number}\n".encode() * 100

    return StreamingResponse(parts())


@app.get("/fail")
async def fail():
    raise RuntimeError("raised on purpose")


@app.websocket("/ws")
async def ws(websocket: WebSocket):
    await websocket.accept()
    async for text in websocket.iter_text():
        await websocket.send_text(text)
