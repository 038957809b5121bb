"""Each fault of `examples/planted_faults` is named by the tool that docs/looking-inside.md shows it with."""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from serving import PATIENCE, Serving, read_all, read_reply
from shared import GET, statistics

SHOP = Path(__file__).resolve().parents[2] / "examples" / "planted_faults"
SOURCE = (SHOP / "shop.py").read_text().splitlines()
#: Only threads that use a processor, where Python tells: those of a deadlock are inside as well.
BUSY = ("--cpu",) if sys.version_info >= (3, 11) else ("--route", "/prices")
#: What the kernel takes of a reply whose reader sleeps is less than a hundredth of it.
SMALL = 65536


def line_of(words: str) -> int:
    """Where in the source this stands, and nowhere else."""
    found = [number for number, line in enumerate(SOURCE, 1) if line.lstrip(" ") == words.lstrip(" ") and words in line]
    assert len(found) == 1, words
    return found[0]


@pytest.fixture(scope="module")
def shop() -> Iterator[Serving]:
    """One server for all: whoever looks for a fault does not know of the others."""
    options = ("--workers", "1", "--threads", "8", "--slow-request", "0.4", "--queue-timeout", "60")
    server = Serving("shop", *options, cwd=SHOP)
    yield server
    server.kill()


def ask(server: Serving, path: str, sock: socket.socket | None = None) -> socket.socket:
    """Ask for something, and do not wait for it."""
    sock = sock or server.connect()
    sock.sendall(GET.format(path, "a", "").encode())
    return sock


@contextmanager
def asked(server: Serving, *paths: str) -> Iterator[None]:
    """Each is asked for on a connection of its own, again and again; more than one path of it in turn."""
    ended = threading.Event()

    def go_on(path: str) -> None:
        with server.connect() as sock:
            buffer, count = bytearray(), 0
            # What leaks ten kilobytes a request shall not fill the machine.
            while not ended.wait(0.005):
                ask(server, path.format(count), sock)
                assert read_reply(sock, buffer)[0] == 200
                count += 1

    clients = [threading.Thread(target=go_on, args=(path,)) for path in paths]
    for client in clients:
        client.start()
    try:
        yield
    finally:
        ended.set()
        for client in clients:
            client.join(PATIENCE)


def ordered(server: Serving, *words: str) -> str:
    status, said = server.order(*words, timeout=90)
    assert status == 0, said
    return said


def test_a_leak_is_named_by_who_holds_it(shop: Serving) -> None:
    with asked(shop, "/basket/{}"):
        found = json.loads(ordered(shop, "heap", "--diff", "--seconds", "0.5", "--json"))
    assert found["containers"][0]["name"] == "shop.SESSIONS", found["containers"]
    assert found["types"][0]["type"] == "bytearray", found["types"]
    assert found["types"][0]["held_by"][0][0] == "shop.SESSIONS[...]", found["types"][0]


def test_a_deadlock_is_named_by_the_lock_that_each_waits_for(shop: Serving) -> None:
    shared = statistics(shop)
    with ask(shop, "/sell"), ask(shop, "/book"):
        shop.until(lambda: shared.totals()["inside"] == 2)
        running = ordered(shop, "requests", "--running")
        assert re.search(r"worker 1 \(\d+\) +running +[\d.]+ s  GET /sell\n", running), running

        def waits(path: str, function: str, words: str) -> bool:
            # The other function takes the same lock first, a level further out.
            place = f'shop.py", line {line_of(8 * " " + words)}, in {function}\n    {words}\n\n'
            return bool(re.search(f"in GET {path}\n(  .*\n)*  File .*{re.escape(place)}", stacks))

        stacks = ordered(shop, "stacks")
        assert waits("/sell", "sell", "with LEDGER:") and waits("/book", "book", "with STOCK:"), stacks


def waited(shared: Any) -> float:
    """Seconds that all requests have waited for the interpreter: whoever leads does in `gil`, others in `queue`."""
    phases = shared.totals()["phases"]
    return float(phases["gil"][1] + phases["queue"][1])


def test_who_keeps_the_interpreter_is_named_and_the_others_wait_for_it(shop: Serving, tmp_path: Path) -> None:
    shared, path = statistics(shop), tmp_path / "profile"
    before = waited(shared)
    with asked(shop, "/prices", "/"):
        ordered(shop, "profile", "--seconds", "1.5", *BUSY, "-f", "collapsed", "-o", str(path))
        shop.until(lambda: waited(shared) > before + 0.2)
    stacks: list[tuple[int, str]] = []
    for line in path.read_text().splitlines():
        stack, _, milliseconds = line.rpartition(" ")
        stacks.append((int(milliseconds), stack))
    most = max(stacks)[1]
    assert most.startswith("GET /prices;") and ";price_list (shop.py:" in most, stacks


def test_a_slow_database_is_named_by_the_line_that_waits_for_it(shop: Serving) -> None:
    with ask(shop, "/orders/1") as sock:
        assert read_reply(sock, bytearray())[0] == 200
    shop.says("slow request: GET /orders/1, 200 after ")
    line = next(line for line in shop.log().splitlines() if "slow request: GET /orders/1" in line)
    found = re.search(r"application ([\d.]+), ([\d.]+) of it on a processor[^)]*\): (.*)", line)
    assert found is not None, line
    assert float(found[2]) < 0.2 * float(found[1]), "it waits, and does not work"
    place = line_of('connection.execute("CREATE TABLE IF NOT EXISTS orders (number INTEGER)")')
    assert f"shop.py:{place} in orders" in found[3], line


def test_a_slow_reader_is_named_by_its_phase(shop: Serving) -> None:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
        sock.settimeout(PATIENCE)
        sock.connect((shop.host, shop.port))
        sock.sendall(GET.format("/picture", "a", "Connection: close\r\n").encode())
        # It reads nothing for as long as it takes to be slow.
        server_sees = statistics(shop)
        shop.until(lambda: any(age > 0.5 for line, age in inside(server_sees) if line == "GET /picture"))
        assert len(read_all(sock)) > 32_000_000
    shop.says("slow request: GET /picture, 200 after ")
    found: list[dict[str, Any]] = [
        one for one in map(json.loads, ordered(shop, "requests", "--slow", "--json").splitlines())
        if one["request"] == "GET /picture"
    ]  # fmt: skip
    assert found[-1]["phases"]["send"] > 0.8 * found[-1]["phases"]["total"], found


def inside(shared: Any) -> list[tuple[str, float]]:
    """Requests that are inside the first worker's row, and for how long."""
    return [(line, age) for row in range(2) for _, line, _, age, *_ in shared.inside(row, False)]


def test_a_crash_is_named_by_its_line_and_the_requests_that_were_inside(shop: Serving) -> None:
    with ask(shop, "/orders/60"):
        shop.until(lambda: any(line == "GET /orders/60" for line, _ in inside(statistics(shop))))
        with ask(shop, "/broken") as sock:
            assert read_all(sock) == b""
        place = f"{SHOP}/shop.py:{line_of('ctypes.string_at(0)')} in broken"
        shop.says(f"was ended by signal 11 (SIGSEGV) at {place}, which was in ")
        line = next(line for line in shop.log().splitlines() if "while it worked on" in line)
        assert "GET /orders/60 for " in line and "GET /broken for " in line, line
    assert f"was ended by signal 11 (SIGSEGV) at {place}" in ordered(shop, "status")
