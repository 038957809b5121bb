"""Small requests on one connection of HTTP/2 within TLS, with and without one that is blocked.

    blocked_stream.py [--rounds 200] [--streams 32] [--seconds 0.05]

Thirty-one small requests are sent in one write, behind one that sleeps or without it, in turn; the figure is how much
later the last of the thirty-one is answered: the median and the 99th percentile of the rounds. For each driver. Needs
Python's h2 and openssl.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import certificate
import h2.connection
import h2.events

HERE = Path(__file__).resolve().parent
DRIVERS = {
    "threads": ["delayed:application"],
    "asyncio": ["delayed:app", "--interface", "asgi"],
    "gevent": ["delayed:application", "--worker-class", "gevent"],
}
#: Milliseconds that the others may be later.
WANTED = 5.0


@contextlib.contextmanager
def serving(folder: Path, words: list[str]) -> Iterator[int]:
    """Forehand, and its port."""
    pair = ["--tls-cert", str(folder / "cert.pem"), "--tls-key", str(folder / "key.pem")]
    told, tell = os.pipe()
    command = [sys.executable, "-m", "forehand", *words, "--bind", "https://127.0.0.1:0", *pair, "--workers", "0"]
    with subprocess.Popen(
        [*command, "--log-level", "error", "--ready-fd", str(tell)],
        cwd=HERE, pass_fds=[tell], stdout=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        os.close(tell)
        try:
            with os.fdopen(told) as line:
                yield int(json.loads(line.readline())["listeners"][0].rpartition(":")[2])
        finally:
            process.kill()


class Client:
    """One connection."""

    def __init__(self, port: int) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        sock = socket.create_connection(("127.0.0.1", port), 60)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = context.wrap_socket(sock)
        self.machine = h2.connection.H2Connection()
        self.machine.initiate_connection()
        self.done: set[int | None] = set()

    def ask(self, path: str) -> int:
        """One request, not sent yet; its stream."""
        stream = self.machine.get_next_available_stream_id()
        head = [(":method", "GET"), (":scheme", "https"), (":path", path), (":authority", "localhost")]
        self.machine.send_headers(stream, head, end_stream=True)
        return stream

    def until(self, streams: set[int]) -> None:
        """Sends what waits, and reads until all of these have ended."""
        self.sock.sendall(self.machine.data_to_send())
        while not self.done.issuperset(streams):
            for event in self.machine.receive_data(self.sock.recv(65536)):
                if isinstance(event, h2.events.StreamReset):
                    raise SystemExit(f"a stream was reset: {event}")
                if isinstance(event, h2.events.StreamEnded):
                    self.done.add(event.stream_id)
            self.sock.sendall(self.machine.data_to_send())


def milliseconds(client: Client, count: int, blocked: str) -> float:
    """Until all small ones are answered."""
    waits = {client.ask(blocked)} if blocked else set()
    small = {client.ask("/small") for _ in range(count)}
    begun = time.perf_counter()
    client.until(small)
    taken = (time.perf_counter() - begun) * 1000
    client.until(waits)
    return taken


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=0.05, help="for how long one is blocked")
    options = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        certificate.make(folder)
        for driver, words in DRIVERS.items():
            with serving(folder, words) as port:
                client = Client(port)
                for _ in range(10):
                    milliseconds(client, options.streams - 1, "")
                rows = [
                    [
                        milliseconds(client, options.streams - 1, blocked)
                        for blocked in ("", f"/sleep?{options.seconds}")
                    ]
                    for _ in range(options.rounds)
                ]
            without, beside = (sorted(row[at] for row in rows) for at in (0, 1))
            later = statistics.median(beside) - statistics.median(without)
            last = int(len(rows) * 0.99)
            print(
                f"{driver:<10}the other {options.streams - 1}: median {statistics.median(without):.2f} ms alone, "
                f"{statistics.median(beside):.2f} ms beside one that is blocked, {later:.2f} ms later, wanted {WANTED} "
                f"at most; p99 {without[last]:.2f} and {beside[last]:.2f} ms"
            )
            missed |= later > WANTED
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
