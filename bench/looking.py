"""What looking from outside costs, and how soon it is answered: what needs a quiet machine to be measured.

    python bench/looking.py [ROW ...]      all rows: memory scrape scraped idle profile stacks overloaded stuck

Each row prints what it found, its bound, and whether that holds; the exit status is how many bounds do not. All of it
takes five minutes. Servers are this checkout's, built by `make build`, with what is named in front of each function.
Clients run in this process, so that latencies hold their interpreter's work, too: what is compared is the same twice.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

APP = """
import threading, time

def slow(seconds):
    time.sleep(seconds)

{functions}

def application(environ, start_response):
    _, name, *rest = environ["PATH_INFO"].split("/")
    if name == "sleep":
        slow(float(rest[0]))
    elif name == "burn":
        end = time.thread_time() + float(rest[0])
        while time.thread_time() < end:
            pass
    elif name == "at":
        PLACES[int(rest[0])]()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return [b"pong\\n"]
"""
PLACES, TOGETHER = 20, 5
#: Each sleeps at a line of its own, longer than a request may take.
FUNCTIONS = "".join(f"def place_{at}():\n    time.sleep(0.6)\n\n" for at in range(PLACES))
FUNCTIONS += f"PLACES = [{', '.join(f'place_{at}' for at in range(PLACES))}]\n"
#: What the process that answers may have, and routes may cost a worker, in KiB; a scrape and a probe in milliseconds.
STATUS_KIB, ROUTES_KIB, ANSWER_MS = 3072, 512, 10.0
#: How long nothing happens, in seconds.
IDLE = 20
#: Seconds after which nothing is left of a client that has left: the timer of the ten that it had for a request comes
#: once, and finds nobody.
LEFT = 13
#: Rows whose bounds do not hold.
OVER: list[str] = []


class Server:
    """A running one, its status endpoint on a unix socket, its log."""

    def __init__(self, folder: Path, *options: str, status: bool = True) -> None:
        (folder / "app.py").write_text(APP.format(functions=FUNCTIONS))
        self.path = str(folder / f"status-{time.monotonic_ns()}.sock")
        self.log = (folder / "log").open("w+b")
        reader, writer = os.pipe()
        own = ["--status-bind", f"unix:{self.path}"] if status else []
        command = [sys.executable, "-m", "forehand", "app:application", "--bind", "127.0.0.1:0", *own, *options]
        self.process = subprocess.Popen(
            [*command, "--ready-fd", str(writer)], pass_fds=[writer], cwd=folder, stdout=self.log, stderr=self.log
        )
        os.close(writer)
        with os.fdopen(reader) as ready:
            told = json.loads(ready.readline())
        self.port = int(told["listeners"][0].rpartition(":")[2])
        self.control: str = told["control"]
        while status and b" 200 " not in self.ask("/readyz")[:20]:
            time.sleep(0.05)

    def ask(self, path: str) -> bytes:
        """One request to the status endpoint."""
        with socket.socket(socket.AF_UNIX) as sock:
            try:
                sock.connect(self.path)
            except (FileNotFoundError, ConnectionRefusedError):
                return b""
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            parts = []
            while part := sock.recv(65536):
                parts.append(part)
        return b"".join(parts)

    def view(self, path: str, sock: socket.socket) -> None:
        """One request on a kept connection, whose reply comes in one piece."""
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        if not sock.recv(4096):
            raise ConnectionError

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 60)

    def processes(self) -> dict[str, list[int]]:
        """Its processes by what they are."""
        found: dict[str, list[int]] = {"supervisor": [self.process.pid], "worker": [], "status": []}
        for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
            title = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
            found["status" if title.endswith(", status") else "worker"].append(int(pid))
        return found


@contextmanager
def serving(*options: str, status: bool = True) -> Iterator[Server]:
    """A server, which is ended."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder), *options, status=status)
        try:
            yield server
        finally:
            server.process.send_signal(signal.SIGINT)
            try:
                server.process.wait(20)
            except subprocess.TimeoutExpired:
                server.process.kill()
                server.process.wait()
            server.log.close()


