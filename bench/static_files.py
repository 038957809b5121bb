"""Files by `--static` beside nginx, and pages of a server that sends files beside those of one that does not.

    static_files.py rates [--rounds 5] [--seconds 3]    requests a second and CPU of a request, beside nginx
    static_files.py rates --share 0.5                   the same of servers that have half a processor (needs root)
    static_files.py slow                                1,000 readers that take 16 KiB/s each of 10 MiB
    static_files.py cold                                files that a slow disk has to be asked for (needs root)

`rates` needs wrk and nginx. Server on CPU 0, load on CPU 1; each round has every server once, in turn, so that a
machine that drifts drifts for all; the ratio of a round is the figure. `busy` says how much of its processor a server
used: where that is not nearly all, the rate is what wrk can ask for and not what the server can send. `--share` has
the kernel give each server no more than that part of its processor (cpu.cfs_quota_us, in periods of 10 ms), so that
the rate is the server's again. Where the processors are shared with others, it is the CPU of a request that tells.

`slow` and `cold` ask for a page of the application at a steady rate, in each round without the files and beside them;
`cold` has the kernel limit what the server reads from its disk (blkio.throttle.read_bps_device), and asks asyncio how
late its timers come. Latencies want processors that nobody else has: `chrt -r 1` before the command, as root, takes
them for those moments.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import resource
import selectors
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from beside_raw import answers, cpu, free_port
from offered import Offered, at_rates
from shares import grouped, sharing, tree

HERE = Path(__file__).resolve().parent
#: The size of the page in the classic static scenario (lab/scenarios/static-file.toml).
PAGE = 41_148
#: Load, the file, the flags of wrk, and what is wanted: Forehand's rate divided by nginx's.
RATES = (
    ("1 KiB", "1k.bin", ["-c64"], 1.5),
    ("100 KiB", "100k.bin", ["-c64"], 0.95),
    ("41 KB page", "page.html", ["-c10", "-H", "Connection: close"], 1.0),
    ("41 KB page, kept alive", "page.html", ["-c64"], 1.0),
)
NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 2048; }}
http {{
    access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000;
    open_file_cache max=1000 inactive=60s; open_file_cache_valid 60s;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    types {{ text/html html; }}
    server {{ listen 127.0.0.1:{port} backlog=1024; location /static/ {{ alias {folder}/files/; }} }}
}}
"""
#: Pages asked for in a second while others take files.
PAGES = 200
READERS, READER_RATE, LARGE = 1000, 16 * 1024, 10 * 1024 * 1024
Rate = tuple[float, float, float]
COLD, COLD_RATE, COLD_FILES = 64 * 1024 * 1024, 16 * 1024 * 1024, 4


