"""Applications that keep the interpreter's lock: a call into C, a regular expression; and ones that only wait."""

import ctypes
import os
import re
import time

PYTHON = ctypes.PyDLL(None)


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
    elif path == "/sleep":
        time.sleep(float(query))
    text = str(os.getpid()).encode()
    if path == "/client":
        known = (environ["REMOTE_ADDR"], environ["REMOTE_PORT"], environ.get("forehand.unique_id", "-"))
        text += f" {' '.join(known)}".encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
    return [text]
