"""Frameworks that people use, and the ASGI examples, by real clients."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from serving import Serving

httpx = pytest.importorskip("httpx")
websockets = pytest.importorskip("websockets")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FRAMEWORKS = {
    "starlette": "starlette",
    "fastapi": "fastapi",
    "quart": "quart",
    "litestar": "litestar",
    "django": "channels",
}


@pytest.fixture(scope="module", params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> Iterator[Serving]:
    if not importlib.util.find_spec(FRAMEWORKS[request.param]):
        pytest.skip(f"{FRAMEWORKS[request.param]} is not installed")
    server = Serving(f"frameworks.in_{request.param}:app")
    server.name = request.param
    yield server
    server.kill()


def client(server: Serving) -> object:
    return httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=20)


def test_json_bodies_and_streams(framework: Serving) -> None:
    with client(framework) as http:
        assert http.get("/json").json() == {"framework": framework.name}
        body = os.urandom(300_000)
        assert http.post("/echo", content=body).content == body
        assert http.post("/echo", content=iter([body, body])).content == body + body
        assert http.get("/stream").text == "".join(f"{number}\n" * 100 for number in range(100))
        assert http.get("/nowhere").status_code == 404
        assert http.head("/nowhere").content == b""


def test_a_failing_view_is_a_500(framework: Serving) -> None:
    with client(framework) as http:
        assert http.get("/fail").status_code == 500
        assert http.get("/json").status_code == 200
    if framework.name in ("starlette", "fastapi", "quart"):  # others tell nobody by default
        framework.says("raised on purpose")


def test_a_websocket(framework: Serving) -> None:
    async def talk() -> None:
        async with websockets.connect(f"ws://127.0.0.1:{framework.port}/ws") as socket:
            for text in ("one", "é" * 50_000):
                await socket.send(text)
                assert await socket.recv() == text

    asyncio.run(talk())


def test_it_stops_with_a_socket_and_a_stream_open(framework: Serving) -> None:
    async def talk() -> int:
        async with websockets.connect(f"ws://127.0.0.1:{framework.port}/ws") as socket:
            await socket.send("open")
            await socket.recv()
            framework.process.terminate()
            await socket.wait_closed()
            return socket.close_code

    assert asyncio.run(talk()) == 1001
    assert framework.process.wait(20) == 0


def test_the_chat(serve: Callable[..., Serving]) -> None:
    server = serve("chat:app", cwd=EXAMPLES / "asgi_chat")

    async def talk() -> None:
        url = f"ws://127.0.0.1:{server.port}/chat?name="
        async with websockets.connect(url + "Ada") as ada, websockets.connect(url + "Bob") as bob:
            assert await ada.recv() == "Ada comes in"
            assert await bob.recv() == await ada.recv() == "Bob comes in"
            await bob.send("hello")
            assert await ada.recv() == await bob.recv() == "Bob: hello"
            await bob.close()
            assert await ada.recv() == "Bob leaves"

    with client(server) as http:
        assert "new WebSocket" in http.get("/").text
        asyncio.run(talk())
        assert "Bob: hello" in http.get("/said").json()["said"]
        with http.stream("GET", "/clock") as events:
            lines = events.iter_lines()
            assert next(lines).startswith("data: ")
    assert server.stop() == 0


def test_items(serve: Callable[..., Serving]) -> None:
    server = serve("app", "--static", "/=page;try;index=index.html", cwd=EXAMPLES / "fastapi_items")
    with client(server) as http:
        # The application knows nothing of these: what answers is not it.
        page = http.get("/")
        assert "<title>Items</title>" in page.text
        for name, kind in (("items.css", "text/css"), ("items.js", "text/javascript")):
            assert name in page.text
            assert http.get(f"/{name}").headers["Content-Type"] == f"{kind}; charset=utf-8"
        assert http.get("/none.js").json() == {"detail": "Not Found"}, "and this it answers"
        assert http.post("/items", json={"name": "ball", "price": 2.5}).json() == {"number": 1}
        assert http.get("/items/1").json() == {"name": "ball", "price": 2.5}
        assert http.post("/items", json={"name": "", "price": -1}).status_code == 422
        assert http.get("/items/7").status_code == 404
        # It is noted behind the reply, by a thread.
        assert server.until(lambda: http.get("/noted").json()) == ["ball was added"]
        assert http.get("/slow").json() == {"slept": 0.1}
        body = os.urandom(5_000_000)
        assert http.put("/upload", content=body).json() == {
            "size": len(body), "sha256": hashlib.sha256(body).hexdigest(),
        }  # fmt: skip
        assert http.get("/docs").status_code == 200

    async def talk() -> None:
        async with websockets.connect(f"ws://127.0.0.1:{server.port}/echo") as socket:
            await socket.send('"hello"')
            assert await socket.recv() == '{"you said":"hello"}'

    asyncio.run(talk())


def test_the_shop(serve: Callable[..., Serving], tmp_path: Path) -> None:
    pytest.importorskip("django")
    env = {**os.environ, "SHOP_DATA": str(tmp_path)}
    for command in (("migrate", "--verbosity=0"), ("collectstatic", "--noinput", "--verbosity=0")):
        line = [sys.executable, "manage.py", *command]
        subprocess.run(line, cwd=EXAMPLES / "django_shop", env=env, timeout=120, check=True)
    mount = f"/static={tmp_path}/collected"
    server = serve("shop.asgi", "--static", mount, cwd=EXAMPLES / "django_shop", env={"SHOP_DATA": str(tmp_path)})
    server.says("(ASGI, ")
    with client(server) as http:
        assert http.get("/").status_code == 200
        assert "csrfmiddlewaretoken" in http.get("/admin/login/").text
        assert http.post("/admin/login/", data={"username": "x"}).status_code == 403
