"""A shop with six faults, so that it can be tried how each is found: docs/looking-inside.md shows it."""

import ctypes
import sqlite3
import tempfile
import threading
import time

SESSIONS = {}
STOCK, LEDGER = threading.Lock(), threading.Lock()
BOTH_ARE_INSIDE = threading.Barrier(2)
CATALOGUE = [f"article {number * 7919 % 1_000_003}" for number in range(300_000)]
DATABASE = tempfile.NamedTemporaryFile(suffix=".sqlite")
PICTURE = bytes(32_000_000)


def basket(visitor):
    """The leak: every visitor gets a session, and none is ever forgotten."""
    SESSIONS[visitor] = bytearray(10_000)


def sell():
    """The deadlock: who sells takes the stock's lock first."""
    with STOCK:
        BOTH_ARE_INSIDE.wait()
        with LEDGER:
            pass


def book():
    """And who books the ledger's: each waits for what the other has."""
    with LEDGER:
        BOTH_ARE_INSIDE.wait()
        with STOCK:
            pass


def price_list():
    """The lock hog: a sort of so many texts is one call of C, which keeps the interpreter to itself."""
    return sorted(CATALOGUE)


def nightly_job(seconds, has_begun):
    """Keeps the database locked for so long."""
    connection = sqlite3.connect(DATABASE.name, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    has_begun.set()
    time.sleep(seconds)
    connection.close()


def orders(seconds):
    """The slow database: somebody else has locked it."""
    has_begun = threading.Event()
    threading.Thread(target=nightly_job, args=(seconds, has_begun)).start()
    has_begun.wait()
    connection = sqlite3.connect(DATABASE.name, timeout=60)
    connection.execute("CREATE TABLE IF NOT EXISTS orders (number INTEGER)")
    connection.close()


def broken():
    """The crash: code in C reads what is not there."""
    ctypes.string_at(0)


def application(environ, start_response):
    """Each path has its fault."""
    path = environ["PATH_INFO"]
    content = b"ok\n"
    if path.startswith("/basket/"):
        basket(path)
    elif path == "/sell":
        sell()
    elif path == "/book":
        book()
    elif path == "/prices":
        price_list()
    elif path.startswith("/orders/"):
        orders(float(path.removeprefix("/orders/")))
    elif path == "/picture":
        content = PICTURE
    elif path == "/broken":
        broken()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(content)))])
    return [content]
