"""Finds which functions of the module run while it serves, for the linker to put side by side (crates/bridge/build.rs).

    hot_functions.py       writes crates/bridge/hot_functions.txt; a minute or two, and valgrind is needed

A server of threads and one of asyncio run under callgrind, in the release build (`make build`), which has the names.
Counted is from the moment at which a worker lets go of what it needed only to begin; requests are those of most days:
kept connections, a browser's headers, a connection for each, pipelined ones, a small form. Whoever is not in the list
is found by its module, so that an old list costs some pages of memory and nothing else. What is called from one place
alone has a function of its own only where the module is built without the compiler's profile, which is to be listed as
well: FOREHAND_WITHOUT_PROFILE=1 make build.
"""

from __future__ import annotations

import collections
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WRITTEN = ROOT / "crates/bridge/hot_functions.txt"
SOURCE = """
import itertools

#: Heads of replies are no more the same each time than those of most applications.
bodies = itertools.cycle([bytes(many) + b"Pong!" for many in range(40)])

def wsgi(environ, start_response):
    environ["wsgi.input"].read()
    body = next(bodies)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]

async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    await receive()
    body = next(bodies)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})
"""
PLAIN = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
BROWSER = PLAIN[:-2] + (
    b"User-Agent: Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/128.0\r\nAccept: text/html,*/*;q=0.8\r\n"
    b"Accept-Language: en-GB,en;q=0.5\r\nAccept-Encoding: gzip, br\r\nCookie: session=0123456789abcdef\r\n\r\n"
)
CLOSING = PLAIN[:-2] + b"Connection: close\r\n\r\n"
FORM = b"POST /form?a=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 7\r\n\r\na=1&b=2"
#: How often each kind of request is made.
TIMES = 100
#: Instructions of a function that count as a call of it.
LOOP = 50
#: What is called so often while a worker serves is done again and again, though not for each request.
AGAIN = 2
#: How long nothing is asked between two loads, in seconds: what looks after a worker that rests is seen as well.
REST = 0.5


def exchange(client: socket.socket, request: bytes, replies: int = 1) -> None:
    """Send, and read so many replies of the application."""
    client.sendall(request)
    taken = b""
    while taken.count(b"Pong!") < replies:
        piece = client.recv(65536)
        if not piece:
            raise SystemExit(f"the server has closed a connection after {taken!r}")
        taken += piece


def crowd(port: int, request: bytes, many: int, rounds: int, replies: int = 1) -> None:
    """So many clients at a time, each of which asks again when all have been answered."""
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(many)]
    for _ in range(rounds):
        for client in clients:
            client.sendall(request * replies)
        for client in clients:
            exchange(client, b"", replies)
    for client in clients:
        client.close()


def alone(port: int, request: bytes, times: int) -> None:
    """A connection for each request."""
    for _ in range(times):
        with socket.create_connection(("127.0.0.1", port)) as client:
            exchange(client, request)


def load(port: int) -> None:
    """Requests of each kind."""
    for request, replies in ((PLAIN, 1), (BROWSER, 1), (FORM, 1), (PLAIN, 16)):
        crowd(port, request, 1, TIMES, replies)
    # Several at a time are read together, and their replies sent together.
    crowd(port, PLAIN, 16, TIMES // 4)
    alone(port, CLOSING, TIMES)
    # Who measures for a while leaves in the middle of it, with replies unread.
    for replies in (1, 16) * 4:
        with socket.create_connection(("127.0.0.1", port)) as client:
            exchange(client, PLAIN * replies, replies)
            client.sendall(PLAIN * replies)
            client.recv(1)
    for _ in range(4):
        with socket.create_connection(("127.0.0.1", port)) as client:
            # It is reset, before its replies come.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(PLAIN * 16)


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
    end = time.monotonic() + 12
    while time.monotonic() < end:
        load(port)
        time.sleep(REST)
    worker = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()[0]
    server.send_signal(signal.SIGTERM)
    server.wait()
    return (folder / f"callgrind.out.{worker}").read_text()


def runs(text: str) -> collections.Counter[str]:
    """How often each function of the module was called, or a `LOOP`th of the instructions that it ran itself, where
    that is more: what serves in a loop is called once. One at least of what was seen."""
    called: collections.Counter[str] = collections.Counter()
    ran: collections.Counter[str] = collections.Counter()
    here = there = function = callee = ""
    of_callee = False
    for line in text.splitlines():
        kind, _, rest = line.partition("=")
        if kind == "ob":
            here = there = rest
        elif kind == "cob":
            there = rest
        elif kind == "fn":
            function = rest if "/_core." in here else ""
        elif kind == "cfn":
            callee = rest
        elif kind == "calls":
            if "/_core." in there:
                called[callee] += int(rest.split()[0])
            there, of_callee = here, True
        elif line[:1] in set("0123456789+-*"):
            # A place, and what ran there; behind a call it is what the callee and all below it ran.
            if function and not of_callee:
                ran[function] += int(line.split()[1])
            of_callee = False
    return collections.Counter({name: max(called[name], ran[name] // LOOP, 1) for name in called | ran})


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
            for name, count in runs(counted(target, Path(folder))).items():
                if re.match(r"_[A-Z_]", name):
                    found[target][without_hashes(name)] += count
    groups: dict[str, list[str]] = {}
    listed: set[str] = set()
    for title, target, least in (
        ("For each request of WSGI", "wsgi", TIMES),
        ("Now and then beside those", "wsgi", AGAIN),
        ("For each request of ASGI", "asgi", TIMES),
        ("Now and then beside those of ASGI", "asgi", AGAIN),
        ("To begin or to end", "wsgi", 0),
        ("The same with ASGI", "asgi", 0),
    ):
        names = [name for name, count in found[target].items() if count >= least and name not in listed]
        # What runs more often first, as powers of two are compared: two builds have nearly the same list.
        groups[title] = sorted(names, key=lambda name: (-found[target][name].bit_length(), name))
        listed.update(names)
    lines = ["# Written by tools/hot_functions.py: what runs while a worker serves, by mangled names without hashes."]
    for title, names in groups.items():
        lines += [f"# {title}:", *names]
        print(f"{title}: {len(names)} functions")
    WRITTEN.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
