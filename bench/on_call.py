"""What somebody who is on call relies on, measured: each verb is a line of docs/performance.md.

    on_call.py health   probes under five times the capacity, and while every thread is stuck: p99 in milliseconds
    on_call.py stacks   twenty slow requests at twenty lines, beside others: how many the slow log has at their line

Each probe has a connection of its own, as the kubelet's have. Exit status 1: a bound does not hold, which are 10 ms and
20 of 20.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Servers are started as the tests start them.
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE.parent / "tests/inside")]

from offered import Offered, at_a_time, at_rates  # noqa: E402
from scraper import status_address  # noqa: E402
from serving import PATIENCE, Serving, read_all  # noqa: E402
from steady import quantile  # noqa: E402

#: A request of ten milliseconds of work, and one that stays.
BURN, STAY = "/burn?0.01", "/sleep?600"
THREADS, EACH = 8, 0.02
BOUND_MS = 10.0
#: Slow views, of which so many are inside at a time: two looks a second are shared by all of a worker.
VIEWS, AT_A_TIME = 20, 1
GET = "GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def probed(address: str, seconds: float) -> list[float]:
    """How long probes take, in seconds: one of each kind in turn, fifty a second."""
    host, _, port = address.rpartition(":")
    took = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for path in ("/livez", "/readyz"):
            begun = time.monotonic()
            with socket.create_connection((host, int(port)), PATIENCE) as sock:
                sock.sendall(GET.format(path).encode())
                reply = read_all(sock)
            took.append(time.monotonic() - begun)
            assert reply.startswith(b"HTTP/1.1 200 "), reply
            time.sleep(EACH)
    return took


def beside(address: str, seconds: float, load: Callable[[], None]) -> list[float]:
    """Probes while another process loads the server."""
    loading = multiprocessing.get_context("fork").Process(target=load)
    loading.start()
    try:
        # The queues are full after a second.
        time.sleep(1)
        return probed(address, seconds)
    finally:
        loading.terminate()
        loading.join()


def health(seconds: float) -> bool:
    """Probes of a server that has too much to do, and of one that does nothing any more."""
    options = ("--workers", "2", "--threads", str(THREADS), "--status-bind", "127.0.0.1:0")
    server = Serving("crowd_app", *options, cwd=HERE)
    try:
        address = status_address(server)
        capacity = at_a_time(Offered(server.port, BURN), 2 * THREADS, 3)
        found = {"calm": probed(address, seconds / 3)}
        load = [(Offered(server.port, BURN), 5 * capacity)]
        found["five times the capacity"] = beside(address, seconds, lambda: at_rates(load, seconds + 2))
        stuck = [server.connect() for _ in range(4 * THREADS)]
        for sock in stuck:
            sock.sendall(GET.format(STAY).encode())
        server.until(lambda: all(one["busy"] == one["threads"] for one in server.status()["workers"]))
        found["every thread stuck"] = probed(address, seconds / 3)
    finally:
        server.kill()
    print(f"capacity {capacity:.0f} requests a second")
    holds = True
    for name, took in found.items():
        p99 = quantile(sorted(took), 0.99) * 1000
        holds &= p99 <= BOUND_MS
        print(f"{name:24} {len(took):5} probes   p50 {quantile(sorted(took), 0.5) * 1000:6.2f} ms   p99 {p99:6.2f} ms")
    return holds


def application(folder: Path) -> dict[int, int]:
    """An application whose views sleep each at a line of its own: by their numbers."""
    lines = ["import time"]
    places = {}
    for number in range(VIEWS):
        lines += ["", "", f"def view_{number}():", f"    time.sleep({1 + number / 100})"]
        places[number] = len(lines)
    lines += [
        "", "", "def application(environ, start_response):",
        "    number = environ['PATH_INFO'].removeprefix('/')",
        "    if number != 'quick':", "        globals()[f'view_{number}']()",
        "    start_response('200 OK', [('Content-Length', '0')])", "    return [b'']", "",
    ]  # fmt: skip
    (folder / "views.py").write_text("\n".join(lines))
    return places


def stacks(seconds: float) -> bool:
    """Slow requests beside quick ones: those that were found where they slept and nowhere else."""
    with tempfile.TemporaryDirectory() as folder:
        places = application(Path(folder))
        server = Serving("views", "--workers", "2", "--slow-request", "0.5", cwd=folder)
        ended = threading.Event()

        def quick() -> None:
            while not ended.is_set():
                server.raw(GET.format("/quick").encode())

        beside_it = threading.Thread(target=quick)
        beside_it.start()
        try:
            for first in range(0, VIEWS, AT_A_TIME):
                asked = [server.connect() for _ in range(AT_A_TIME)]
                for number, sock in enumerate(asked, first):
                    sock.sendall(GET.format(f"/{number}").encode())
                for sock in asked:
                    read_all(sock)
            server.until(lambda: server.log().count("slow request: ") >= VIEWS)
        finally:
            ended.set()
            beside_it.join(PATIENCE)
            log = server.log()
            server.kill()
    right = 0
    for number, place in places.items():
        line = re.search(rf"slow request: GET /{number}, .*looks? found its thread (.*)", log)
        found = re.findall(r"\S+:(\d+) in (\w+)", line[1]) if line else []
        right += found == [(str(place), f"view_{number}")]
        if found != [(str(place), f"view_{number}")]:
            print(f"view {number} at line {place}: {line[0] if line else 'nothing was said'}")
    print(f"{right} of {VIEWS} at their line")
    return right == VIEWS


VERBS = {"health": health, "stacks": stacks}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument("--seconds", type=float, default=20.0, help="of probes under load")
    given = parser.parse_args()
    return 0 if VERBS[given.verb](given.seconds) else 1


if __name__ == "__main__":
    sys.exit(main())
