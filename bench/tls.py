"""HTTPS beside nginx and granian: what a reply costs, what a handshake costs, and who waits for one.

    tls.py rates [--rounds 5] [--seconds 3]   a small reply and a file of 100 KiB over 32 kept connections, and a small
                                              reply by HTTP/2, 4 connections of 8 streams
    tls.py rates --share 0.5                  the same of servers that have half a processor (needs root), so that the
                                              rate is theirs where wrk cannot ask for more
    tls.py plain [--share 0.5]                HTTP/2 without TLS (h2c), 4 connections of 8 streams, beside HTTP/1 on 32
                                              connections and granian's h2c, all asked by h2load
    tls.py handshakes [--count 2000]          CPU of a full handshake (TLS 1.3, ECDSA P-256), accept included
    tls.py beside [--rate 200]                p99 of kept requests with and without so many full handshakes a second
    tls.py idle [--connections 10000]         memory of an idle connection that has had a request, by HTTP/1 and HTTP/2

`rates` needs wrk and h2load, `plain` h2load; nginx is left out where there is none, and so is granian unless
`--granian` names its command.
Server on CPU 0, load on CPU 1; each round has every server once, in turn, so that a machine that drifts drifts for
all, and the ratio of a round is the figure. Clients of handshakes bring no ticket. In `beside` the bystander goes
before everything else on its processor (SCHED_FIFO where that is allowed) and asks each 5 ms on a connection that it
has; who shakes hands has the rest of that processor, and what it could not do in time is told.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import re
import resource
import shutil
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import certificate
from beside_raw import answers, cpu, free_port, pss
from bystander import DRIVERS, alone
from shares import sharing, tree

HERE = Path(__file__).resolve().parent
SMALL, LARGE, STREAMS = "a small reply", "100 KiB of a file", "the same by HTTP/2"
CONNECTIONS = 32
PACE = 0.005
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
#: What is wanted of Forehand's rate divided by another's.
WANTED = {
    (SMALL, "nginx"): 1.0, (SMALL, "granian"): 1.5, (LARGE, "nginx"): 1.0,
    (STREAMS, "nginx"): 0.9, (STREAMS, "granian"): 1.5,
}  # fmt: skip
#: The same of h2c, and how h2load asks.
PLAIN_WANTED = {("forehand", "HTTP/1"): 1.0, ("granian", "h2c"): 1.5}
PLAIN = {"h2c": ("-c4", "-m8"), "HTTP/1": (f"-c{CONNECTIONS}", "--h1")}
#: Of CPU of a handshake divided by nginx's, of p99 beside handshakes divided by p99 without, of KiB a connection.
HANDSHAKE, BESIDE, IDLE_KIB = 0.7, 1.5, {"http/1.1": 4.0, "h2": 8.0}
#: Of a browser's first request by HTTP/2: what its static table does not have, and the server's keeps from then on.
FIELDS = (
    ("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"),
    ("accept", "text/html,application/xhtml+xml"), ("accept-language", "de,en;q=0.5"), ("cookie", "a=" + "b" * 60),
)  # fmt: skip
NGINX = """
daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 16384; }}
http {{
    access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; keepalive_timeout 600s;
    open_file_cache max=1000 inactive=60s; open_file_cache_valid 60s;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem; ssl_protocols TLSv1.2 TLSv1.3;
    server {{
        listen 127.0.0.1:{port} ssl http2 backlog=1024;
        location / {{ default_type text/plain; return 200 "Pong!"; }}
        location /static/ {{ alias {folder}/files/; }}
    }}
}}
"""
FOREHAND = [sys.executable, "-m", "forehand", "--workers", "0", "--log-level", "error", "--keep-alive-timeout", "600"]


def prepare(folder: Path) -> None:
    """A certificate with its key, and a file to be sent."""
    certificate.make(folder)
    (folder / "files").mkdir()
    (folder / "files" / "100k.bin").write_bytes(os.urandom(100 * 1024))


def commands(folder: Path, granian: str) -> dict[str, Callable[[int], list[str]]]:
    """The servers that there are, as commands for a port."""
    pair = [str(folder / "cert.pem"), str(folder / "key.pem")]
    found: dict[str, Callable[[int], list[str]]] = {
        "forehand": lambda port: [
            *FOREHAND, "pong:application", "--bind", f"https://127.0.0.1:{port}", "--tls-cert", pair[0],
            "--tls-key", pair[1], "--static", f"/static={folder / 'files'}",
        ],
    }  # fmt: skip
    if nginx := shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin"):

        def with_nginx(port: int) -> list[str]:
            (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port))
            return [nginx, "-p", str(folder), "-c", str(folder / "nginx.conf")]

        found["nginx"] = with_nginx
    if granian:
        found["granian"] = lambda port: [
            granian, "--interface", "wsgi", "--host", "127.0.0.1", "--port", str(port), "--ssl-certificate", pair[0],
            "--ssl-keyfile", pair[1], "--no-access-log", "--log-level", "error", "pong:application",
        ]  # fmt: skip
    return found


@contextlib.contextmanager
def serving(command: Callable[[int], list[str]]) -> Iterator[tuple[int, int]]:
    """A server on CPU 0: its port, and its first process."""
    port = free_port()
    process = subprocess.Popen(
        command(port), cwd=HERE, stdout=subprocess.DEVNULL, start_new_session=True, preexec_fn=alone
    )
    try:
        answers(port)
        yield port, process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def used(pid: int) -> float:
    """Seconds of CPU of all of them."""
    return sum(cpu(one) for one in tree(pid))


def stranger() -> ssl.SSLContext:
    """A client that believes everybody and brings no ticket."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def connected(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    """A connection whose handshake is complete."""
    sock = socket.create_connection(("127.0.0.1", port), 60)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(sock, server_hostname="localhost")


def ask(sock: ssl.SSLSocket) -> None:
    """One small request and its reply."""
    sock.sendall(REQUEST)
    got = b""
    while b"\r\n\r\n" not in got or len(got.partition(b"\r\n\r\n")[2]) < length(got):
        part = sock.recv(65536)
        if not part:
            raise SystemExit("a server has closed a connection in the middle")
        got += part


def length(head: bytes) -> int:
    """What Content-Length says."""
    found = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    return int(found[1]) if found else 0


def ratio(ours: list[float], theirs: list[float]) -> str:
    """The median of rounds, with the least and the greatest."""
    each = [one / other for one, other in zip(ours, theirs, strict=True)]
    return f"{statistics.median(each):.2f} ({min(each):.2f}-{max(each):.2f})"


def asked(load: str, port: int, seconds: int) -> tuple[int, float]:
    """How many requests a load had answered, and how many a second."""
    url = f"https://127.0.0.1:{port}{'/static/100k.bin' if load == LARGE else '/'}"
    if load == STREAMS:
        command = ["h2load", "-t1", "-c4", "-m8", f"-D{seconds}", url]
    else:
        command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}", url]
    text = subprocess.run(["taskset", "-c", "1", *command], capture_output=True, text=True, check=True).stdout
    if load == STREAMS:
        return succeeded(text, "h2")
    if "Non-2xx" in text or "Socket errors" in text:
        raise SystemExit(f"{load}: {text}")
    return int(re.findall(r"(\d+) requests in", text)[0]), float(re.findall(r"Requests/sec:\s+([\d.]+)", text)[0])


def succeeded(text: str, protocol: str) -> tuple[int, float]:
    """What h2load says of its requests: how many, and how many a second."""
    failed = re.search(r"(\d+) failed", text)
    if f"Application protocol: {protocol}\n" not in text or not failed or failed[1] != "0":
        raise SystemExit(f"{protocol}: {text}")
    return int(re.findall(r"(\d+) succeeded", text)[0]), float(re.findall(r"([\d.]+) req/s", text)[0])


def plain(_: Path, options: argparse.Namespace) -> None:
    """Requests a second and CPU of a request, without TLS."""

    def ours(port: int) -> list[str]:
        return [*FOREHAND, "pong:application", "--bind", f"http://127.0.0.1:{port}"]

    def theirs(port: int) -> list[str]:
        command = [options.granian, "--interface", "wsgi", "--host", "127.0.0.1", "--port", str(port), "--http", "2"]
        return [*command, "--no-access-log", "--log-level", "error", "pong:application"]

    rows = [("forehand", ours, "h2c"), ("forehand", ours, "HTTP/1")]
    if options.granian:
        rows.append(("granian", theirs, "h2c"))
    seen: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for turn in range(options.rounds):
        for name, command, load in rows:
            with serving(command) as (port, pid), sharing(pid, options.share):
                before = used(pid)
                asking = ["taskset", "-c", "1", "h2load", "-t1", *PLAIN[load], f"-D{options.seconds}"]
                asking.append(f"http://127.0.0.1:{port}/")
                text = subprocess.run(asking, capture_output=True, text=True, check=True).stdout
                done, rate = succeeded(text, "h2c" if load == "h2c" else "http/1.1")
                seen.setdefault((name, load), []).append((rate, (used(pid) - before) / done * 1e6))
            print(f"round {turn + 1} of {options.rounds}: {name}, {load}", file=sys.stderr)
    streams = seen["forehand", "h2c"]
    for (name, load), found in seen.items():
        line = f"{name:<10}{load:<8}{statistics.median(row[0] for row in found):>9.0f}/s"
        line += f"{statistics.median(row[1] for row in found):>9.1f} us of CPU"
        line += f"{statistics.median(row[0] * row[1] / 1e6 for row in found) / options.share:>6.0%} of its share"
        if wanted := PLAIN_WANTED.get((name, load)):
            told = ratio([row[0] for row in streams], [row[0] for row in found])
            line += f"   the rate of forehand's h2c divided by this: {told}, wanted {wanted}"
            line += f"; this one's CPU by that: {ratio([row[1] for row in found], [row[1] for row in streams])}"
        print(line)


def rates(folder: Path, options: argparse.Namespace) -> None:
    """Requests a second and CPU of a request."""
    seen: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for turn in range(options.rounds):
        for name, command in commands(folder, options.granian).items():
            with serving(command) as (port, pid), sharing(pid, options.share):
                for load in (SMALL, LARGE, STREAMS):
                    if name == "granian" and load == LARGE:
                        continue
                    before = used(pid)
                    done, rate = asked(load, port, options.seconds)
                    seen.setdefault((load, name), []).append((rate, (used(pid) - before) / done * 1e6))
            print(f"round {turn + 1} of {options.rounds}: {name}", file=sys.stderr)
    for (load, name), rows in seen.items():
        line = f"{load:<20}{name:<10}{statistics.median(row[0] for row in rows):>9.0f}/s"
        line += f"{statistics.median(row[1] for row in rows):>9.1f} us of CPU"
        # Well below all of its share, the load is what asks for no more, and rates say little of the server.
        used_share = statistics.median(row[0] * row[1] / 1e6 for row in rows) / options.share
        line += f"{used_share:>6.0%} of its share"
        if name != "forehand":
            ours = seen[load, "forehand"]
            told = ratio([row[0] for row in ours], [row[0] for row in rows])
            line += f"   forehand's rate divided by this: {told}, wanted {WANTED[load, name]}"
            line += f"; this one's CPU by forehand's: {ratio([row[1] for row in rows], [row[1] for row in ours])}"
        print(line)


def handshakes(folder: Path, options: argparse.Namespace) -> None:
    """CPU microseconds of a full handshake, and of a connection that is then closed."""
    os.sched_setaffinity(0, {1})
    context = stranger()
    seen: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for name, command in commands(folder, options.granian).items():
            with serving(command) as (port, pid):
                connected(port, context).close()
                before = used(pid)
                for _ in range(options.count):
                    connected(port, context).close()
                time.sleep(0.1)  # the last ones are closed there, too
                seen.setdefault(name, []).append((used(pid) - before) / options.count * 1e6)
    for name, values in seen.items():
        line = f"a full handshake    {name:<10}{statistics.median(values):>9.0f} us of CPU"
        if name == "nginx":
            line += f"   forehand's divided by this: {ratio(seen['forehand'], values)}, wanted {HANDSHAKE} at most"
        print(line)


def times(port: int, seconds: float) -> list[float]:
    """Times of small requests on a kept connection, in milliseconds."""
    found: list[float] = []
    with connected(port, stranger()) as sock:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(PACE)
            begun = time.perf_counter()
            ask(sock)
            found.append((time.perf_counter() - begun) * 1000)
    return sorted(found)


def shake(port: int, rate: float, done: Any) -> None:
    """So many full handshakes a second, until it is killed."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    context, begun = stranger(), time.monotonic()
    while True:
        time.sleep(max(0.0, begun + done.value / rate - time.monotonic()))
        connected(port, context).close()
        done.value += 1


