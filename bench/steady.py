"""A crowd of clients that never try again: what they lose is lost.

    steady.py PORT --requests 20000 --rate 1200 [--seed 1]

Kinds of clients, all at the same time: keep-alive sessions that think for 0 to 2 seconds, new
connections, uploads of 64 KiB, views of two seconds, streams. Each reply is checked: status,
length, content. Lost is a request that was sent, or a connection that was asked for, and did
not get one complete right answer. A server may close a connection on which nothing is asked;
a request on one that the server has announced to close is not sent, nor is one on a connection
of a session that had to wait for room for seconds.

Prints a line of JSON when it begins to be steady (`{"steady": true}`) and one with the result:
counts by kind, what was lost and why, latencies in milliseconds by second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sys
import time
from collections import Counter, defaultdict

try:
    import uvloop
except ImportError:
    uvloop = None  # type: ignore[assignment]

UPLOAD = bytes(range(256)) * 256
#: Shares of the rate; what is left are keep-alive sessions.
SHARES = {"new": 0.25, "upload": 0.08, "slow": 0.01, "stream": 0.01}
#: Nobody waits longer than this for an answer: it counts as lost.
PATIENCE = 30.0
#: So many ask at a time, far fewer than a worker's queue takes (limit_queue). Where the machine is too slow for the
#: rate the crowd waits, which its latencies show, and loses nothing by it.
TOGETHER = 200
#: A session that was away for so many seconds takes a new connection: a worker on its way out keeps the one that it has
#: for twice as long (--drain-keep-alive), and the crowd may not have had a processor meanwhile.
AWAY = 5.0


class Lost(Exception):
    """A request without its one right answer."""


class Crowd:
    """All clients together."""

    def __init__(self, port: int, requests: int, rate: float, seed: int, held: bool = False) -> None:
        self.port = port
        self.left = requests
        #: It asks more than that until it is let go.
        self.held = held
        self.room = asyncio.Semaphore(TOGETHER)
        self.rate = rate
        self.dice = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.told: list[str] = []
        self.latencies: dict[int, list[float]] = defaultdict(list)
        self.begun = time.monotonic()

    async def run(self) -> None:
        """Until so many requests are done or lost."""
        sessions = max(1, int(self.rate * (1 - sum(SHARES.values()))))
        tasks = [asyncio.create_task(self.session(index)) for index in range(sessions)]
        tasks += [asyncio.create_task(self.arrivals(kind, share)) for kind, share in SHARES.items()]
        print(json.dumps({"steady": True}), flush=True)
        await asyncio.gather(*tasks)

    def take(self) -> bool:
        """One of the requests that are left."""
        self.left -= 1
        return self.held or self.left >= 0

    def let_go(self) -> None:
        """Whoever held it has done what it asks beside."""
        self.held = False

    async def arrivals(self, kind: str, share: float) -> None:
        """Requests of a kind, each on a connection of its own, at random times."""
        running: set[asyncio.Task[None]] = set()
        due = time.monotonic()
        while True:
            due += self.dice.expovariate(self.rate * share)
            await asyncio.sleep(max(0, due - time.monotonic()))
            if not self.take():
                break
            await self.room.acquire()
            task = asyncio.create_task(self.alone(kind, due))
            running.add(task)
            task.add_done_callback(running.discard)
        await asyncio.gather(*running)

    async def alone(self, kind: str, due: float) -> None:
        """One request on a new connection, for which there is room."""
        connection = Connection(self.port)
        try:
            await self.ask(connection, kind, due, close=kind != "upload")
        finally:
            connection.close()
            self.room.release()

    async def session(self, index: int) -> None:
        """A client that thinks between its requests, on one connection as long as it lasts."""
        connection = Connection(self.port)
        await asyncio.sleep(self.dice.random() * 2)
        while self.take():
            due = time.monotonic()
            async with self.room:
                if connection.is_over() or time.monotonic() - connection.asked > AWAY:
                    connection.close()
                    connection = Connection(self.port)
                await self.ask(connection, "keepalive", due)
            await asyncio.sleep(self.dice.random() * 2)
        connection.close()

    async def ask(self, connection: Connection, kind: str, due: float, *, close: bool = False) -> None:
        """One request that was due then, counted."""
        try:
            await asyncio.wait_for(connection.ask(kind, close), PATIENCE)
        except (Lost, OSError, EOFError, asyncio.TimeoutError, ValueError) as error:
            self.lost[kind] += 1
            when = time.monotonic() - self.begun
            if len(self.told) < 20:
                self.told.append(f"{kind} at {when:.2f} s: {type(error).__name__} {error} {connection.told()}")
            connection.close()
            return
        self.done[kind] += 1
        if kind in ("keepalive", "new", "upload"):
            now = time.monotonic()
            self.latencies[int(now - self.begun)].append(now - due)

    def result(self) -> dict[str, object]:
        """What came of it."""
        everything = sorted(one for second in self.latencies.values() for one in second)
        return {
            "done": sum(self.done.values()), "lost": sum(self.lost.values()), "by_kind": dict(self.done),
            "lost_by_kind": dict(self.lost), "told": self.told, "seconds": time.monotonic() - self.begun,
            "p50_ms": quantile(everything, 0.5) * 1000, "p99_ms": quantile(everything, 0.99) * 1000,
            "p99_ms_by_second": {
                str(second): quantile(sorted(some), 0.99) * 1000 for second, some in self.latencies.items()
            },
        }  # fmt: skip


def quantile(ordered: list[float], part: float) -> float:
    """The value below which such a part lies; zero where there is none."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0.0


