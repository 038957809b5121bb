"""`--limit-concurrency`: so many requests run in a worker's event loop, and the next is refused at once."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import Serving, read_reply

LIMIT = 3
Start = Callable[..., Serving]


def ask(server: Serving, target: str) -> socket.socket:
    """A request under way."""
    sock = server.connect()
    sock.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    return sock


def answer(sock: socket.socket) -> tuple[int, dict[str, str]]:
    status, fields, _ = read_reply(sock, bytearray())
    return status, fields


def hold(server: Serving, number: int) -> socket.socket:
    """A request that has begun, and runs until its client leaves."""
    sock = ask(server, "/wait")
    server.until(lambda: server.log().count("a request waits here") > number)
    return sock


@pytest.fixture
def waiting(serve: Start, loop: str, tmp_path: Path) -> Serving:
    (tmp_path / "waits.py").write_text(
        "import sys\n"
        "async def app(scope, receive, send):\n"
        "    if scope['type'] == 'websocket':\n"
        "        await send({'type': 'websocket.accept'})\n"
        "    if scope['type'] == 'websocket' or scope['path'] == '/wait':\n"
        "        print('a request waits here', file=sys.stderr, flush=True)\n"
        "        while (await receive())['type'] not in ('http.disconnect', 'websocket.disconnect'): pass\n"
        "        return\n"
        "    await send({'type': 'http.response.start', 'status': 200, 'headers': [(b'content-length', b'2')]})\n"
        "    await send({'type': 'http.response.body', 'body': b'ok'})\n"
    )
    options = ("--limit-concurrency", str(LIMIT), "--log-level", "debug", "--access-log", "common", "--lifespan", "off")
    return serve("waits:app", "--loop", loop, *options, cwd=tmp_path)


def test_one_more_than_may_run_is_refused_at_once_and_one_that_ends_makes_room(waiting: Serving) -> None:
    held = [hold(waiting, number) for number in range(LIMIT - 1)]
    with ask(waiting, "/") as last:
        assert answer(last)[0] == 200, "there is room for one"
    waiting.counts("requests_over_concurrency", 0)
    held.append(hold(waiting, LIMIT - 1))
    with ask(waiting, "/") as refused:
        status, fields = answer(refused)
        assert (status, fields["retry-after"]) == (503, "1")
    waiting.counts("requests_over_concurrency", 1)
    waiting.until(lambda: '"GET / HTTP/1.1" 503' in waiting.log())
    waiting.until(lambda: f"{LIMIT} are running (--limit-concurrency)" in waiting.log())
    held.pop().close()

    def served() -> bool:
        with ask(waiting, "/") as again:
            return answer(again)[0] == 200

    waiting.until(served)
    for sock in held:
        sock.close()
    assert waiting.stop() == 0


def test_a_websocket_is_one_of_those_that_run(waiting: Serving) -> None:
    held = [hold(waiting, number) for number in range(LIMIT - 1)]
    shake = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    with waiting.connect() as sock:
        sock.sendall(f"GET /ws HTTP/1.1\r\nHost: a\r\n{shake}{key}\r\n".encode())
        assert answer(sock)[0] == 101
        with ask(waiting, "/") as refused:
            assert answer(refused)[0] == 503
    for one in held:
        one.close()


def test_a_wsgi_application_is_told_that_it_has_other_bounds(serve: Start) -> None:
    server = serve("echo:application", "--limit-concurrency", "5")
    server.until(lambda: "limit_concurrency is for ASGI applications" in server.log())
