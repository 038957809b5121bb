"""What looking inside costs a request in time of a processor: two servers that are loaded in turn.

    python bench/inside_cost.py                        this build with statistics, and the same build without
    python bench/inside_cost.py --against CHECKOUT     this build as it is served, and that of another checkout
    python bench/inside_cost.py --against CHECKOUT --off   this build without statistics, and that of another checkout
    python bench/inside_cost.py --with '--request-id'  this build with these options, and the same build without them:
                                                       of the worker's process alone, as others may have work with them
    python bench/inside_cost.py --names                names of requests, one of a hundred traced, and all of them: this
                                                       build with and without each, likewise of the worker alone; and
                                                       first the same without any of them twice, which shows how far
                                                       this machine can be believed (six minutes)
    python bench/inside_cost.py --rows asgi,pipelined --pairs 40 --seconds 2

Of each row both servers run at the same time, one worker each, on the first processor, and a wrk for each on the last
one, which are let go on in turn for 30 ms, every other turn in the other order: where the machine is
slower for a while, it is so for both. What is counted is the processor's time of all threads of a server's processes,
the kernel's part included, divided by the requests that its wrk has had answers to. Shown are the medians, and of the
ratios within pairs the median, the quartiles and the extremes. After four pairs both servers begin anew: where a
process has its memory makes it quicker or slower than its like by a few percent, for as long as it lives.
Bounds are what statistics may cost; beside another checkout a hundredth more, as all else that lies between them may
cost so much, and with --off that alone. Exit status 1: a median is above its bound. 20 pairs of two seconds take two
minutes for each row.

Nobody can export as many spans as wrk has requests answered, and a ring that is full costs less than one that is
written. So the exporter is stopped, and who measures says every millisecond that all has been read.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
#: The servers' processor, and that of all that loads them.
FIRST, LAST = min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0))
PAIRS, SECONDS, CONNECTIONS = 20, 2, 64
#: So many pairs are of the same two processes.
ANEW = 4
#: Seconds that one of a pair is loaded, until it is the turn of the other.
TURN = 0.03
#: What a row may cost, as a part of what it costs without; the application and options; what wrk is told.
ROWS: dict[str, tuple[float, str, list[str]]] = {
    "keepalive": (0.02, "wsgi", []),
    "browser": (0.02, "wsgi", ["-s", str(HERE / "browser.lua")]),
    # Headers that a view makes for each reply, and none of its constants.
    "made": (0.02, "made", []),
    "close": (0.01, "wsgi", ["-H", "Connection: close"]),
    "asgi": (0.02, "asgi --lifespan off", []),
    "pipelined": (0.06, "wsgi", ["-s", str(HERE / "pipeline.lua")]),
    "greenlets": (0.02, "wsgi --worker-class gevent", []),
}
#: What names and traces may cost the worker, and the options that switch them on. The first differs by nothing: on a
#: machine that is quiet enough to judge the others, its median is well below one percent.
NAMES: dict[str, tuple[float, list[str]]] = {
    "off, twice": (0.01, []),
    "request id": (0.03, ["--request-id"]),
    "traced, 1 %": (0.01, ["--trace-endpoint", "http://127.0.0.1:9", "--trace-sample", "0.01"]),
    "traced, all": (0.06, ["--trace-endpoint", "http://127.0.0.1:9"]),
}
#: Of rings of spans (`server/statistics/spans.rs`): bytes of a row's counts, and how many rows are looked at.
COUNTS_BYTES, COUNTS_ROWS = 64, 4
#: What all else may cost that lies between two checkouts.
BETWEEN = 0.01
APP = """
def wsgi(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return [b"pong\\n"]


def made(environ, start_response):
    body = b"pong\\n"
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


async def asgi(scope, receive, send):
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"content-type", b"text/plain"), (b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"pong\\n"})
"""
# Workers that are given no statistics keep none; nothing else differs.
WITHOUT = """
import sys
from forehand import _core, cli


def without(make):
    return lambda application, listeners, engine, *rest: make(
        application, listeners, {**engine, "statistics": None}, *rest
    )


for name in ("Server", "AsgiServer", "GeventServer"):
    setattr(_core, name, without(getattr(_core, name)))
