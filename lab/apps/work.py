"""What real applications do: bodies, computing, templates, a database, waiting."""

import os
import sqlite3
import string
import tempfile
import threading
import time
import zlib

LARGE = 8 * 1024 * 1024
SLOW_SECONDS = 0.05
ROWS = 1000
ROW = string.Template('<li id="n$number">$name has $count items</li>\n')
_local = threading.local()
_lock = threading.Lock()


def post(environ):
    """Reads the whole body; its length and checksum."""
    source, size, check = environ["wsgi.input"], 0, 0
    left = int(environ.get("CONTENT_LENGTH") or -1)
    while left != 0:
        part = source.read(min(left, 65536) if left > 0 else 65536)
        if not part:
            break
        size, check = size + len(part), zlib.crc32(part, check)
        left = left - len(part) if left > 0 else left
    return ("%d %08x\n" % (size, check & 0xFFFFFFFF)).encode()


def cpu(environ):
    """Some milliseconds of pure Python: primes below 4,000."""
    sieve = bytearray([1]) * 4000
    for number in range(2, 64):
        for multiple in range(number * number, 4000, number):
            sieve[multiple] = 0
    return ("%d\n" % sum(sieve[2:])).encode()


def template(environ):
    """A list of two hundred rows from a template."""
    rows = [ROW.substitute(number=n, name="person %d" % n, count=n * 7 % 13) for n in range(200)]
    return ("<html><body><ul>\n%s</ul></body></html>\n" % "".join(rows)).encode()


def _filled():
    """A database in a file of this folder, filled once."""
    name = os.path.join(os.environ.get("LAB_SCRATCH") or tempfile.gettempdir(), "lab-work.sqlite3")
    with _lock:
        connection = sqlite3.connect(name, timeout=30)
        with connection:
            # Several processes may come here at once: the first to write wins, the others find it done.
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("CREATE TABLE IF NOT EXISTS items (id INTEGER PRIMARY KEY, name TEXT, price INTEGER)")
            if connection.execute("SELECT count(*) FROM items").fetchone()[0] == 0:
                rows = [(n, "item %d" % n, n * 37 % 1009) for n in range(ROWS)]
                connection.executemany("INSERT INTO items VALUES (?, ?, ?)", rows)
    return connection


def sqlite(environ):
    """The ten dearest items, from a connection of this thread."""
    if not hasattr(_local, "connection"):
        _local.connection = _filled()
    rows = _local.connection.execute("SELECT id, name, price FROM items ORDER BY price DESC, id LIMIT 10")
    return b"".join(("%d %s %d\n" % row).encode() for row in rows)


def slow(environ):
    """Waits as for a database that takes 50 ms."""
    time.sleep(SLOW_SECONDS)
    return b"slow\n"


def large(environ):
    """Eight mebibytes."""
    return b"0123456789abcdef" * (LARGE // 16)


VIEWS = {
    "/post": post,
    "/cpu": cpu,
    "/template": template,
    "/sqlite": sqlite,
    "/slow": slow,
    "/fast": lambda environ: b"fast\n",
    "/large": large,
}


def application(environ, start_response):
    """The view of a path; 404 for others."""
    view = VIEWS.get(environ.get("PATH_INFO", ""))
    body = view(environ) if view else b"no such view\n"
    headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))]
    start_response("200 OK" if view else "404 Not Found", headers)
    return [body]
