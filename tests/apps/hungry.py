"""Views that end badly for their worker: one takes memory without end, one waits."""

import time

EATEN = []


def application(environ, start_response):
    path = environ["PATH_INFO"]
    while path == "/eat":
        EATEN.append(b"x" * (1 << 20))
    if path == "/wait":
        time.sleep(60)
    start_response("200 OK", [("Content-Length", "0")])
    return [b""]