def p99(values: list[float]) -> float:
    """The 99th percentile of sorted values."""
    return values[int(len(values) * 0.99)]


def driven(words: list[str], folder: Path, port: int) -> list[str]:
    """Forehand under one driver."""
    pair = ["--tls-cert", str(folder / "cert.pem"), "--tls-key", str(folder / "key.pem")]
    return [*FOREHAND, *words, "--bind", f"https://127.0.0.1:{port}", *pair]


def beside(folder: Path, options: argparse.Namespace) -> None:
    """p99 of kept requests beside full handshakes, under each driver."""
    os.sched_setaffinity(0, {1})
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    for name, words in DRIVERS.items():
        rows, reached = [], []
        with serving(partial(driven, words, folder)) as (port, _):
            times(port, 0.5)
            for _ in range(options.rounds):
                calm = p99(times(port, options.seconds))
                done = multiprocessing.Value("Q", 0)
                client = multiprocessing.Process(target=shake, args=(port, options.rate, done))
                client.start()
                time.sleep(0.3)
                before, begun = done.value, time.monotonic()
                rows.append((calm, p99(times(port, options.seconds))))
                reached.append((done.value - before) / (time.monotonic() - begun))
                client.kill()
                client.join()
        calm, busy = (statistics.median(row[at] for row in rows) for at in (0, 1))
        told = ratio([row[1] for row in rows], [row[0] for row in rows])
        print(
            f"{name:<10}p99 {calm:.2f} ms, beside {statistics.median(reached):.0f} handshakes/s {busy:.2f} ms: {told}, "
            f"wanted {BESIDE} at most"
        )


