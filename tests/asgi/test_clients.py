"""Clients that people use: websockets and httpx, against the same server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest
from loops import LOOPS
from serving import Serving

websockets = pytest.importorskip("websockets")
httpx = pytest.importorskip("httpx")


@pytest.fixture(scope="module", params=LOOPS)
def sockets(request: pytest.FixtureRequest) -> Iterator[Serving]:
    server = Serving("asgi_sockets:app", "--loop", request.param)
    yield server
    server.kill()


def url(server: Serving, path: str) -> str:
    return f"ws://127.0.0.1:{server.port}{path}"


@pytest.mark.parametrize("compression", ["deflate", None])
def test_messages_of_every_size_come_back(sockets: Serving, compression: str | None) -> None:
    async def talk() -> None:
        async with websockets.connect(url(sockets, "/echo"), compression=compression, max_size=None) as client:
            for size in (0, 1, 125, 126, 65_535, 65_536, 3_000_000):
                for message in ("é" * (size // 2), os.urandom(size), b"z" * size):
                    await client.send(message)
                    assert await client.recv() == message
            await client.send(["frag", "men", "ted"])
            assert await client.recv() == "fragmented"
            await asyncio.wait_for(await client.ping(b"there?"), 10)
        assert client.close_code == 1000

    asyncio.run(talk())


def test_many_at_a_time_get_their_own(sockets: Serving) -> None:
    async def one(number: int) -> None:
        async with websockets.connect(url(sockets, "/echo")) as client:
            for turn in range(20):
                await client.send(f"{number} {turn}")
                assert await client.recv() == f"{number} {turn}"

    async def all_of_them() -> None:
        await asyncio.gather(*(one(number) for number in range(100)))

    asyncio.run(all_of_them())


def test_many_messages_on_their_way_at_once(sockets: Serving) -> None:
    async def talk() -> None:
        async with websockets.connect(url(sockets, "/echo")) as client:

            async def send() -> None:
                for number in range(5000):
                    await client.send(str(number))

            sender = asyncio.create_task(send())
            for number in range(5000):
                assert await client.recv() == str(number)
            await sender

    asyncio.run(talk())


def test_how_it_ends_is_told(sockets: Serving) -> None:
    async def ends() -> None:
        async with websockets.connect(url(sockets, "/close")) as client:
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await client.recv()
            assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4001, "genug")
        with pytest.raises(websockets.InvalidStatus) as refused:
            await websockets.connect(url(sockets, "/refuse"))
        assert refused.value.response.status_code == 403
        with pytest.raises(websockets.InvalidStatus) as denied:
            await websockets.connect(url(sockets, "/deny"))
        assert denied.value.response.status_code == 418

    asyncio.run(ends())


def test_a_subprotocol_is_agreed_on(sockets: Serving) -> None:
    async def talk() -> None:
        async with websockets.connect(url(sockets, "/protocols"), subprotocols=["a", "b"]) as client:
            assert client.subprotocol == "b"

    asyncio.run(talk())


def test_httpx_streams_both_ways(views: Serving) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{views.port}", timeout=20) as client:
        assert client.get("/hello").text == "hello"
        parts = [os.urandom(100_000) for _ in range(30)]
        assert client.post("/mirror", content=iter(parts)).content == b"".join(parts)
        with client.stream("GET", "/large") as reply:
            assert sum(len(part) for part in reply.iter_raw()) == 10_000_000
        assert client.head("/hello").content == b""
        assert client.get("/path-send").content == b"from a file " * 100_000


def test_httpx_many_at_a_time(views: Serving) -> None:
    async def ask() -> None:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{views.port}", timeout=20) as client:
            replies = await asyncio.gather(*(client.get("/concurrent") for _ in range(50)))
            assert [reply.text for reply in replies] == ["slept"] * 50

    asyncio.run(ask())
