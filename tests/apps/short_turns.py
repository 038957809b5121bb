"""A view that computes until another one says that it is enough; others tell how long turns of the interpreter are."""

import sys
import threading

ENOUGH = threading.Event()


def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/burn":
        while not ENOUGH.is_set():
            pass
    elif path == "/enough":
        ENOUGH.set()
    body = str(sys.getswitchinterval()).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
