"""In Quart."""

from quart import Quart, request, websocket

app = Quart(__name__)


@app.get("/json")
async def json():
    return {"framework": "quart"}


@app.post("/echo")
async def echo():
    return await request.get_data()


@app.get("/stream")
async def stream():
    async def parts():
        for number in range(100):
            yield f"{number}\n".encode() * 100

    return parts(), 200, {"content-type": "text/plain"}


@app.get("/fail")
async def fail():
    raise RuntimeError("raised on purpose")


@app.websocket("/ws")
async def ws():
    while True:
        await websocket.send(await websocket.receive())
