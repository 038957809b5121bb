"""What supervision promises, measured: each verb is a line of docs/performance.md.

    supervision.py crash     a worker is killed each second for a minute, at half load
    supervision.py stuck     endless loops and deadlocks beside others: 504 in time, others unharmed
    supervision.py machine   the same beside a server in C that has no interpreter: what the machine itself costs
    supervision.py bursts    views of 40 ms of CPU, ten a second, beside others: who moves, and whom it costs what
    supervision.py overload  five times what the server can do, for half a minute
    supervision.py scale     two workers against one, on a view that burns
    supervision.py beside    a fast view beside one that burns 200 ms, with granian and gunicorn
    supervision.py memory    ten preloaded Django workers against gunicorn's without preloading

Peers are installed once into a folder of their own (`--peers DIR`). Prints JSON; with bounds, where there are some, and
whether they are met.
"""

from __future__ import annotations

import argparse
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
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from offered import Offered, at_a_time, at_rates
from reload import HERE
from serving import Serving
from steady import quantile

ROOT = HERE.parent
#: A request of ten milliseconds of work.
BURN = "/burn?0.01"
#: Of `bursts`, in seconds: long enough for some hundred of the views, and ten thousand short requests.
WINDOW = 20
#: Where no worker can give its clients to another.
STAYING = {"PYTHONPATH": str(HERE / "staying")}
VERBS = ("crash", "stuck", "machine", "bursts", "overload", "scale", "beside", "memory")
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
    """Requests that never end, with a deadline of a second, beside steady ones. Three times in turn: without, and with
    one endless loop and one deadlock; then with one after the other without a pause, and with a process beside the
    server that burns as much. At last one after the other where no worker can give its clients to another."""
    options = ("--workers", "2", "--request-timeout", "1s", "--request-timeouts", "/sleep=0,/stream=0")
    server = Serving("crowd_app:stuck", *options, cwd=HERE)
    answers: list[tuple[int, float]] = []
    turn, pairs = seconds / 8, []
    try:
        for _ in range(3):
            once = iter([lambda: answers.extend(ask_for_stuck(server))])
            steady = p99_beside(server, turn, rest)
            pairs.append((steady, p99_beside(server, turn, lambda once=once: next(once, rest)())))  # type: ignore[misc]
        always = p99_beside(server, turn, lambda: answers.extend(ask_for_stuck(server)))
        burning = p99_beside(server, turn, burn_and_rest)
        ratio = statistics.median(beside / steady for steady, beside in pairs)
        calm = statistics.median(steady for steady, _ in pairs)
        staying = p99_one_after_the_other_staying(options, turn)
        return {
            "stuck": len(answers), "status": sorted({status for status, _ in answers}),
            "answered_after_s": [min(after for _, after in answers), max(after for _, after in answers)],
            "p99_ms_steady_and_beside_one_of_each": pairs,
            "p99_ms_beside_one_after_the_other": always,
            "p99_ms_beside_another_process": burning,
            "p99_ms_one_after_the_other_staying": staying,
            "ratio_one_of_each": held(ratio, 1.2),
            "ratio_one_after_the_other": held(always / calm, 1.3),
            "ratio_another_process": burning / calm,
            "ratio_of_moving_to_staying": held(always / staying, 1.0),
            "stacks": server.log().count("while True:") + server.log().count("lock.acquire()"),
        }  # fmt: skip
    finally:
        server.kill()


def p99_one_after_the_other_staying(options: tuple[str, ...], seconds: float) -> float:
    """The p99 in milliseconds beside endless loops and deadlocks without a pause, where nobody is moved."""
    server = Serving("crowd_app:stuck", *options, cwd=HERE, env=STAYING)
    try:
        return p99_beside(server, seconds, lambda: list(ask_for_stuck(server)))
    finally:
        server.kill()


class InC:
    """The server in C behind a port, as much of it as is asked of any other."""

    def __init__(self, port: int):
        self.port = port

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 10)