def pss(pid: int) -> int:
    """KiB, its share of what it has with others included."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.findall(r"^Pss:\s+(\d+)", text, re.M)[0])


def routes(server: Server, count: int, rounds: int) -> None:
    """So many routes in every worker: connections are shared among them."""
    letters = "abcdefghij"
    for _ in range(rounds):
        with server.connect() as sock:
            for route in random.sample(range(count), count):
                server.view(f"/{letters[route // 10]}{letters[route % 10]}", sock)


def shown(row: str, found: str, bound: str, *, holds: bool) -> None:
    print(f"{row:11} {'ok  ' if holds else 'OVER'} {found}; bound {bound}", flush=True)
    OVER.extend([] if holds else [row])


def memory() -> None:
    """A worker with fifty routes beside one that has answered as much for one; the status process."""
    with serving("--workers", "1") as one, serving("--workers", "1") as other:
        routes(one, 1, 2500)
        routes(other, 50, 50)
        for server in (one, other):
            for path in ("/metrics", "/status.json", "/"):
                server.ask(path)
        # Until both rest, and have given back what is not theirs for long.
        time.sleep(0.5)
        few, many = (pss(server.processes()["worker"][0]) for server in (one, other))
        text = f"a worker with 50 routes {many - few:+} KiB beside one with 1 ({few})"
        shown("memory", text, f"+{ROUTES_KIB} KiB", holds=many - few <= ROUTES_KIB)
        taken = pss(other.processes()["status"][0])
        shown("memory", f"the status process {taken} KiB", f"{STATUS_KIB} KiB", holds=taken <= STATUS_KIB)


def scrape() -> None:
    """Eight workers of 64 routes each."""
    with serving("--workers", "8", "--threads", "4") as server:
        routes(server, 64, 400)
        took = []
        for _ in range(200):
            begun = time.perf_counter()
            answer = server.ask("/metrics")
            took.append((time.perf_counter() - begun) * 1000)
        known = len(json.loads(server.ask("/status.json").partition(b"\r\n\r\n")[2])["routes"])
        text = f"{known} routes, {len(answer)} bytes: median {statistics.median(took):.2f} ms, longest {max(took):.2f}"
        shown("scrape", text, f"{ANSWER_MS:g} ms", holds=statistics.median(took) <= ANSWER_MS)
        taken = pss(server.processes()["status"][0])
        shown("scrape", f"the status process {taken} KiB", f"{STATUS_KIB} KiB", holds=taken <= STATUS_KIB)


#: A client: it asks each two milliseconds on one connection, and notes when it began (nanoseconds) and how long that
#: took, until its standard input ends. A process of its own, so that no other client holds its interpreter.
CLIENT = """
import array, select, socket, sys, time
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
found, clock = array.array("q"), time.perf_counter_ns
while not select.select([0], [], [], 0.002)[0]:
    begun = clock()
    sock.sendall(b"GET /quick HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
    if not sock.recv(4096):
        break
    found.extend((begun, clock() - begun))
sys.stdout.buffer.write(found.tobytes())
"""
#: A scraper on one connection, ten times a second. In every other window of time it asks nobody, and reads what a
#: socket of its own gives it, as many bytes as a scrape had, so that it costs as much by itself.
SCRAPER = """
import socket, sys, time
path, begin, window, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
sock = socket.socket(socket.AF_UNIX)
sock.connect(path)
one, other = socket.socketpair()
for end in (one, other):
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)

