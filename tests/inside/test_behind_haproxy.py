"""deploy/haproxy.cfg: a real HAProxy takes a server out that stops, and nobody is lost though it hears of it late.

HAProxy and the servers have network namespaces of their own, at the addresses of the recipe, where the machine lets a
test have them; otherwise they share its loopback. The times are those of the recipe.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from iproute import NoNamespaces
from namespaces import networks, within
from serving import PATIENCE, PYTHON, Serving, read_reply

Serve = Callable[..., Serving]
HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
RECIPE = Path(__file__).resolve().parents[2] / "deploy/haproxy.cfg"
REQUESTS = 20_000
CLIENTS = 8
#: The recipe's delay, of which its balancer takes up to half until it has heard: it asks so often, and believes the
#: second answer. In seconds.
DELAY, EVERY = 10.0, 2.5
ADDRESSES = ("10.0.0.11", "10.0.0.12")

pytestmark = [pytest.mark.apart, pytest.mark.skipif(HAPROXY is None, reason="apt-get install haproxy")]


def recipe(places: list[tuple[tuple[str, int], int]], listener: socket.socket) -> str:
    """The configuration as it is shipped, but for its times, and for addresses where these are others."""
    text = RECIPE.read_text()
    for given, put in (
        ("bind :80", f"bind fd@{listener.fileno()}"),
        (" port 9100 inter 2500ms", f" inter {EVERY * 1000:.0f}ms"),
        *(
            (f"server {name} {ADDRESSES[at]}:8000", f"server {name} {place[0]}:{place[1]} port {status_port}")
            for at, (name, (place, status_port)) in enumerate(zip(("one", "two"), places, strict=True))
        ),
    ):
        assert text.count(given) == 1, given
        text = text.replace(given, put)
    return text


def status_port(server: Serving) -> int:
    """Its status endpoint's, which its log tells."""
    return int(server.log().rpartition("status       http://")[2].splitlines()[0].rpartition(":")[2])


@contextlib.contextmanager
def spaces() -> Iterator[list[str]]:
    """Namespaces of the balancer and the servers, or empty names."""
    with contextlib.ExitStack() as stack:
        try:
            found = stack.enter_context(networks(*ADDRESSES))
        except NoNamespaces:
            found = [""] * 3
        yield found


class Load:
    """Clients that keep their connections, and whatever was not answered as it should be."""

    def __init__(self, address: tuple[str, int], requests: int, gone: threading.Event) -> None:
        self.address = address
        self.requests = requests
        self.gone = gone
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
        while self.done < self.requests or not self.gone.is_set():
            if self.done >= self.requests:
                time.sleep(0.01)  # to have somebody ask to the end is enough
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
    with spaces() as (balancer, *others), socket.create_server(("127.0.0.1", 0)) as listener:
        servers, places = [], []
        for space, own in zip(others, ADDRESSES, strict=True):
            host, port, status = (own, 8000, 9100) if space else ("127.0.0.1", 0, 0)
            one = serve(
                "own_pid:application", "--bind", f"{host}:{port}", "--workers", "1", "--queue-timeout", "0",
                "--status-bind", f"{host}:{status}", "--shutdown-delay", str(delay),
                "--control", str(folder / f"control-{len(servers)}"),
                program=within(space, PYTHON, "-m", "forehand"),
            )  # fmt: skip
            one.says("  status  ")
            servers.append(one)
            places.append(((host, int(one.url.rpartition(":")[2])), status_port(one)))
        (folder / "haproxy.cfg").write_text(recipe(places, listener))
        with (folder / "log").open("wb") as log:
            # Whose listener is from here, where the clients are: a socket stays where it was made.
            command = within(balancer, str(HAPROXY), "-db", "-f", str(folder / "haproxy.cfg"))
            running = subprocess.Popen(command, pass_fds=[listener.fileno()], stdout=log, stderr=log)
        try:
            found = loaded(servers[0], listener.getsockname(), requests)
            assert running.poll() is None, (folder / "log").read_text()
            return found
        finally:
            running.terminate()
            running.wait(PATIENCE)


def loaded(first: Serving, address: tuple[str, int], requests: int) -> tuple[Load, int]:
    """The load, in which that server is stopped; and how many requests it has answered from then on."""
    gone = threading.Event()
    load = Load(address, requests, gone)
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
    return load, load.by[served] - before


def test_of_twenty_thousand_none_is_lost_when_the_balancer_hears_of_a_stop_late(serve: Serve, tmp_path: Path) -> None:
    load, late = measured(serve, tmp_path, DELAY, REQUESTS)
    assert not load.lost, load.lost
    assert sum(load.by.values()) == load.done >= REQUESTS
    # Each client may have had one under way.
    assert len(load.by) == 2 and late > CLIENTS, "requests came to the one that stops, and were answered"


def test_without_the_delay_some_are(serve: Serve, tmp_path: Path) -> None:
    load, _ = measured(serve, tmp_path, 0, 2_000)
    assert load.lost, "the measurement would see it"