@contextlib.contextmanager
def serving(command: list[str], folder: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A server on CPU 0, in a process group of its own, until it is no longer wanted."""
    port = free_port()
    if command[0].endswith("nginx"):
        Path(folder, "nginx.conf").write_text(NGINX.format(folder=folder, port=port))
    process = subprocess.Popen(
        [part.replace("{port}", str(port)) for part in command],
        cwd=HERE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {0}),
    )  # fmt: skip
    try:
        answers(port)
        yield process, port
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def nginx(folder: str) -> list[str]:
    """The command of nginx for these files."""
    return [shutil.which("nginx") or "/usr/sbin/nginx", "-c", f"{folder}/nginx.conf"]


def forehand(folder: str, app: str = "pong:application", *more: str) -> list[str]:
    """The command of Forehand for the same."""
    mount = f"/static={folder}/files"
    return [sys.executable, "-m", "forehand", app, "--bind", "127.0.0.1:{port}", "--static", mount, *more]


def rate(command: list[str], folder: str, file: str, flags: list[str], options: argparse.Namespace) -> Rate:
    """Requests a second, microseconds of CPU of one, and how much of its processor the server used."""
    seconds = options.seconds
    with serving(command, folder) as (process, port), sharing(process.pid, options.share):
        url = f"http://127.0.0.1:{port}/static/{file}"
        with urllib.request.urlopen(url) as reply:
            assert reply.read() == Path(folder, "files", file).read_bytes(), f"{command[0]} sends something else"
        load = ["taskset", "-c", "1", "wrk", "-t1", *flags, url]
        subprocess.run([*load, "-d1"], capture_output=True, check=True)
        pids = tree(process.pid)
        before = sum(map(cpu, pids))
        text = subprocess.run([*load, f"-d{seconds}"], capture_output=True, text=True, check=True).stdout
        if "Non-2xx" in text or "Socket errors" in text:
            raise SystemExit(f"{command[0]} {file}: {text}")
        used = sum(map(cpu, pids)) - before
        done = int(re.findall(r"(\d+) requests in", text)[0])
        each = float(re.findall(r"Requests/sec:\s+([\d.]+)", text)[0])
        return each, used / done * 1e6, used / done * each


def beside_nginx(folder: str, options: argparse.Namespace) -> None:
    """The table of rates."""
    commands = {"forehand": forehand(folder), "nginx": nginx(folder)}
    print(f"{'load':<24}{'nginx/s':>9}{'ours/s':>9}{'ratio':>7}{'spread':>13}{'wanted':>8}", end="")
    print(f"{'nginx us':>10}{'ours us':>9}{'CPU':>6}{'busy':>12}")
    for load, file, flags, wanted in RATES:
        seen: dict[str, list[Rate]] = {name: [] for name in commands}
        for turn in range(options.rounds):
            # Whoever is first in one round is last in the next.
            for name in sorted(commands, reverse=bool(turn % 2)):
                seen[name].append(rate(commands[name], folder, file, flags, options))
        ratios = [ours[0] / theirs[0] for ours, theirs in zip(seen["forehand"], seen["nginx"], strict=True)]
        costs = [ours[1] / theirs[1] for ours, theirs in zip(seen["forehand"], seen["nginx"], strict=True)]
        mid = {name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in seen.items()}
        print(
            f"{load:<24}{mid['nginx'][0]:>9.0f}{mid['forehand'][0]:>9.0f}{statistics.median(ratios):>7.2f}"
            f"{min(ratios):>7.2f}-{max(ratios):<5.2f}{wanted:>8.2f}{mid['nginx'][1]:>10.2f}{mid['forehand'][1]:>9.2f}"
            f"{statistics.median(costs):>6.2f}{mid['nginx'][2]:>6.2f}{mid['forehand'][2]:>6.2f}",
            flush=True,
        )


def p99(pages: Offered) -> float:
    """Milliseconds. All pages must have come."""
    if pages.failed or pages.refused:
        raise SystemExit(f"{pages.failed} pages failed, {len(pages.refused)} were refused")
    return sorted(pages.done)[int(len(pages.done) * 0.99)] * 1e3


def asked(port: int, seconds: int, path: str = "/") -> float:
    """Pages at a steady rate; their p99 in milliseconds."""
    pages = Offered(port, path)
    at_rates([(pages, PAGES)], seconds)
    return p99(pages)


def shown(without: list[float], beside: list[float]) -> str:
    """Medians of p99, and of the rounds' ratios."""
    ratios = [one / other for one, other in zip(beside, without, strict=True)]
    mid = statistics.median
    spread = f"{mid(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
    return f"p99 {mid(without):.2f} -> {mid(beside):.2f} ms, ratio {spread}"


def in_child(work: Callable[[], None]) -> int:
    """Runs something in a process of its own, which the caller ends."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(1)
    return pid


def read_slowly(port: int, told: int) -> None:
    """As many readers as there shall be, each of which takes so much in a second; one byte when all have begun."""
    readers = []
    for _ in range(READERS):
        reader = socket.socket()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, READER_RATE)
        reader.connect(("127.0.0.1", port))
        reader.send(b"GET /static/large.bin HTTP/1.1\r\nHost: a\r\n\r\n")
        assert reader.recv(64).startswith(b"HTTP/1.1 200 "), "a reader is refused"
        readers.append(reader)
    os.write(told, b".")
    while True:
        begun = time.monotonic()
        for number, reader in enumerate(readers):
            # Spread over the second.
            time.sleep(max(0.0, begun + number / READERS - time.monotonic()))
            if not reader.recv(READER_RATE):
                raise SystemExit("a reader was cut off")


def resident(pid: int) -> int:
    """KiB of memory of a process and its children, of their own and of files."""
    texts = [Path(f"/proc/{one}/status").read_text() for one in tree(pid)]
    return sum(int(found[1]) for text in texts if (found := re.search(r"VmRSS:\s+(\d+) kB", text)))


def beside_slow_readers(folder: str, options: argparse.Namespace) -> None:
    """Pages without readers and with them, and the memory that readers cost."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, max(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    without, beside, grown = [], [], []
    for _ in range(options.rounds):
        with serving(forehand(folder), folder) as (process, port):
            asked(port, 1)
            without.append(asked(port, options.seconds))
            before = resident(process.pid)
            listen, tell = os.pipe()
            child = in_child(lambda port=port, tell=tell: read_slowly(port, tell))  # type: ignore[misc]
            try:
                assert os.read(listen, 1), "the readers have ended"
                beside.append(asked(port, options.seconds))
                grown.append(resident(process.pid) - before)
                assert os.waitpid(child, os.WNOHANG) == (0, 0), "the readers have ended"
            finally:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                os.close(listen)
                os.close(tell)
    print(f"pages beside {READERS} slow readers of {LARGE >> 20} MiB: {shown(without, beside)}, wanted 1.20")
    print(f"  RSS {statistics.median(grown):+.0f} KiB ({min(grown)} to {max(grown)}), wanted 1024")


def slow_disk(process: subprocess.Popen[bytes], folder: str) -> contextlib.AbstractContextManager[None]:
    """What a server reads of the disk of a folder is limited."""
    device = os.stat(folder).st_dev
    limit = f"{os.major(device)}:{os.minor(device)} {COLD_RATE}"
    return grouped(process.pid, "blkio", {"blkio.throttle.read_bps_device": limit})


def forget(path: Path) -> None:
    """The kernel has nothing of a file in memory any more."""
    with path.open("r+b") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def take_files(port: int, names: list[str], told: int) -> None:
    """Takes files, all at the same time, as fast as they come; one byte when each has begun."""
    selector = selectors.DefaultSelector()
    for name in names:
        taker = socket.create_connection(("127.0.0.1", port))
        taker.send(f"GET /static/{name} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        selector.register(taker, selectors.EVENT_READ)
    taken = 0
    while taken < COLD_RATE * 3600:
        for key, _ in selector.select():
            got = len(key.fileobj.recv(1 << 20))  # type: ignore[union-attr]
            if not got:
                raise SystemExit("a file was cut off")
            taken = taken + got
            if told >= 0 and taken > 1 << 20:
                os.write(told, b".")
                told = -1


def beside_cold_files(folder: str, options: argparse.Namespace) -> None:
    """Pages without, and beside files that come from a slow disk, on threads and on asyncio."""
    names = [f"cold{number}.bin" for number in range(COLD_FILES)]
    for name in names:
        with Path(folder, "files", name).open("wb") as file:
            file.truncate(0)
            for _ in range(COLD >> 20):
                file.write(os.urandom(1 << 20))
    for app, more in (("pong:application", ()), ("lag:application", ("--interface", "asgi"))):
        without, beside, lags = [], [], []
        for _ in range(options.rounds):
            for name in names:
                forget(Path(folder, "files", name))
            with serving(forehand(folder, app, *more), folder) as (process, port), slow_disk(process, folder):
                without.append(asked(port, options.seconds))
                lag(port)
                quiet = asked(port, options.seconds) and lag(port)
                listen, tell = os.pipe()
                child = in_child(lambda port=port, tell=tell: take_files(port, names, tell))  # type: ignore[misc]
                try:
                    assert os.read(listen, 1), "the files have ended"
                    lag(port)
                    beside.append(asked(port, options.seconds))
                    lags.append((quiet, lag(port)))
                    assert os.waitpid(child, os.WNOHANG) == (0, 0), "the files have ended: the disk was not slow"
                finally:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    os.close(listen)
                    os.close(tell)
        files = f"{COLD_FILES} files from a disk of {COLD_RATE >> 20} MiB/s"
        print(f"{app}: pages beside {files}: {shown(without, beside)}, wanted 1.50")
        if app.startswith("lag"):
            print(f"  the loop's timers were late by (most, p99) ms, without and with: {json.dumps(lags)}, wanted 5")


def lag(port: int) -> list[float]:
    """How late the loop's timers were since this was last asked: the most and p99, in milliseconds."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/lag") as reply:
        text = reply.read().decode()
    return [] if text == "Pong!" else [round(float(part), 2) for part in text.split()]


def main() -> int:
    """Makes the files, measures and prints; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("rates", "slow", "cold"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--share", type=float, default=1, help="of its processor, for each server (default: all of it)")
    options = parser.parse_args()
    for tool, hint in (("wrk", "Debian: wrk"), ("taskset", "Debian: util-linux")):
        if not shutil.which(tool):
            raise SystemExit(f"{tool} is missing: install it ({hint})")
    if not os.access(nginx("")[0], os.X_OK):
        raise SystemExit("nginx is missing: install it (Debian: nginx-light)")
    os.sched_setaffinity(0, {1})
    # On a disk, and to be read by nginx's own user.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        Path(folder, "files").mkdir()
        for name, size in (("1k.bin", 1024), ("100k.bin", 100 * 1024), ("page.html", PAGE), ("large.bin", LARGE)):
            Path(folder, "files", name).write_bytes(os.urandom(size))
        {"rates": beside_nginx, "slow": beside_slow_readers, "cold": beside_cold_files}[options.what](folder, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
