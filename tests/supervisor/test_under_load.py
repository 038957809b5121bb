"""Nothing is lost under load: reloads, reloads of a preloaded application, upgrades, a stop.

The same measurement as `bench/reload.py`, smaller. Only counts are judged here, no times.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import PATIENCE, Serving, read_reply

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import reload as reloading  # noqa: E402

pytestmark = pytest.mark.apart


@pytest.mark.parametrize(
    ("order", "options"),
    [
        ("reload", ()),
        ("reload", ("--preload",)),
        ("reload", ("--reload-strategy", "together")),
        ("upgrade", ()),
    ],
    ids=["reload", "preloaded", "together", "upgrade"],
)
def test_nothing_is_lost_while_the_server_is_renewed(order: str, options: tuple[str, ...]) -> None:
    requests = 20_000 if order == "reload" and not options else 10_000
    # A machine that is too slow for the rate has requests wait, which a server refuses by default when it sees it.
    result = reloading.measure(requests, 5, 900, ("--queue-timeout", "0", *options), order)
    assert result["lost"] == 0, f"{result['lost_by_kind']} {result['told']}\n{result['log']}"
    assert result["done"] >= requests
    assert result["reloads"] == 5, result["log"]


def test_two_hundred_requests_in_flight_are_finished_at_a_stop(serve: Callable[..., Serving]) -> None:
    server = serve("crowd_app", "--workers", "4", "--threads", "64", cwd=BENCH)
    socks = [server.connect() for _ in range(200)]
    for index, sock in enumerate(socks):
        sock.sendall(f"GET /sleep?{index % 30 / 10} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    # All of them are with a worker: none waits in the kernel's queue, which a stop would end.
    server.until(lambda: sum(worker["requests"] for worker in server.status()["workers"]) == 200)
    codes: list[int] = []
    readers = [
        threading.Thread(target=lambda sock=sock: codes.append(read_reply(sock, bytearray())[0])) for sock in socks
    ]
    for reader in readers:
        reader.start()
    os.kill(server.pid, signal.SIGTERM)
    assert server.process.wait(PATIENCE) == 0
    for reader in readers:
        reader.join()
    assert codes == [200] * 200