def asks_on_a_stream(sock: ssl.SSLSocket) -> None:
    """The same by HTTP/2, whose connection begins with it: no window ever has to grow."""
    frame = b"%b%c%c%b"
    head = b"\x82\x87\x84" + b"\x41\x09localhost"
    for name, value in FIELDS:
        head += b"\x40%c%b%c%b" % (len(name), name.encode(), len(value), value.encode())
    settings = frame % (bytes(3), 4, 0, bytes(4)) + frame % (bytes(3), 4, 1, bytes(4))
    asked = frame % (len(head).to_bytes(3, "big"), 1, 5, b"\0\0\0\x01")
    sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings + asked + head)
    got = b""
    while not is_answered(got):
        part = sock.recv(65536)
        if not part:
            raise SystemExit("a server has closed a connection of HTTP/2")
        got += part


def is_answered(frames: bytes) -> bool:
    """One of the frames ends a stream."""
    while len(frames) >= 9 and len(frames) >= (end := 9 + int.from_bytes(frames[:3], "big")):
        if frames[3] in (0, 1) and frames[4] & 1:
            return True
        frames = frames[end:]
    return False


def held(port: int, pid: int, protocol: str, count: int) -> float:
    """KiB more for each of so many connections; the first ones make a server get what it keeps."""
    context = stranger()
    context.set_alpn_protocols([protocol])
    socks: list[ssl.SSLSocket] = []
    seen: list[float] = []
    for more in (200, count):
        for _ in range(more):
            sock = connected(port, context)
            if sock.selected_alpn_protocol() not in (protocol, None):
                raise SystemExit(f"{protocol} was not agreed on")
            (asks_on_a_stream if protocol == "h2" else ask)(sock)
            socks.append(sock)
        time.sleep(0.5)
        seen.append(sum(pss(one) for one in tree(pid)))
    for sock in socks:
        sock.close()
    return (seen[1] - seen[0]) * 1024 / count


def idle(folder: Path, options: argparse.Namespace) -> None:
    """KiB of an idle connection."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))
    for protocol, bound in IDLE_KIB.items():
        for name, command in commands(folder, options.granian).items():
            with serving(command) as (port, pid):
                each = held(port, pid, protocol, options.connections)
            line = f"an idle connection  {protocol:<10}{name:<10}{each:>9.2f} KiB"
            print(line + f", wanted {bound} at most" * (name == "forehand"), flush=True)


def main() -> int:
    """Measure and print; the exit status."""
    modes = {"rates": rates, "plain": plain, "handshakes": handshakes, "beside": beside, "idle": idle}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=modes)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--share", type=float, default=1, help="of its processor, for each server (default: all of it)")
    parser.add_argument("--granian", default=shutil.which("granian") or "", help="granian's command")
    options = parser.parse_args()
    options.seconds = max(1, round(options.seconds)) if options.mode == "rates" else options.seconds
    for tool in ("openssl", *(("wrk", "taskset") if options.mode == "rates" else ())):
        if not shutil.which(tool):
            raise SystemExit(f"{tool} is missing: install it (Debian: {tool if tool != 'taskset' else 'util-linux'})")
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        modes[options.mode](Path(folder), options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