sys.argv = ["forehand", *sys.argv[1:]]
sys.orig_argv = [sys.executable, "-X"]
sys.exit(cli.main())
"""


class Server:
    """One of the two, and the processes that it has become."""

    def __init__(self, command: list[str], target: str, folder: str, *, only: str = "") -> None:
        #: What the names of the processes begin with that are counted.
        self.only = only
        reader, writer = os.pipe()
        command, options = (command[: command.index("--")], command[command.index("--") + 1 :])
        application, *more = target.split()
        arguments = [f"app:{application}", *more, *options, "--bind", "127.0.0.1:0", "--workers", "1"]
        arguments += ["--log-level", "error", "--ready-fd", str(writer)]
        self.process = subprocess.Popen(
            [*command, *arguments], pass_fds=[writer], cwd=folder, start_new_session=True, stderr=subprocess.DEVNULL,
            preexec_fn=lambda: os.sched_setaffinity(0, {FIRST}),
        )  # fmt: skip
        os.close(writer)
        with os.fdopen(reader) as ready:
            self.port = int(json.loads(ready.readline())["listeners"][0].rpartition(":")[2])

    def used(self) -> int:
        """Nanoseconds of a processor that all threads of all its processes have used."""
        found = 0
        for status in Path("/proc").glob("[0-9]*"):
            try:
                name = (status / "comm").read_text()
                if os.getpgid(int(status.name)) == self.process.pid and name.startswith(self.only):
                    found += sum(int(task.read_text().split()[0]) for task in status.glob("task/*/schedstat"))
            except (ProcessLookupError, FileNotFoundError):
                continue
        return found

    def load(self, options: list[str], seconds: int) -> subprocess.Popen[str]:
        """A wrk that stops before it begins, and ends so many seconds later."""
        command = ["taskset", "-c", str(LAST), "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", *options]
        stopped = ["sh", "-c", 'kill -STOP $$ && exec "$@"', "sh", *command, f"http://127.0.0.1:{self.port}/"]
        return subprocess.Popen(stopped, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


class Reader:
    """Takes the place of the exporter of a server, if that has one: says of each span that it was read."""

    def __init__(self, server: Server) -> None:
        self.over, self.exporter = threading.Event(), 0
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
        for pid in map(int, children.read_text().split()):
            if Path(f"/proc/{pid}/comm").read_text().strip() == "forehand-traces":
                self.exporter = pid
        self.thread = threading.Thread(target=self._read, args=(server.process.pid,))
        if self.exporter:
            os.kill(self.exporter, signal.SIGSTOP)
            self.thread.start()

    def _read(self, pid: int) -> None:
        [fd] = [one for one in Path(f"/proc/{pid}/fd").iterdir() if "forehand-spans" in os.readlink(one)]
        with fd.open("r+b") as file, mmap.mmap(file.fileno(), COUNTS_BYTES * COUNTS_ROWS) as counts:
            while not self.over.wait(0.001):
                for row in range(0, len(counts), COUNTS_BYTES):
                    counts[row + 8 : row + 16] = counts[row : row + 8]

    def end(self) -> None:
        """Let it go on."""
        self.over.set()
        if self.exporter:
            self.thread.join()
            os.kill(self.exporter, signal.SIGCONT)


def measured(
    commands: tuple[list[str], list[str]], row: str, given: argparse.Namespace, only: str
) -> list[tuple[float, float]]:
    """Pairs of what a request takes: without, and inside. `only`: what processes are called that are counted."""
    pairs: list[tuple[float, float]] = []
    while (left := given.pairs - len(pairs)) > 0:
        pairs += by_two(commands, row, (min(left, given.anew), given.seconds), only)
    return pairs


def in_turn(first: Server, second: Server, options: list[str], seconds: int) -> tuple[float, float]:
    """Microseconds of a processor for each request of two servers, each of which is loaded for so long."""
    servers = (first, second)
    before = [server.used() for server in servers]
    loads = [server.load(options, 2 * seconds) for server in servers]
    for number in range(round(seconds / TURN)):
        for load in loads if number % 2 else reversed(loads):
            load.send_signal(signal.SIGCONT)
            time.sleep(TURN)
            load.send_signal(signal.SIGSTOP)
    for load in loads:
        load.send_signal(signal.SIGCONT)
    said = [load.communicate()[0] for load in loads]
    used = [server.used() - earlier for server, earlier in zip(servers, before, strict=True)]
    requests = [answered(words) for words in said]
    return used[0] / 1000 / requests[0], used[1] / 1000 / requests[1]


def answered(said: str) -> int:
    """How many replies wrk has had."""
    found = re.search(r"(\d+) requests in", said)
    if not found or found[1] == "0" or "Non-2xx" in said or "Socket errors" in said:
        raise SystemExit(f"this is no result:\n{said}")
    return int(found[1])


def by_two(
    commands: tuple[list[str], list[str]], row: str, times: tuple[int, int], only: str
) -> list[tuple[float, float]]:
    """The same of two servers that begin now. `times`: how many pairs, of how many seconds."""
    _, target, options = ROWS[row]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "app.py").write_text(APP)
        both = [Server(command, target, folder, only=only) for command in commands]
        readers = [Reader(server) for server in both]
        try:
            # The first warms both up.
            return [in_turn(both[0], both[1], options, times[1]) for _ in range(times[0] + 1)][1:]
        finally:
            for reader in readers:
                reader.end()
            for server in both:
                server.end()


def arms(given: argparse.Namespace) -> list[tuple[str, float, str, tuple[list[str], list[str]]]]:
    """What is compared: a name, its bound, the row, and the commands without and with it."""
    usual, off = [sys.executable, "-m", "forehand", "--"], [sys.executable, "-c", WITHOUT, "--"]
    rows = given.rows.split(",") if given.rows else ["keepalive"] if given.names else list(ROWS)
    if given.names:
        return [
            (f"{name}, {row}", bound, row, (usual, [*usual, *options]))
            for row in rows
            for name, (bound, options) in NAMES.items()
        ]
    if given.options:
        without, inside = usual, [*usual, *shlex.split(given.options)]
    elif given.against:
        without = [str(Path(given.against).resolve() / ".venv/bin/python"), "-m", "forehand", "--"]
        bounds = [BETWEEN + (0 if given.off else ROWS[row][0]) for row in rows]
        pair = (without, off if given.off else usual)
        return [(row, bound, row, pair) for row, bound in zip(rows, bounds, strict=True)]
    else:
        without, inside = off, usual
    return [(row, ROWS[row][0], row, (without, inside)) for row in rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", metavar="CHECKOUT", help="another checkout, with a .venv in which it is built")
    parser.add_argument("--off", action="store_true", help="with --against: this build without statistics")
    parser.add_argument("--with", dest="options", metavar="OPTIONS", help="options of the server, in one text")
    parser.add_argument("--names", action="store_true", help="what names of requests and traces cost")
    parser.add_argument("--rows", default="", help=f"of {','.join(ROWS)}; without it all, and keepalive with --names")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--seconds", type=int, default=SECONDS, help="of load, for each of a pair")
    parser.add_argument(
        "--anew", type=int, default=ANEW, metavar="PAIRS", help="how many, until both servers begin anew"
    )
    given = parser.parse_args()
    if not shutil.which("wrk"):
        parser.error("wrk is not installed: apt-get install wrk")
    if given.off and not given.against:
        parser.error("--off wants --against CHECKOUT: this build without statistics is what is compared anyway")
    only = "forehand-w" if given.options or given.names else ""
    # Who reads spans beside a server takes nothing of its processor.
    os.sched_setaffinity(0, {LAST})
    print(f"{'row':22} {'without':>9} {'inside':>9} {'median':>8} {'quartiles':>16} {'extremes':>17} {'bound':>7}")
    above = False
    for name, bound, row, commands in arms(given):
        pairs = measured(commands, row, given, only)
        off, on = (statistics.median(pair[at] for pair in pairs) for at in (0, 1))
        ratios = sorted(after / before - 1 for before, after in pairs)
        middle = statistics.median(ratios)
        low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
        above |= middle > bound
        print(
            f"{name:22} {off:6.2f} us {on:6.2f} us {middle:+8.1%} {low:+7.1%} {high:+7.1%}  {ratios[0]:+7.1%} "
            f"{ratios[-1]:+7.1%}  {bound:6.1%}{'  above' if middle > bound else ''}",
            flush=True,
        )
    return int(above)


if __name__ == "__main__":
    sys.exit(main())
