"""What supervision promises, measured: each verb is a line of docs/performance.md.

    supervision.py crash     a worker is killed each second for a minute, at half load
    supervision.py stuck     endless loops and deadlocks beside others: 504 in time, others unharmed
    supervision.py overload  five times what the server can do, for half a minute
    supervision.py scale     two workers against one, on a view that burns
    supervision.py beside    a fast view beside one that burns 200 ms, with granian and gunicorn
    supervision.py memory    ten preloaded Django workers against gunicorn's without preloading

Peers are installed once into a folder of their own (`--peers DIR`). Prints JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from reload import HERE
from serving import Serving
from steady import Connection, Lost, quantile

ROOT = HERE.parent
PEERS = ("gunicorn==27.0.1", "granian==2.8.7", "django>=5,<6")


def crowd(port: int, requests: int, rate: float) -> subprocess.Popen[str]:
    """The crowd of `steady.py`, steady."""
    command = [sys.executable, str(HERE / "steady.py"), str(port), "--requests", str(requests), "--rate", str(rate)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def result_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What the crowd has found."""
    found: dict[str, Any] = json.loads(process.communicate()[0])
    return found


def crash(seconds: int) -> dict[str, Any]:
    """SIGKILL of a worker each second: how many are replaced, how fast, and what is lost."""
    server = Serving("crowd_app", "--workers", "4", cwd=HERE)
    try:
        load = crowd(server.port, seconds * 500, 500)
        delays: list[float] = []
        for number in range(seconds):
            begun = time.monotonic()
            ready = [worker["pid"] for worker in server.status()["workers"] if worker["state"] == "ready"]
            os.kill(ready[number % len(ready)], signal.SIGKILL)
            server.until(partial(replaced, server, set(ready)))
            delays.append(time.monotonic() - begun)
            time.sleep(max(0.0, begun + 1 - time.monotonic()))
        found = result_of(load)
        return {
            "killed": seconds, "replaced": len(delays), "replaced_ms_median": statistics.median(delays) * 1000,
            "replaced_ms_worst": max(delays) * 1000, "done": found["done"], "lost": found["lost"],
            "lost_by_kind": found["lost_by_kind"], "told": found["told"][:5],
        }  # fmt: skip
    finally:
        server.kill()


def replaced(server: Serving, before: set[int]) -> bool:
    """Four are ready, and one of them is new."""
    ready = {worker["pid"] for worker in server.status()["workers"] if worker["state"] == "ready"}
    return len(ready) == 4 and bool(ready - before)


def stuck(seconds: int) -> dict[str, Any]:
    """Requests that never end, with a deadline of a second, beside steady ones."""
    options = ("--workers", "2", "--request-timeout", "1s", "--request-timeouts", "/sleep=0,/stream=0")
    server = Serving("crowd_app:stuck", *options, cwd=HERE)
    try:
        load = crowd(server.port, seconds * 600, 600)
        answers: list[tuple[int, float]] = []
        time.sleep(seconds / 2)
        half = time.monotonic()
        while load.poll() is None and time.monotonic() - half < seconds / 2 - 2:
            for path in ("/spin", "/deadlock"):
                begun = time.monotonic()
                with server.connect() as sock:
                    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
                    status = int(sock.recv(65536).split()[1])
                answers.append((status, time.monotonic() - begun))
        found = result_of(load)
        by_second = {int(second): p99 for second, p99 in found["p99_ms_by_second"].items()}
        steady = [p99 for second, p99 in by_second.items() if 2 <= second < seconds / 2]
        beside = [p99 for second, p99 in by_second.items() if seconds / 2 <= second < seconds - 2]
        return {
            "stuck": len(answers), "status": sorted({status for status, _ in answers}),
            "answered_after_s": [min(after for _, after in answers), max(after for _, after in answers)],
            "p99_ms_steady": statistics.median(steady), "p99_ms_beside": statistics.median(beside),
            "lost": found["lost"], "told": found["told"][:5],
            "stacks": server.log().count("while True:") + server.log().count("lock.acquire()"),
        }  # fmt: skip
    finally:
        server.kill()


