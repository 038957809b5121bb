"""The application that `bench/steady.py` asks: some work, uploads, slow views, streams."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

#: How long a request's work takes, in seconds of CPU.
WORK = 0.0003


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """By path: /work?N, /upload, /sleep?S, /stream, /burn?S."""
    path, query = environ["PATH_INFO"], environ["QUERY_STRING"]
    if path == "/stream":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return stream()
    if path == "/upload":
        body = str(sum(environ["wsgi.input"].read())).encode()
    elif path == "/sleep":
        time.sleep(float(query))
        body = b"slept"
    elif path == "/burn":
        burn(float(query))
        body = b"burnt"
    else:
        burn(WORK)
        body = f"done {query}".encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


def burn(seconds: float) -> None:
    """Use so much of a processor, in this thread."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def stream() -> Iterator[bytes]:
    """A second of parts."""
    for _ in range(20):
        yield b"part\n"
        time.sleep(0.05)


def stuck(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """The same, and two paths that never come back."""
    if environ["PATH_INFO"] == "/spin":
        while True:
            pass
    if environ["PATH_INFO"] == "/deadlock":
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
    return application(environ, start_response)