class Connection:
    """One connection, made when it is first used."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.used = 0
        self.closing = False
        self.step = "connecting"
        #: When the last request was sent.
        self.asked = time.monotonic()

    def is_over(self) -> bool:
        """The server has closed it, or has said that it will."""
        return self.closing or (self.reader is not None and self.reader.at_eof())

    def told(self) -> str:
        """Where it was."""
        return f"while {self.step}, request {self.used} of its connection"

    def close(self) -> None:
        """The end."""
        if self.writer is not None:
            self.writer.close()
        self.closing = True

    async def ask(self, kind: str, close: bool) -> None:
        """One request and its whole answer. Raises Lost and others."""
        self.used += 1
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        assert self.reader is not None
        path = {"slow": "/sleep?2", "stream": "/stream", "upload": "/upload"}.get(kind, f"/work?{self.used}")
        head = f"{'POST' if kind == 'upload' else 'GET'} {path} HTTP/1.1\r\nHost: a\r\n"
        if kind == "upload":
            head += f"Content-Length: {len(UPLOAD)}\r\n"
        if close:
            head += "Connection: close\r\n"
        self.step = "sending"
        self.asked = time.monotonic()
        self.writer.write(head.encode() + b"\r\n" + (UPLOAD if kind == "upload" else b""))
        self.step = "waiting for the head"
        status, fields = await self.head()
        self.step = "reading the body"
        body = await self.body(fields)
        self.closing = close or fields.get("connection") == "close"
        if status != 200:
            raise Lost(f"status {status}: {body[:80]!r}")
        wanted = {"slow": b"slept", "stream": b"part\n" * 20, "upload": str(sum(UPLOAD)).encode()}.get(
            kind, f"done {self.used}".encode()
        )
        if body != wanted:
            raise Lost(f"{body[:40]!r} for {wanted[:40]!r}")

    async def head(self) -> tuple[int, dict[str, str]]:
        """Status and header fields."""
        assert self.reader is not None
        raw = await self.reader.readuntil(b"\r\n\r\n")
        lines = raw.decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        return int(lines[0].split()[1]), fields

    async def body(self, fields: dict[str, str]) -> bytes:
        """The content, by its length or in chunks."""
        assert self.reader is not None
        if "content-length" in fields:
            return await self.reader.readexactly(int(fields["content-length"]))
        parts: list[bytes] = []
        while True:
            size = int(await self.reader.readline(), 16)
            part = await self.reader.readexactly(size + 2)
            if size == 0:
                return b"".join(parts)
            parts.append(part[:-2])


def main() -> int:
    """The command; 1 where something was lost."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("port", type=int)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=1200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hold", action="store_true", help="ask more than so many, until SIGUSR1")
    given = parser.parse_args()
    crowd = Crowd(given.port, given.requests, given.rate, given.seed, given.hold)

    async def run() -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, crowd.let_go)
        await crowd.run()

    # The client stands on the server's processors: what it does not take is the server's.
    (uvloop or asyncio).run(run())
    result = crowd.result()
    print(json.dumps(result))
    return 1 if result["lost"] else 0


if __name__ == "__main__":
    sys.exit(main())
