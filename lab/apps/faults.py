"""Applications that go wrong, on purpose: what becomes of the server, and of everybody else's requests?

The idea is the readers' of article A ("Labour"). `/ok` beside them is what the others ask for.
"""

import ctypes
import os
import sys
import time

_kept = []
HANG_SECONDS = 3600
GIL_SECONDS = 3


def leak(start_response):
    """Keeps a megabyte for ever."""
    _kept.append(bytearray(1024 * 1024))
    return plain(start_response, b"leaked\n")


def hang(start_response):
    """Waits far longer than anybody has patience for; the interpreter is free meanwhile."""
    time.sleep(HANG_SECONDS)
    return plain(start_response, b"late\n")


def crash(start_response):
    """A segmentation fault, as of a broken extension."""
    ctypes.string_at(0)
    return plain(start_response, b"not reached\n")


def leave(start_response):
    """Leaves the process in the middle of a request."""
    os._exit(17)  # not 3, which gunicorn takes for an application that cannot be loaded


def raising_exit(start_response):
    """`sys.exit()` in a view, as careless code does."""
    sys.exit(4)


def gil(start_response):
    """Holds the interpreter's lock for three seconds, as an extension that does not let go of it."""
    ctypes.PyDLL(None).usleep(GIL_SECONDS * 1000000)
    return plain(start_response, b"held\n")


def raising(start_response):
    """Fails after the head and the first part."""
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "100")])

    def parts():
        yield b"the beginning\n"
        raise RuntimeError("planted by the lab")

    return parts()


def endless(start_response):
    """A stream without an end, a kilobyte at a time."""
    start_response("200 OK", [("Content-Type", "text/plain")])

    def parts():
        while True:
            yield b"." * 1024

    return parts()


def plain(start_response, body):
    """A short answer of a known length."""
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


VIEWS = {
    "/leak": leak,
    "/hang": hang,
    "/crash": crash,
    "/exit": leave,
    "/sys-exit": raising_exit,
    "/gil": gil,
    "/raise": raising,
    "/endless": endless,
}


def application(environ, start_response):
    """The fault of a path; everything else is well."""
    view = VIEWS.get(environ.get("PATH_INFO", ""))
    return view(start_response) if view else plain(start_response, b"ok\n")
