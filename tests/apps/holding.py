"""Applications that keep the interpreter's lock: a call into C, a regular expression; and ones that only wait."""

import ctypes
import os
import re
import threading
import time

PYTHON = ctypes.PyDLL(None)


def hold_until_read(path):
    """Waits until somebody reads from this named pipe, and then keeps the interpreter until they end that."""
    pipe = os.open(path, os.O_WRONLY)
    much = bytes(2 << 20)
    PYTHON.write(pipe, much, len(much))
    os.close(pipe)


def application(environ, start_response):
    path, query = environ["PATH_INFO"], environ["QUERY_STRING"]
    if path == "/hold":
        PYTHON.usleep(int(float(query) * 1e6))  # unlike `CDLL`, this does not let go
    elif path == "/match":
        re.match("(a+)+$", "a" * int(query) + "b")
    elif path == "/burn":
        until = time.monotonic() + float(query)
        while time.monotonic() < until:
            pass
    elif path == "/held":
        hold_until_read(query)
    elif path == "/held-aside":
        threading.Thread(target=hold_until_read, args=[query], daemon=True).start()
    elif path == "/sleep":
        time.sleep(float(query))
    text = str(os.getpid()).encode()
    if path == "/client":
        known = (environ["REMOTE_ADDR"], environ["REMOTE_PORT"], environ.get("forehand.unique_id", "-"))
        text += f" {' '.join(known)}".encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
    return [text]