def overload(seconds: int) -> dict[str, Any]:
    """Five times the capacity: what is still done, how fast the rest is refused, how soon it is over."""
    options = ("--workers", "2", "--threads", "8", "--queue-timeout", "500ms")
    server = Serving("crowd_app", *options, cwd=HERE)
    try:
        capacity = asyncio.run(Offered(server.port).closed(16, 5))
        crush = asyncio.run(Offered(server.port).open(5 * capacity, seconds))
        begun = time.monotonic()
        calm = asyncio.run(Offered(server.port).open(capacity / 3, 6))
        refused = sorted(crush.refused)
        return {
            "capacity": capacity, "offered": 5 * capacity, "goodput": len(crush.done) / seconds,
            "of_capacity": len(crush.done) / seconds / capacity, "refused": len(refused), "failed": crush.failed,
            "refused_ms_p50": quantile(refused, 0.5) * 1000, "refused_ms_p99": quantile(refused, 0.99) * 1000,
            "p99_ms_after_2s": quantile(sorted(one for at, one in calm.when if at - begun > 2), 0.99) * 1000,
        }  # fmt: skip
    finally:
        server.kill()


class Offered:
    """Requests of ten milliseconds of work each, on connections of their own."""

    def __init__(self, port: int, path: str = "/burn?0.01") -> None:
        self.port = port
        self.path = path
        self.done: list[float] = []
        self.when: list[tuple[float, float]] = []
        self.refused: list[float] = []
        self.failed = 0

    async def one(self) -> None:
        """One request."""
        begun = time.monotonic()
        connection = Connection(self.port)
        try:
            status = await asyncio.wait_for(self.ask(connection), 15)
        except (Lost, OSError, EOFError, asyncio.TimeoutError, ValueError):
            self.failed += 1
            return
        finally:
            connection.close()
        took = time.monotonic() - begun
        if status == 200:
            self.done.append(took)
            self.when.append((time.monotonic(), took))
        else:
            self.refused.append(took)

    async def ask(self, connection: Connection) -> int:
        """Send it; the status."""
        connection.reader, connection.writer = await asyncio.open_connection("127.0.0.1", self.port)
        connection.writer.write(f"GET {self.path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        status, fields = await connection.head()
        await connection.body(fields)
        return status

    async def closed(self, clients: int, seconds: float) -> float:
        """So many at a time: requests a second."""
        begun = time.monotonic()
        until = begun + seconds

        async def client() -> None:
            while time.monotonic() < until:
                await self.one()

        await asyncio.gather(*(client() for _ in range(clients)))
        return len(self.done) / (time.monotonic() - begun)

    async def open(self, rate: float, seconds: float) -> Offered:
        """At a rate, whatever becomes of them."""
        running: set[asyncio.Task[None]] = set()
        begun = time.monotonic()
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, begun + number / rate - time.monotonic()))
            task = asyncio.create_task(self.one())
            running.add(task)
            task.add_done_callback(running.discard)
        await asyncio.gather(*running)
        return self


def scale(seconds: int) -> dict[str, Any]:
    """A view that burns 100 ms: one worker, two workers."""
    rates = {}
    for workers in ("1", "2"):
        server = Serving("crowd_app", "--workers", workers, cwd=HERE)
        try:
            rates[workers] = asyncio.run(Offered(server.port, "/burn?0.1").closed(4, seconds))
        finally:
            server.kill()
    return {"one": rates["1"], "two": rates["2"], "times": rates["2"] / rates["1"]}


def beside(seconds: int, peers: Path) -> dict[str, Any]:
    """A fast view beside one that burns 200 ms at half of what two workers can do."""
    return {name: with_server(start, lambda port: fast_beside(port, seconds)) for name, start in servers(peers).items()}


def fast_beside(port: int, seconds: int) -> dict[str, float]:
    """Two workers do ten of the slow ones a second; half of that is offered."""

    async def both() -> tuple[Offered, Offered]:
        slow, fast = Offered(port, "/burn?0.2"), Offered(port, "/work?1")
        await asyncio.gather(slow.open(5, seconds), fast.open(100, seconds))
        return slow, fast

    slow, fast = asyncio.run(both())
    times = sorted(fast.done)
    return {
        "fast_p50_ms": quantile(times, 0.5) * 1000, "fast_p99_ms": quantile(times, 0.99) * 1000,
        "fast_done": len(times), "slow_done": len(slow.done), "failed": fast.failed + slow.failed,
    }  # fmt: skip


