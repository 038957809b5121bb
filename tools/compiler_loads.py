"""What a module that counts is asked for the compiler's profile (compiler_profile.py): requests of all usual kinds.

Most are plain ones over kept connections, a few or many at a time, as they are what servers are compared by. The others
are often enough that what runs for each of them is known, too.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hot_functions import BROWSER, CLOSING, FORM, PLAIN, alone, crowd, exchange

ROOT = Path(__file__).resolve().parent.parent
SOURCE = """
import asyncio
import ctypes
import itertools

LINES = [("Content-Type", "text/plain"), ("Content-Length", "5")]
#: Some heads change with each reply.
bodies = itertools.cycle([bytes(many) + b"Pong!" for many in range(40)])
#: Ends the process as a program ends, in which what was counted is written down: a server's worker ends otherwise.
end = ctypes.CDLL(None).exit


def wsgi(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/":
        body = b"Pong!"
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
        return [body]
    if path == "/constant":
        start_response("200 OK", LINES)
        return [b"Pong!"]
    if path == "/parts":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return (part for part in (b"Po", b"ng", b"!"))
    if path == "/end":
        end(0)
    body = next(bodies)
    if path == "/form":
        environ["wsgi.input"].read()
    start_response("404 Not Found", [("Content-Length", str(len(body))), ("Set-Cookie", "a=b"), ("Vary", "Cookie")])
    return [body]


async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (event := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": event["text"]})
        return
    if scope["path"] == "/end":
        end(0)
    if scope["path"] == "/form":
        await receive()
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"5")]
    if scope["path"] == "/parts":
        await asyncio.sleep(0)
        del headers[1]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if scope["path"] == "/parts":
        await send({"type": "http.response.body", "body": b"Po", "more_body": True})
        await send({"type": "http.response.body", "body": b"ng!"})
    else:
        await send({"type": "http.response.body", "body": b"Pong!"})
"""
UPGRADE = (
    PLAIN[:-2] + b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
#: A text as a client sends it, with a mask that changes nothing.
MESSAGE = b"\x81\x85\0\0\0\0Pong!"
UPLOAD = (
    b"POST /form HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"400\r\n" + 1024 * b"a" + b"\r\n0\r\n\r\n"
)


def asked(path: str) -> bytes:
    """A plain request for a path."""
    return PLAIN.replace(b" / ", f" {path} ".encode())


@contextmanager
def served(folder: Path, environ: dict[str, str], *arguments: str) -> Iterator[int]:
    """A server of one worker, and its port; in the end the worker writes down what it has counted."""
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "forehand", *arguments, "--bind", "127.0.0.1:0", "--workers", "1"]
    server = subprocess.Popen(
        [*command, "--ready-fd", str(writer), "--log-level", "critical"],
        cwd=folder,
        pass_fds=[writer],
        env=environ,
        start_new_session=True,
    )
    os.close(writer)
    try:
        with os.fdopen(reader) as ready:
            listeners = json.loads(ready.readline())["listeners"]
        asked_first, told_last = (int(listener.rpartition(":")[2]) for listener in listeners)
        yield asked_first
        with socket.create_connection(("127.0.0.1", told_last)) as client:
            client.sendall(asked("/end"))
            while client.recv(65536):
                pass
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def http1(port: int) -> None:
    """Plain requests most of all."""
    for _ in range(10):
        for request in (PLAIN, BROWSER, asked("/constant")):
            crowd(port, request, 64, 40)
            crowd(port, request, 3, 200)
            crowd(port, request, 1, 300)
        crowd(port, PLAIN, 16, 40, 16)
        alone(port, CLOSING, 800)
    for request in (FORM, UPLOAD, asked("/other"), BROWSER.replace(b" / ", b" /other?a=%20b ")):
        crowd(port, request, 8, 100)
    # The reply's parts are chunks.
    parts = socket.create_connection(("127.0.0.1", port))
    for _ in range(600):
        parts.sendall(asked("/parts"))
        taken = b""
        while not taken.endswith(b"0\r\n\r\n"):
            taken += parts.recv(65536)
    parts.close()


def websocket(port: int) -> None:
    """Short messages that come back."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(UPGRADE)
        while b"\r\n\r\n" not in client.recv(65536):
            pass
        for _ in range(4000):
            exchange(client, MESSAGE)


def tls(port: int) -> None:
    """HTTPS by both protocols."""
    from h2client import Client

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with context.wrap_socket(socket.create_connection(("127.0.0.1", port))) as client:
        for _ in range(3000):
            exchange(client, PLAIN)
    context.set_alpn_protocols(["h2"])
    with Client(port, sock=context.wrap_socket(socket.create_connection(("127.0.0.1", port)))) as h2:
        for _ in range(150):
            streams = [h2.ask("/") for _ in range(16)]
            h2.flush()
            h2.replies(streams)


def by_uwsgi(port: int) -> None:
    """As nginx passes requests on."""
    from gatewayrequests import uwsgi, variables

    alone(port, uwsgi(variables()), 3000)


def serve_all(folder: Path, environ: dict[str, str]) -> None:
    """Serve all of it, one server after the other."""
    # Clients of other protocols are those of the tests.
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/server")]
    (folder / "loads.py").write_text(SOURCE)
    (folder / "files").mkdir()
    (folder / "files/a.txt").write_text("Pong!")
    plain = ("--bind", "127.0.0.1:0")

    def files(port: int) -> None:
        crowd(port, asked("/files/a.txt"), 8, 300)

    loads: list[tuple[str, list[Callable[[int], None]], tuple[str, ...]]] = [
        ("WSGI and files", [http1, files], ("loads:wsgi", *plain, "--static", "/files=files")),
        ("ASGI and WebSockets", [http1, websocket], ("loads:asgi", *plain, "--loop", "uvloop")),
        ("greenlets", [http1], ("loads:wsgi", *plain, "--worker-class", "gevent")),
        ("HTTPS and HTTP/2", [tls], ("loads:wsgi", "--bind", "https://127.0.0.1:0", "--tls-self-signed")),
        ("uwsgi", [by_uwsgi], ("loads:wsgi", "--bind", "uwsgi:127.0.0.1:0")),
    ]
    for name, several, arguments in loads:
        began = time.monotonic()
        with served(folder, environ, *arguments) as port:
            for load in several:
                load(port)
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
