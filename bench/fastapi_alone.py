"""How much of a FastAPI request is FastAPI's and Starlette's own Python: their application, called without a server.

    fastapi_alone.py            CPU microseconds a call, the least of many blocks; and of a bare ASGI application
    fastapi_alone.py turns      the same between turns of the kernel: a loop that reads so many requests of 64 clients,
                                calls the application for each, and sends the replies: no task, nothing parsed (wrk)

`receive` and `send` are coroutines that never wait. What is left of a server's microseconds a request
(`beside_uvicorn.py fastapi`) is the server's, the event loop's and the kernel's. `turns` says what a server would take
that does nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import MutableMapping
from typing import Any

from fastapi_view import app

BLOCKS, CALLS = 200, 200
#: Requests of a turn at the most, clients, and seconds.
TURNS, CLIENTS, SECONDS = (1, 4, 16, 64), 64, 2
SCOPE = {
    "type": "http", "asgi": {"version": "3.0", "spec_version": "2.5"}, "http_version": "1.1", "method": "GET",
    "scheme": "http", "path": "/", "raw_path": b"/", "query_string": b"", "root_path": "",
    "headers": [(b"host", b"127.0.0.1:8000")], "server": ("127.0.0.1", 8000), "client": ("127.0.0.1", 50000),
}  # fmt: skip


async def receive() -> dict[str, Any]:
    """An empty body."""
    return {"type": "http.request", "body": b"", "more_body": False}


async def send(event: dict[str, Any]) -> None:
    """Nobody listens."""


async def bare(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """The same reply by hand."""
    body = b'{"message":"Hello, World!"}'
    headers = [(b"content-length", b"27"), (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def least(application: Any) -> float:
    """CPU microseconds of a call, in a loop that is running."""
    found = []
    for _ in range(BLOCKS):
        begun = time.thread_time()
        for _ in range(CALLS):
            await application(dict(SCOPE), receive, send)
        found.append((time.thread_time() - begun) / CALLS * 1e6)
    return min(found)


async def both() -> dict[str, float]:
    """FastAPI's view, and the bare one."""
    return {"fastapi_us": await least(app), "bare_us": await least(bare)}


class Turns:
    """A server that only calls: of so many requests at a time."""

    def __init__(self, most: int) -> None:
        self.most, self.calls, self.turns, self.inside = most, 0, 0, 0.0
        self.bodies: list[bytes] = []
        self.poll = select.epoll()
        self.socks: dict[int, socket.socket] = {}

    async def send(self, event: MutableMapping[str, Any]) -> None:
        """Keeps the body."""
        if event["type"] == "http.response.body":
            self.bodies.append(event["body"])

    def take(self, listener: socket.socket) -> None:
        """The clients; before them wrk asks with a connection of its own whether anybody is there."""
        listener.accept()[0].close()
        for _ in range(CLIENTS):
            sock = listener.accept()[0]
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socks[sock.fileno()] = sock
            self.poll.register(sock, select.EPOLLIN)

    async def serve(self, until: float) -> None:
        """Turn by turn."""
        ready: list[int] = []
        while time.monotonic() < until:
            if len(ready) < self.most:
                ready += [fd for fd, _ in self.poll.poll(0 if ready else 1) if fd not in ready]
            batch, ready = ready[: self.most], ready[self.most :]
            for fd in batch:
                self.socks[fd].recv(65536)
            begun = time.thread_time()
            for _ in batch:
                await app(dict(SCOPE), receive, self.send)
            self.inside += time.thread_time() - begun
            for fd, body in zip(batch, self.bodies, strict=True):
                self.socks[fd].sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            self.bodies.clear()
            self.calls += len(batch)
            self.turns += 1


def in_turns(most: int) -> dict[str, float]:
    """CPU microseconds of a request between turns of the kernel, and of all of it; the client is on processor 1."""
    turns = Turns(most)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        command = ["taskset", "-c", "1", "wrk", "-t1", f"-c{CLIENTS}", f"-d{SECONDS + 1}", url]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as load:
            turns.take(listener)
            begun = time.process_time()
            asyncio.run(turns.serve(time.monotonic() + SECONDS))
            took = time.process_time() - begun
            load.terminate()
    for sock in turns.socks.values():
        sock.close()
    each = 1e6 / turns.calls
    return {
        "at_most": most,
        "in_a_turn": turns.calls / turns.turns,
        "fastapi_us": turns.inside * each,
        "all_us": took * each,
    }


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("alone", "turns"), default="alone")
    if parser.parse_args().what == "turns":
        os.sched_setaffinity(0, {0})
        print(json.dumps([in_turns(most) for most in TURNS], indent=2))
    else:
        print(json.dumps(asyncio.run(both()), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
