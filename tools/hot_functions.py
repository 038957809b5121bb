"""Finds which functions of the module run while it serves, for the linker to put side by side (crates/bridge/build.rs).

    hot_functions.py       writes crates/bridge/hot_functions.txt; a minute or two, and valgrind is needed

A server of threads and one of asyncio run under callgrind, in the release build (`make build`), which has the names.
Counted is from the moment at which a worker lets go of what it needed only to begin; requests are those of most days:
kept connections, a browser's headers, a connection for each, pipelined ones, a small form. Whoever is not in the list
is found by its module, so that an old list costs some pages of memory and nothing else.
"""

from __future__ import annotations

import collections
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WRITTEN = ROOT / "crates/bridge/hot_functions.txt"
SOURCE = """
def wsgi(environ, start_response):
    environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return [b"Pong!"]

async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"Pong!"})
"""
PLAIN = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
BROWSER = PLAIN[:-2] + (
    b"User-Agent: Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/128.0\r\nAccept: text/html,*/*;q=0.8\r\n"
    b"Accept-Language: en-GB,en;q=0.5\r\nAccept-Encoding: gzip, br\r\nCookie: session=0123456789abcdef\r\n\r\n"
)
FORM = b"POST /form?a=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 7\r\n\r\na=1&b=2"
#: How often each kind of request is made.
TIMES = 100


def exchange(client: socket.socket, request: bytes, replies: int = 1) -> None:
    """Send, and read so many replies of the application."""
    client.sendall(request)
    taken = b""
    while taken.count(b"Pong!") < replies:
        piece = client.recv(65536)
        if not piece:
            raise SystemExit(f"the server has closed a connection after {taken!r}")
        taken += piece


def load(port: int) -> None:
    """Requests of each kind."""
    for request, replies in ((PLAIN, 1), (BROWSER, 1), (FORM, 1), (PLAIN * 16, 16)):
        with socket.create_connection(("127.0.0.1", port)) as kept:
            for _ in range(TIMES):
                exchange(kept, request, replies)
    # Several at a time are read together, and their replies sent together.
    crowd = [socket.create_connection(("127.0.0.1", port)) for _ in range(16)]
    for _ in range(TIMES // 4):
        for client in crowd:
            client.sendall(PLAIN)
        for client in crowd:
            exchange(client, b"")
    for client in crowd:
        client.close()
    for _ in range(TIMES):
        with socket.create_connection(("127.0.0.1", port)) as client:
            exchange(client, PLAIN[:-2] + b"Connection: close\r\n\r\n")


def counted(target: str, folder: Path) -> str:
    """What callgrind has written of a server that has served and ended."""
    reader, writer = os.pipe()
    server = subprocess.Popen(
        ["valgrind", "--tool=callgrind", "--demangle=no", "--compress-strings=no", "--zero-before=*give_back_memory*",
         "--trace-children=yes", sys.executable, "-m", "forehand", f"hot:{target}", "--workers", "1",
         "--bind", "127.0.0.1:0", "--ready-fd", str(writer)],
        cwd=folder, pass_fds=[writer], stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(writer)
    with os.fdopen(reader) as ready:
        port = int(json.loads(ready.readline())["listeners"][0].rpartition(":")[2])
    # Longer than the seconds after which a worker looks at this and that.
    end = time.monotonic() + 10
    while time.monotonic() < end:
        load(port)
    worker = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()[0]
    server.send_signal(signal.SIGTERM)
    server.wait()
    return (folder / f"callgrind.out.{worker}").read_text()


def calls(text: str) -> collections.Counter[str]:
    """How often each function of the module was called; once at least where that is not seen."""
    found: collections.Counter[str] = collections.Counter()
    here = there = called = ""
    for line in text.splitlines():
        kind, _, rest = line.partition("=")
        if kind == "ob":
            here = there = rest
        elif kind == "cob":
            there = rest
        elif kind == "fn" and "/_core." in here:
            found[rest] += 0
        elif kind == "cfn":
            called = rest
        elif kind == "calls":
            if "/_core." in there:
                found[called] += int(rest.split()[0])
            there = here
    return found


def without_hashes(name: str) -> str:
    """A mangled name as a pattern that another build and another compiler's libraries fit, too."""
    name = re.sub(r"'\d+$", "", name)
    name = re.sub(r"17h[0-9a-f]{16}E", "17h*", name)
    return re.sub(r"Cs[0-9A-Za-z]+_", "Cs*_", name)


def main() -> int:
    """Count and write; the exit status."""
    found: dict[str, collections.Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "hot.py").write_text(SOURCE)
        for target in ("wsgi", "asgi"):
            found[target] = collections.Counter()
            for name, count in calls(counted(target, Path(folder))).items():
                if re.match(r"_[A-Z_]", name):
                    found[target][without_hashes(name)] += count
    first = {name for name, count in found["wsgi"].items() if count >= TIMES}
    second = {name for name, count in found["asgi"].items() if count >= TIMES} - first
    third = {name for counts in found.values() for name in counts} - first - second
    lines = ["# Written by tools/hot_functions.py: what runs while a worker serves, by mangled names without hashes."]
    for title, names in (("For each request of WSGI", first), ("Of ASGI", second), ("Seldom, or to begin", third)):
        lines += [f"# {title}:", *sorted(names)]
        print(f"{title}: {len(names)} functions")
    WRITTEN.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