def servers(peers: Path) -> dict[str, Callable[[int], list[str]]]:
    """How each is started with two workers, at a port."""
    return {
        "forehand": lambda port: [
            sys.executable, "-m", "forehand", "crowd_app", "--workers", "2", "--bind", f"127.0.0.1:{port}",
        ],
        "granian": lambda port: [
            f"{peers}/bin/granian", "--interface", "wsgi", "--workers", "2", "--blocking-threads", "32", "--port",
            str(port), "--no-ws", "crowd_app:application",
        ],
        "gunicorn": lambda port: [
            f"{peers}/bin/gunicorn", "-w2", "--threads", "32", "-b", f"127.0.0.1:{port}", "crowd_app:application",
        ],
    }  # fmt: skip


def with_server(start: Callable[[int], list[str]], work: Callable[[int], Any]) -> Any:
    """Start a server of any kind, wait for it, measure, end it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(start(port), cwd=HERE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        return work(port)
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()


def wait_for(port: int) -> None:
    """Until somebody answers."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"nobody answers at port {port}")


def memory(peers: Path) -> dict[str, Any]:
    """PSS of ten Django workers and their parent, each having answered requests."""
    shop = ROOT / "examples" / "django_shop"
    forehand = [sys.executable, "-m", "forehand", "shop.wsgi", "--workers", "10", "--preload", "--readiness", "/login/"]
    gunicorn = [f"{peers}/bin/gunicorn", "-w10", "shop.wsgi:application"]
    found = {}
    for name, command in (("forehand_preloaded", forehand), ("gunicorn", gunicorn)):
        found[name] = pss_of(command, shop)
    return {**found, "of_gunicorn": found["forehand_preloaded"] / found["gunicorn"]}


def pss_of(command: list[str], folder: Path) -> float:
    """MiB of PSS of a server and all its processes after two thousand requests."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    database = tempfile.TemporaryDirectory()
    env = {**os.environ, "DJANGO_DATABASE": f"{database.name}/shop.sqlite3"}
    bound = [*command, "--bind", f"127.0.0.1:{port}"]
    process = subprocess.Popen(bound, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        time.sleep(3)
        readers = [threading.Thread(target=visit, args=(port, 100)) for _ in range(20)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        return sum(pss(pid) for pid in tree(process.pid)) / 1024
    finally:
        process.terminate()
        process.wait(30)
        database.cleanup()


def visit(port: int, count: int) -> None:
    """Requests one after the other, each on its own connection."""
    for _ in range(count):
        with socket.create_connection(("127.0.0.1", port), 20) as sock:
            sock.sendall(b"GET /login/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            while sock.recv(65536):
                pass


def tree(pid: int) -> list[int]:
    """A process and all below it."""
    try:
        below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(one for child in below for one in tree(int(child)))]


def pss(pid: int) -> int:
    """KiB of a process, shared pages divided (proc(5), smaps_rollup)."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def install(peers: Path) -> None:
    """The peers, once."""
    if not (peers / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", peers], check=True)
        subprocess.run([peers / "bin" / "pip", "-q", "install", *PEERS], check=True)
        (peers / "ready").touch()


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("verb", choices=("crash", "stuck", "overload", "scale", "beside", "memory"))
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--peers", type=Path, default=Path(tempfile.gettempdir()) / "forehand-peers")
    given = parser.parse_args()
    if given.verb in ("beside", "memory"):
        install(given.peers)
    measured: dict[str, Callable[[], dict[str, Any]]] = {
        "crash": lambda: crash(given.seconds or 60),
        "stuck": lambda: stuck(given.seconds or 30),
        "overload": lambda: overload(given.seconds or 30),
        "scale": lambda: scale(given.seconds or 20),
        "beside": lambda: beside(given.seconds or 20, given.peers),
        "memory": lambda: memory(given.peers),
    }
    print(json.dumps(measured[given.verb](), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
