"""deploy/haproxy.cfg: a real HAProxy takes a server out that stops, and nobody is lost though it hears of it late."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import PATIENCE, Serving, read_reply

Serve = Callable[..., Serving]
HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
RECIPE = Path(__file__).resolve().parents[2] / "deploy/haproxy.cfg"
REQUESTS = 20_000
CLIENTS = 8
#: The recipe's delay is 10 s, of which its balancer takes up to 5: two fifths of both.
DELAY, EVERY = 4.0, 1.0

pytestmark = [pytest.mark.apart, pytest.mark.skipif(HAPROXY is None, reason="apt-get install haproxy")]


def recipe(servers: list[Serving], listener: socket.socket) -> str:
    """The configuration as it is shipped, with the addresses of these servers and two fifths of its times."""
    text = RECIPE.read_text()
    for given, put in (
        ("bind :80", f"bind fd@{listener.fileno()}"),
        (" port 9100 inter 2500ms", f" inter {round(EVERY * 1000)}ms"),
        *(
            (f"server {name} 10.0.0.1{at}:8000", f"server {name} 127.0.0.1:{one.port} port {status_port(one)}")
            for at, (name, one) in enumerate(zip(("one", "two"), servers, strict=True), 1)
        ),
    ):
        assert text.count(given) == 1, given
        text = text.replace(given, put)
    return text


def status_port(server: Serving) -> int:
    return int(re.findall(r"status +http://127.0.0.1:(\d+)", server.log())[0])


class Load:
    """Clients that keep their connections, and whatever was not answered as it should be."""

    def __init__(self, address: tuple[str, int], enough: Callable[[int], bool]) -> None:
        self.address = address
        self.enough = enough
        self.done = 0
        self.lost: Counter[str] = Counter()
        self.by: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self._client) for _ in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def join(self) -> None:
        for thread in self.threads:
            thread.join()

    def _client(self) -> None:
        sock, buffer = None, bytearray()
        while not self.enough(self.done):
            try:
                if sock is None:
                    sock, buffer = socket.create_connection(self.address, PATIENCE), bytearray()
                sock.sendall(b"GET /pid HTTP/1.1\r\nHost: a\r\n\r\n")
                status, _, body = read_reply(sock, buffer)
                told = "" if status == 200 else f"status {status}"
            except (OSError, AssertionError) as error:
                told = type(error).__name__
            with self.lock:
                self.done += 1
                if told:
                    self.lost[told] += 1
                else:
                    self.by[body.decode()] += 1
            if told and sock is not None:
                sock.close()
                sock = None
        if sock is not None:
            sock.close()


def measured(serve: Serve, folder: Path, delay: float, requests: int) -> tuple[Load, int]:
    """So many requests through HAProxy, of two servers one of which is stopped on the way. And how many it has answered
    after it was told to stop."""
    words = ("--workers", "1", "--queue-timeout", "0", "--status-bind", "127.0.0.1:0", "--shutdown-delay", str(delay))
    servers = [serve("own_pid:application", *words) for _ in range(2)]
    for one in servers:
        one.says("  status  ")
    first = servers[0]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        (folder / "haproxy.cfg").write_text(recipe(servers, listener))
        with (folder / "log").open("wb") as log:
            command = [str(HAPROXY), "-db", "-f", str(folder / "haproxy.cfg")]
            balancer = subprocess.Popen(command, pass_fds=[listener.fileno()], stdout=log, stderr=log)
        try:
            gone = threading.Event()
            load = Load(listener.getsockname(), lambda done: done >= requests and gone.is_set())
            try:
                served = str(first.workers[0])
                first.until(lambda: load.by[served] > requests // 10)
                first.process.send_signal(signal.SIGTERM)
                before = load.by[served]
                assert first.process.wait(PATIENCE) == 0
                # And for as long as HAProxy takes to hear of one that did not announce it.
                over = time.monotonic() + 3 * EVERY
                first.until(lambda: time.monotonic() > over)
            finally:
                gone.set()
                load.join()
            assert balancer.poll() is None, (folder / "log").read_text()
            return load, load.by[served] - before
        finally:
            balancer.terminate()
            balancer.wait(PATIENCE)


def test_of_twenty_thousand_none_is_lost_when_the_balancer_hears_of_a_stop_late(serve: Serve, tmp_path: Path) -> None:
    load, late = measured(serve, tmp_path, DELAY, REQUESTS)
    assert not load.lost, load.lost
    assert sum(load.by.values()) == load.done >= REQUESTS
    # Each client may have had one under way.
    assert len(load.by) == 2 and late > CLIENTS, "requests came to the one that stops, and were answered"


def test_without_the_delay_some_are(serve: Serve, tmp_path: Path) -> None:
    load, _ = measured(serve, tmp_path, 0, 2_000)
    assert load.lost, "the measurement would see it"
