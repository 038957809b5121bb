"""A folder of files, the servers that send them, and requests for them."""

from __future__ import annotations

import ctypes
import importlib.util
import mmap
import os
import random
import socket
import time
from collections.abc import Callable
from pathlib import Path

from serving import PATIENCE, Serving, read_reply

#: Each way in which a worker is driven, with an application that counts what it is asked (`/count`).
DRIVERS = {
    "threads": ("pages:wsgi", "--threads", "4"),
    "asyncio": ("pages:asgi", "--lifespan", "off"),
    "gevent": ("pages:wsgi", "--worker-class", "gevent"),
}
if not importlib.util.find_spec("gevent"):
    del DRIVERS["gevent"]

#: 2020-01-02 03:04:05: long ago, so that entity tags are strong.
THEN = 1577934245
THEN_TEXT = "Thu, 02 Jan 2020 03:04:05 GMT"
CSS = b"body { color: #123456 }\n"
LARGE = random.Random(13).randbytes(1_000_003)

Reply = tuple[int, dict[str, str], bytes]


def put(path: Path, content: bytes, modified: int = THEN) -> Path:
    """A file of that content and age."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (modified, modified))
    return path


def replace(path: Path, content: bytes, modified: int) -> None:
    """Another file in the place of one, as a deployment does it."""
    put(path.with_name("new." + path.name), content, modified).rename(path)


def drop(path: Path) -> None:
    """Ask the kernel to have nothing of a file's content in memory; it keeps what somebody holds at that moment."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)


def pages_in_memory(path: Path) -> int:
    """How many of a file's pages the kernel has: mincore(2) of a mapping that is never touched."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        pages = (ctypes.c_ubyte * -(-len(mapped) // mmap.PAGESIZE))()
        address = ctypes.c_char.from_buffer(mapped)
        told = ctypes.CDLL(None).mincore(
            ctypes.c_void_p(ctypes.addressof(address)), ctypes.c_size_t(len(mapped)), pages
        )
        del address  # a mapping that is pointed at cannot be closed
    assert told == 0
    return sum(page & 1 for page in pages)


def forget(path: Path) -> None:
    """The kernel has nothing of a file's content in memory: its file system has to be on a disk."""
    end = time.monotonic() + PATIENCE
    while drop(path) or (kept := pages_in_memory(path)):
        assert time.monotonic() < end, f"the kernel keeps {kept} pages of {path}; is its file system one in memory?"
        time.sleep(0.02)


def fill(folder: Path) -> Path:
    """The folder that most of these tests serve."""
    put(folder / "site.css", CSS)
    put(folder / "empty.txt", b"")
    put(folder / "app.3f2a91c0.js", b"let a;\n")
    put(folder / "large.bin", LARGE)
    put(folder / "docs/index.html", b"<h1>docs</h1>")
    put(folder / "docs/more/a b.txt", b"blank")
    put(folder / "page.html", b"<p>plain</p>" * 20)
    put(folder / "page.html.br", b"as if brotli")
    put(folder / "page.html.gz", b"as if gzip")
    put(folder.parent / "secret.txt", b"SECRET")
    put(folder / ".env", b"SECRET")
    os.symlink("../secret.txt", folder / "out.txt")
    os.symlink("site.css", folder / "in.css")
    os.mkfifo(folder / "pipe")
    return folder


def ask(
    server: Serving, path: str, *lines: str, method: str = "GET", sock: socket.socket | None = None, more: bytes = b""
) -> Reply:
    """One request, on a connection of its own unless one is given."""
    if sock is None:
        with server.connect() as own:
            return ask(server, path, *lines, method=method, sock=own, more=more)
    head = "".join(f"{line}\r\n" for line in (f"{method} {path} HTTP/1.1", "Host: a", *lines))
    sock.sendall(head.encode("latin-1") + b"\r\n" + more)
    return read_reply(sock, bytearray(), head=method == "HEAD")


def asked_of_python(server: Serving) -> int:
    """How many requests the application has had before this one."""
    return int(ask(server, "/count")[2])


Start = Callable[..., Serving]