def reply(ask):
    ask.sendall(b"GET /metrics HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
    text = b""
    while b"\\r\\n\\r\\n" not in text:
        text += ask.recv(65536)
    head, _, body = text.partition(b"\\r\\n\\r\\n")
    length = int(head.lower().split(b"content-length:")[1].split()[0])
    while len(body) < length:
        body += ask.recv(65536)
    return head + b"\\r\\n\\r\\n" + body

last, clock = reply(sock), time.perf_counter_ns
scrapes, tick = 0, begin
while tick < begin + window * count:
    while clock() < tick:
        time.sleep(max(0, (tick - clock()) / 1e9))
    if KINDS[(tick - begin) // window]:
        last = reply(sock)
        scrapes += 1
    else:
        other.sendall(last)
        reply(one)
        other.recv(4096)
    tick += 100_000_000
print(scrapes)
"""
#: Windows in which it scrapes and in which it does not, in turn: how long each is, and how many there are.
WINDOW_NS, WINDOWS = 500_000_000, 240


def scraped_in(window: int) -> bool:
    """In every other window, the other way round in every other four, as machines change slowly."""
    return (window % 2 == 1) != (window // 4 % 2 == 1)


def quantiles(took: list[int]) -> tuple[float, ...]:
    """Half, 99 and 99.9 of a hundred took at most so many microseconds."""
    took.sort()
    return tuple(took[min(len(took) - 1, len(took) * share // 1000)] / 1000 for share in (500, 990, 999))


def scraped() -> None:
    """Requests with ten scrapes a second, and without: short windows in turn within one server's life, the latencies
    of each kind together, and the same of each third of the time, by which the spread shows."""
    with serving("--workers", "2") as server:
        routes(server, 64, 20)
        clients = [
            subprocess.Popen(
                [sys.executable, "-c", CLIENT, str(server.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            for _ in range(4)
        ]
        begin = time.perf_counter_ns() + 1_000_000_000
        kinds = "KINDS = " + repr([int(scraped_in(window)) for window in range(WINDOWS)])
        arguments = [server.path, str(begin), str(WINDOW_NS), str(WINDOWS)]
        done = subprocess.run(
            [sys.executable, "-c", kinds + SCRAPER, *arguments], stdout=subprocess.PIPE, text=True, check=True
        )
        found = array("q")
        for client in clients:
            found.frombytes(client.communicate(b"\n")[0])
    took: dict[tuple[int, bool], list[int]] = {(third, kind): [] for third in range(3) for kind in (False, True)}
    for begun, spent in zip(found[::2], found[1::2], strict=True):
        window = (begun - begin) // WINDOW_NS
        if 0 <= window < WINDOWS:
            took[window * 3 // WINDOWS, scraped_in(window)].append(spent)
    ratios = []
    for third in range(3):
        without, with_it = (quantiles(took[third, kind])[1] for kind in (False, True))
        ratios.append(with_it / without - 1)
    whole = {kind: [one for third in range(3) for one in took[third, kind]] for kind in (False, True)}
    for kind, name in ((False, "without"), (True, "with")):
        half, p99, p999 = quantiles(whole[kind])
        told = f"{name:7} {len(whole[kind])} requests: p50 {half:.0f} us, p99 {p99:.0f}, p99.9 {p999:.0f}"
        print(f"{'scraped':11}      {told}", flush=True)
    ratio = quantiles(whole[True])[1] / quantiles(whole[False])[1] - 1
    thirds = ", ".join(f"{one:+.1%}" for one in ratios)
    shown(
        "scraped", f"p99 {ratio:+.1%}, its thirds {thirds}; {done.stdout.strip()} scrapes", "+3 %", holds=ratio <= 0.03
    )


def switches(pids: list[int]) -> int:
    """How often these processes' threads have been woken."""
    found = 0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            text = (task / "status").read_text()
            found += int(re.findall(r"^voluntary_ctxt_switches:\s+(\d+)", text, re.M)[0])
    return found


def idle() -> None:
    """A while in which nothing happens, with the endpoint and without. Whoever asks all supervisors who they are
    meanwhile, as `forehand status` without -C does, wakes these as well."""
    woken: list[dict[str, int]] = []
    for status in (False, True):
        with serving("--workers", "2", status=status) as server:
            with server.connect() as sock:
                server.view("/quick", sock)
            time.sleep(LEFT)
            before = {name: switches(pids) for name, pids in server.processes().items()}
            time.sleep(IDLE)
            after = {name: switches(pids) for name, pids in server.processes().items()}
            woken.append({name: after[name] - before[name] for name in after})
    text = ", ".join(f"{name} {woken[1][name]} (without --status-bind {woken[0][name]})" for name in woken[0])
    holds = all(woken[1][name] <= woken[0].get(name, 0) for name in woken[1])
    shown("idle", f"woken in {IDLE} s: {text}", "none more, none in the status process", holds=holds)


def profile() -> None:
    """Two that burn and one that sleeps; what the thread that looks takes of a processor, by the kernel's count."""
    with serving("--workers", "1") as server:
        over = threading.Event()

        def ask(path: str) -> None:
            with server.connect() as sock:
                while not over.is_set():
                    server.view(path, sock)

        clients = [threading.Thread(target=ask, args=(path,)) for path in ("/burn/0.05", "/burn/0.02", "/sleep/0.1")]
        for client in clients:
            client.start()
        worker = server.processes()["worker"][0]
        command = [sys.executable, "-m", "forehand", "profile", "--control", server.control, "--seconds", "20"]
        asking = subprocess.Popen([*command, "--output", os.devnull], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        begun, used = 0.0, 0
        while asking.poll() is None:
            for task in Path(f"/proc/{worker}/task").iterdir():
                try:
                    if (task / "comm").read_text().startswith("forehand-prof"):
                        begun = begun or time.monotonic()
                        used, ended = int((task / "schedstat").read_text().split()[0]), time.monotonic()
                except FileNotFoundError:
                    continue
            time.sleep(0.05)
        over.set()
        for client in clients:
            client.join()
        assert asking.stdout is not None
        said = asking.stdout.read().decode()
        if not used:
            raise SystemExit(f"nobody looked:\n{said}")
        told = re.findall(r"^worker 1 .*", said, re.M)[0]
        share = used / 1e9 / (ended - begun)
        shown("profile", f"{share:.1%} of a processor; it says: {told}", "2 %", holds=share <= 0.02)


def stacks() -> None:
    """Twenty slow requests, each at a line of its own, five at a time; what the log says of each."""
    lines = APP.format(functions=FUNCTIONS).splitlines()
    with serving("--workers", "1", "--slow-request", "0.3") as server:

        def ask(at: int) -> None:
            with server.connect() as sock:
                server.view(f"/at/{at}", sock)

        for first in range(0, PLACES, TOGETHER):
            threads = [threading.Thread(target=ask, args=(at,)) for at in range(first, first + TOGETHER)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        time.sleep(0.5)
        server.log.seek(0)
        said = server.log.read().decode()
    right = 0
    for at in range(PLACES):
        wanted = next(number for number, line in enumerate(lines, 1) if line == f"def place_{at}():") + 1
        found = re.search(rf"slow request: GET /at/{at},.*app\.py:(\d+) in place_{at}\b", said)
        right += bool(found and int(found[1]) == wanted)
    shown("stacks", f"the right line {right} of {PLACES}", f"{PLACES} of {PLACES}", holds=right == PLACES)


def probed(row: str, server: Server, more: str = "", count: int = 1000) -> None:
    """So many probes, every five milliseconds."""
    took = []
    for _ in range(count):
        begun = time.perf_counter()
        answer = server.ask("/livez")
        took.append((time.perf_counter() - begun) * 1000)
        if not answer.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"a probe was told:\n{answer.decode()}")
        time.sleep(0.005)
    took.sort()
    p99 = took[count * 99 // 100]
    text = f"p50 {took[count // 2]:.2f} ms, p99 {p99:.2f}, longest {took[-1]:.2f}{more}"
    shown(row, text, f"p99 {ANSWER_MS:g} ms", holds=p99 <= ANSWER_MS)


class Crowd:
    """So many new clients a second, whoever is answered, each with one request; what they were told."""

    def __init__(self, server: Server, path: str, rate: float) -> None:
        self.server, self.rate = server, rate
        self.request = f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode()
        self.told: Counter[str] = Counter()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def __enter__(self) -> Crowd:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()

    def _run(self) -> None:
        begun, sent = time.perf_counter(), 0
        open_ones: dict[int, socket.socket] = {}
        with selectors.DefaultSelector() as waiting:
            while not self.over.is_set():
                while sent < (time.perf_counter() - begun) * self.rate:
                    sock = self.server.connect()
                    sock.sendall(self.request)
                    waiting.register(sock, selectors.EVENT_READ)
                    open_ones[sock.fileno()] = sock
                    sent += 1
                for key, _ in waiting.select(0.002):
                    waiting.unregister(key.fd)
                    self._answered(open_ones.pop(key.fd))
            for sock in open_ones.values():
                sock.close()

    def _answered(self, sock: socket.socket) -> None:
        try:
            self.told[sock.recv(4096)[9:12].decode() or "nothing"] += 1
        except OSError as error:
            self.told[type(error).__name__] += 1
        sock.close()


def overloaded() -> None:
    """Five times what the threads can do: four threads that sleep 50 ms have 80 requests a second, and get 400."""
    options = ("--workers", "1", "--threads", "4", "--queue-timeout", "1")
    with serving(*options) as server, Crowd(server, "/sleep/0.05", 400) as crowd:
        while not crowd.told["503"]:
            time.sleep(0.05)
        crowd.told.clear()
        begun = time.perf_counter()
        probed("overloaded", server)
        rates = {told: round(count / (time.perf_counter() - begun)) for told, count in crowd.told.items()}
        print(f"{'overloaded':11}      requests a second meanwhile, by what they were told: {rates}", flush=True)


def stuck() -> None:
    """Every thread of every worker is inside a view that does not end."""
    with serving("--workers", "2", "--threads", "4", "--graceful-timeout", "0.1") as server:
        held = [server.connect() for _ in range(16)]
        for sock in held:
            sock.sendall(b"GET /sleep/3600 HTTP/1.1\r\nHost: a\r\n\r\n")
        time.sleep(1)
        inside = json.loads(server.ask("/status.json").partition(b"\r\n\r\n")[2])["inside"]
        probed("stuck", server, f"; {inside} requests inside 8 threads")
        for sock in held:
            sock.close()


ROWS: dict[str, Callable[[], None]] = {
    one.__name__: one for one in (memory, scrape, scraped, idle, profile, stacks, overloaded, stuck)
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; without any: all")
    given = parser.parse_args()
    if unknown := set(given.rows) - set(ROWS):
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    for name in given.rows or ROWS:
        ROWS[name]()
    sys.exit(len(OVER))
