"""The application of `beside_uvicorn.py websocket` and idle_websockets.py: each message goes back as it came."""

from typing import Any


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """WebSockets only."""
    if scope["type"] != "websocket":
        raise RuntimeError("only WebSockets here")
    await receive()
    await send({"type": "websocket.accept"})
    while (event := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": event["text"]})
