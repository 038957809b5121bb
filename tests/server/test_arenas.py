"""A worker has no more of the C library's heaps than threads can run, so that what threads have freed is used again."""

from __future__ import annotations

import os
import platform
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from serving import Serving

Serve = Callable[..., Serving]

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has arenas")

#: So many threads allocate side by side: without a bound glibc would make a heap for each.
THREADS = 12

#: As many as threads can run at once, and two where only one can.
BOUND = max(2, len(os.sched_getaffinity(0)))

APPLICATION = f"""
import asyncio
import concurrent.futures
import ctypes
import re
import threading

THREADS = {THREADS}
MEETING = threading.Barrier(THREADS)
POOL = concurrent.futures.ThreadPoolExecutor(THREADS)


def heaps():
    '''How many heaps the C library has made by now.'''
    libc = ctypes.CDLL(None)
    libc.open_memstream.restype = ctypes.c_void_p
    text, length = ctypes.c_char_p(), ctypes.c_size_t()
    file = ctypes.c_void_p(libc.open_memstream(ctypes.byref(text), ctypes.byref(length)))
    libc.malloc_info(0, file)
    libc.fclose(file)
    return len(re.findall(b"<heap nr=", text.value))


def allocate():
    '''Blocks that are too large for Python's own allocator and too small for one of their own of the kernel's.'''
    MEETING.wait(30)
    blocks = [bytearray(size) for size in range(1000, 100_000, 1000)]
    MEETING.wait(30)
    return blocks


def application(environ, start_response):
    if environ["PATH_INFO"] != "/heaps":
        allocate()
    text = str(heaps()).encode()
    start_response("200 OK", [("Content-Length", str(len(text)))])
    return [text]


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    if scope["path"] != "/heaps":
        await asyncio.get_running_loop().run_in_executor(POOL, allocate)
    text = str(heaps()).encode()
    length = [(b"content-length", str(len(text)).encode())]
    await send({{"type": "http.response.start", "status": 200, "headers": length}})
    await send({{"type": "http.response.body", "body": text}})
"""

KINDS = pytest.mark.parametrize("kind", ["application", "asgi"])


def heaps(serve: Serve, cwd: Path, kind: str, **env: str) -> int:
    """How many heaps a worker has after all its threads have been at work at once."""
    (cwd / "allocating.py").write_text(APPLICATION)
    threads = ("--threads", str(THREADS)) if kind == "application" else ()
    server = serve(f"allocating:{kind}", *threads, cwd=cwd, env=env)

    def ask(path: str) -> int:
        with urllib.request.urlopen(server.url + path, timeout=60) as reply:
            return int(reply.read())

    with ThreadPoolExecutor(THREADS) as pool:
        assert len(list(pool.map(ask, ["/"] * THREADS))) == THREADS
    return ask("/heaps")


@KINDS
def test_there_are_no_more_than_can_be_at_work(serve: Serve, tmp_path: Path, kind: str) -> None:
    assert heaps(serve, tmp_path, kind) <= BOUND


@KINDS
@pytest.mark.parametrize(
    "said", [{"MALLOC_ARENA_MAX": "7"}, {"GLIBC_TUNABLES": "glibc.malloc.arena_max=7"}], ids=["old", "tunable"]
)
def test_the_environment_is_heeded(serve: Serve, tmp_path: Path, kind: str, said: dict[str, str]) -> None:
    assert heaps(serve, tmp_path, kind, **said) == 7