def machine(seconds: int) -> dict[str, Any]:
    """The steady requests of `stuck`, three times in turn: calm, and beside endless loops and deadlocks of a second,
    one after the other without a pause, by `threads.c`: no thread waits for an interpreter there, and no client
    leaves for another worker."""

    def measure(port: int) -> dict[str, Any]:
        server, window, pairs = InC(port), seconds / 6, []
        for _ in range(3):
            calm = p99_beside(server, window, rest)
            pairs.append((calm, p99_beside(server, window, lambda: list(ask_for_stuck(server)))))
        ratio = statistics.median(beside / calm for calm, beside in pairs)
        return {"p99_ms_calm_and_beside_one_after_the_other": pairs, "ratio": ratio}

    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["cc", "-O2", "-pthread", "-o", f"{folder}/threads", str(HERE / "threads.c")], check=True)
        found: dict[str, Any] = with_server(lambda port: [f"{folder}/threads", str(port)], measure)
    return found


def bursts(seconds: int) -> dict[str, Any]:
    """Views of 40 ms of CPU, ten a second, beside short requests; in turn with the server as it is, and where no worker
    can give its clients to another, in windows of some twenty seconds. After each, how many have moved, and how long
    the views took."""
    pairs = max(3, round(seconds / (2 * WINDOW)))
    window = seconds / (2 * pairs)
    options = ("--workers", "2")
    p99: dict[str, list[float]] = {"moving": [], "staying": []}
    moved: dict[str, list[int]] = {"moving": [], "staying": []}
    views: dict[str, list[dict[str, float]]] = {"moving": [], "staying": []}
    for _ in range(pairs):
        for name, env in (("moving", {}), ("staying", STAYING)):
            server = Serving("crowd_app", *options, cwd=HERE, env=env)
            try:
                url = f"http://127.0.0.1:{server.port}"
                arrivals = {"kind": "open", "arrivals": "poisson", "rate": 10}
                burst = [{"name": "burst", "target": "/burn?0.04"}]
                plan = {"url": url, "load": arrivals, "requests": burst, "keep_alive": False}
                beside = load({**plan, "duration_s": window, "threads": 1})
                p99[name].append(p99_beside(server, window, rest))
                took = json.loads(beside.communicate()[0])["times"]["response"]["percentiles_us"]
                views[name].append({each: took[each] / 1000 for each in ("50", "90", "99")})
                moved[name].append(server.counters()["connections_taken_over"])
            finally:
                server.kill()
    middle = {name: statistics.median(found) for name, found in p99.items()}
    ratios = sorted(moving / staying for moving, staying in zip(p99["moving"], p99["staying"], strict=True))
    quartiles = statistics.quantiles(ratios, n=4)
    return {
        "p99_ms": p99, "middle_ms": middle, "moved": moved,
        "views_ms_percentiles": {
            name: {each: statistics.median(one[each] for one in found) for each in ("50", "90", "99")}
            for name, found in views.items()
        },
        "ratio": held(middle["moving"] / middle["staying"], 1.0),
        "ratio_of_pairs": {"middle": quartiles[1], "quartiles": [quartiles[0], quartiles[2]]},
    }  # fmt: skip


def held(figure: float, most: float) -> str:
    """A figure beside its bound."""
    return f"{figure:.2f}, bound {most:g}: {'met' if figure <= most else 'NOT MET'}"


def rest() -> None:
    """A second of peace."""
    time.sleep(1)


def p99_beside(server: Serving | InC, seconds: float, trouble: Callable[[], Any]) -> float:
    """The p99 in milliseconds of 600 requests a second: clients that ask five times with half a second in between,
    a tenth of it uploads of 64 KiB; beside them views of two seconds and streams. None may be lost."""
    url = f"http://127.0.0.1:{server.port}"
    asked = [
        {"name": "work", "weight": 9, "target": "/work?1"},
        {"name": "upload", "method": "POST", "target": "/upload", "body": "u" * 65536},
    ]
    clients = {"kind": "sessions", "arrivals": "poisson", "rate": 120, "requests": 5, "think_s": 0.5}
    long = [{"name": "slow", "target": "/sleep?2"}, {"name": "stream", "target": "/stream"}]
    arrivals = {"kind": "open", "arrivals": "poisson", "rate": 12}
    plans = (
        {"url": url, "load": clients, "requests": asked, "warmup_s": 3},
        {"url": url, "load": arrivals, "requests": long, "keep_alive": False},
    )
    loads = [load({**plan, "duration_s": seconds, "threads": 1}) for plan in plans]
    time.sleep(3)
    begun = time.monotonic()
    while time.monotonic() - begun < seconds - 5:
        trouble()
    found, beside = (json.loads(process.communicate()[0]) for process in loads)
    if found["errors"] or beside["errors"]:
        raise SystemExit(f"requests were lost: {found['errors']} {beside['errors']}")
    return float(found["times"]["response"]["percentiles_us"]["99"]) / 1000


