"""Instructions outside the kernel that a request takes, of this build and of another checkout's.

    python bench/instructions.py [--against CHECKOUT] [--functions 30]
                                 [--rows pipelined,close,keepalive,few,made,browser,asgi,websocket,greenlets]

A server of one process and one worker thread runs under valgrind's callgrind. When it has answered some requests its
counts are set to zero, and taken when it has answered 3,200 more; of its threads the one that has done most is shown.
The clock goes slower for it (`slow_clock.c`), or all requests would be slow ones, which are answered otherwise. Another
load changes a figure by some tens of instructions, and by hundreds with greenlets, where it matters how many replies
wait for one another; each takes a quarter of a minute where nothing else runs. Of WebSockets each message that comes
back is one. Event loops are uvloop's, greenlets gevent's: both checkouts need them.
`--functions`: where they are, of this build with statistics. It needs valgrind, and a C compiler.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from inside import SERVE
from inside_cost import APP

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Row:
    """A load. The first batches of a server are answered otherwise, so that some come before it is counted."""

    connections: int = 8
    pipeline: int = 1
    before: int = 1600
    server: tuple[str, ...] = ("app:wsgi", "--threads", "1")
    asked: bytes = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answered: bytes = b"pong\n"
    opened_by: bytes = b""


CLOSED = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
BROWSER = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\n"
    b"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n"
    b"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\n"
    b"Accept-Encoding: gzip, deflate, br\r\nReferer: http://localhost/shop\r\nDNT: 1\r\n"
    b"Cookie: session=abc123; theme=dark\r\nUpgrade-Insecure-Requests: 1\r\n"
    b"Sec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: same-origin\r\n\r\n"
)
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
#: A text of twelve bytes, as a client sends it (with a mask that changes nothing) and as a server does.
TEXT = b"twelve bytes"
ROWS = {
    "pipelined": Row(pipeline=16, before=9600),
    # 0: one for each request.
    "close": Row(connections=0, asked=CLOSED),
    "keepalive": Row(),
    # Two requests for each look at the kernel, as there are where a client is as fast as the server.
    "few": Row(connections=2, server=("app:made", "--threads", "1")),
    # Headers that a view makes for each reply, and none of its constants; and what a browser says.
    "made": Row(server=("app:made", "--threads", "1")),
    "browser": Row(server=("app:made", "--threads", "1"), asked=BROWSER),
    "asgi": Row(server=("app:asgi", "--loop", "uvloop", "--lifespan", "off")),
    "websocket": Row(
        server=("echo:app", "--loop", "uvloop", "--lifespan", "off"), opened_by=UPGRADE,
        asked=b"\x81\x8c\0\0\0\0" + TEXT, answered=b"\x81\x0c" + TEXT,
    ),
    "greenlets": Row(server=("app:wsgi", "-k", "gevent")),
}  # fmt: skip
COUNTED = 3200
PATIENCE = 60


def connect(port: int, row: Row) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    if row.opened_by:
        sock.sendall(row.opened_by)
        got = b""
        while not got.endswith(b"\r\n\r\n"):
            got += sock.recv(65536)
    return sock


def ask(port: int, row: Row, socks: list[socket.socket], count: int) -> None:
    """So many requests, each with its reply."""
    for _ in range(count // max(row.connections, 1) // row.pipeline):
        asked = socks or [connect(port, row)]
        for sock in asked:
            sock.sendall(row.asked * row.pipeline)
        for sock in asked:
            got = b""
            while got.count(row.answered) < row.pipeline:
                got += sock.recv(65536)
        if not socks:
            asked[0].close()


def counted(checkout: Path, row: Row, folder: Path, *, on: bool) -> Path:
    """What callgrind has written of the worker's thread."""
    (folder / "app.py").write_text(APP)
    shutil.copy(HERE / "echo.py", folder)
    reader, writer = os.pipe()
    arguments = [*row.server, "--bind", "127.0.0.1:0", "--workers", "0", "--ready-fd", str(writer)]
    command = ["valgrind", "--tool=callgrind", "--separate-threads=yes", f"--callgrind-out-file={folder}/out"]
    command += [str(checkout / ".venv/bin/python"), "-c"]
    code = SERVE.format(arguments=[*arguments, "--log-level", "error"], on=on, more={})
    environ = {**os.environ, "PYTHONHASHSEED": "0", "LD_PRELOAD": str(folder / "slow_clock.so")}
    process = subprocess.Popen([*command, code], pass_fds=[writer], cwd=folder, stderr=subprocess.DEVNULL, env=environ)
    os.close(writer)
    try:
        with os.fdopen(reader) as ready:
            port = int(json.loads(ready.readline())["listeners"][0].rpartition(":")[2])
        socks = [connect(port, row) for _ in range(row.connections)]
        for count, order in ((row.before, "zero"), (COUNTED, "dump")):
            ask(port, row, socks, count)
            # What follows the last reply counts, too.
            time.sleep(0.3)
            # Not callgrind_control, which looks for a command line: the server has a title.
            subprocess.run(["vgdb", f"--pid={process.pid}", order], capture_output=True, check=True)
    finally:
        process.kill()
        process.wait()
    return max(folder.glob("out*-*"), key=total)


def total(written: Path) -> int:
    found = re.search(r"^(?:summary|totals): (\d+)", written.read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


def functions(written: Path) -> collections.Counter[str]:
    """Instructions of each function, without those that it calls."""
    names: dict[str, str] = {}
    counts: collections.Counter[str] = collections.Counter()
    current, of_a_call = "", False
    for line in written.read_text().splitlines():
        if found := re.match(r"(c?fn)=\((\d+)\)(?: (.*))?", line):
            if found[3]:
                names[found[2]] = found[3]
            if found[1] == "fn":
                current = found[2]
        elif line.startswith("calls="):
            of_a_call = True
        elif found := re.match(r"[+\-*\d]\S* (\d+)$", line):
            counts[current] += 0 if of_a_call else int(found[1])
            of_a_call = False
    return collections.Counter({names[number]: count for number, count in counts.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", metavar="CHECKOUT", help="another checkout, with a .venv in which it is built")
    parser.add_argument("--rows", default=",".join(ROWS), help="which loads")
    parser.add_argument("--functions", type=int, default=0, help="show so many")
    given = parser.parse_args()
    here = (HERE.parent, "this build")
    arms = [(*here, False), (*here, True)]
    if given.against:
        arms.insert(0, (Path(given.against).resolve(), given.against, False))
    for row in given.rows.split(","):
        for checkout, name, on in arms:
            with tempfile.TemporaryDirectory() as folder:
                library = ["cc", "-O2", "-shared", "-fPIC", "-o", f"{folder}/slow_clock.so", str(HERE / "slow_clock.c")]
                subprocess.run(library, check=True)
                written = counted(checkout, ROWS[row], Path(folder), on=on)
                what = "with statistics" if on else "without"
                print(f"{row:10} {name}, {what}: {total(written) / COUNTED:.0f} instructions a request", flush=True)
                shown = functions(written).most_common(given.functions if on else 0)
            for function, count in shown:
                print(f"{count / COUNTED:10.1f}  {function}")


if __name__ == "__main__":
    main()