def load(plan: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Our own load engine, which takes next to nothing of the processors."""
    engine = ROOT / "target" / "release" / "forehand-load"
    if not engine.exists():
        raise SystemExit(f"{engine} is missing: make load")
    process = subprocess.Popen([engine, "--plan", "/dev/stdin"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(json.dumps(plan).encode())
    process.stdin.close()
    process.stdin = None
    return process


def ask_for_stuck(server: Serving | InC) -> Iterator[tuple[int, float]]:
    """An endless loop, then a deadlock: status, and after how many seconds."""
    for path in ("/spin", "/deadlock"):
        begun = time.monotonic()
        with server.connect() as sock:
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            status = int(sock.recv(65536).split()[1])
        yield status, time.monotonic() - begun


def burn_and_rest() -> None:
    """What an endless loop with a deadline of a second takes of a processor, and then a deadlock."""
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 1: pass"], check=True)
    time.sleep(1)


def overload(seconds: int) -> dict[str, Any]:
    """Five times the capacity: what is still done, how fast the rest is refused, how soon it is over."""
    options = ("--workers", "2", "--threads", "8", "--queue-timeout", "500ms")
    server = Serving("crowd_app", *options, cwd=HERE)
    try:
        capacity = at_a_time(Offered(server.port, BURN), 16, 5)
        crush, calm = Offered(server.port, BURN), Offered(server.port, BURN)
        crushed = time.monotonic()
        at_rates([(crush, 5 * capacity)], seconds)
        begun = time.monotonic()
        at_rates([(calm, capacity / 3)], 6)
        refused = sorted(crush.refused)
        return {
            "capacity": capacity, "offered": 5 * capacity, "goodput": len(crush.done) / (begun - crushed),
            "of_capacity": len(crush.done) / (begun - crushed) / capacity,
            "refused": len(refused), "failed": crush.failed,
            "refused_ms_p50": quantile(refused, 0.5) * 1000, "refused_ms_p99": quantile(refused, 0.99) * 1000,
            "p99_ms_after_2s": quantile(sorted(one for at, one in calm.when if at - begun > 2), 0.99) * 1000,
        }  # fmt: skip
    finally:
        server.kill()


def scale(seconds: int) -> dict[str, Any]:
    """A view that burns 100 ms: one worker, two workers."""
    rates = {}
    for workers in ("1", "2"):
        server = Serving("crowd_app", "--workers", workers, cwd=HERE)
        try:
            rates[workers] = at_a_time(Offered(server.port, "/burn?0.1"), 4, seconds)
        finally:
            server.kill()
    return {"one": rates["1"], "two": rates["2"], "times": rates["2"] / rates["1"]}


def beside(seconds: int, peers: Path) -> dict[str, Any]:
    """A fast view beside one that burns 200 ms at half of what two workers can do."""
    return {name: with_server(start, lambda port: fast_beside(port, seconds)) for name, start in servers(peers).items()}


def fast_beside(port: int, seconds: int) -> dict[str, float]:
    """Two workers do ten of the slow ones a second; half of that is offered."""

    slow, fast = Offered(port, "/burn?0.2"), Offered(port, "/work?1")
    at_rates([(slow, 5), (fast, 100)], seconds)
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
        wait_for(port, process)
        return work(port)
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Until somebody answers. Raises SystemExit where nobody will."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
        if process.poll() is not None:
            raise SystemExit(f"{process.args!r} ended with {process.returncode}")
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
        wait_for(port, process)
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
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--peers", type=Path, default=Path(tempfile.gettempdir()) / "forehand-peers")
    given = parser.parse_args()
    if given.verb in ("beside", "memory"):
        install(given.peers)
    measured: dict[str, Callable[[], dict[str, Any]]] = {
        "crash": lambda: crash(given.seconds or 60),
        "stuck": lambda: stuck(given.seconds or 240),
        "machine": lambda: machine(given.seconds or 180),
        "bursts": lambda: bursts(given.seconds or 180),
        "overload": lambda: overload(given.seconds or 30),
        "scale": lambda: scale(given.seconds or 20),
        "beside": lambda: beside(given.seconds or 20, given.peers),
        "memory": lambda: memory(given.peers),
    }
    print(json.dumps(measured[given.verb](), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
