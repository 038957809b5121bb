"""Each view has a child count, as one does that starts a program; and counts itself."""

import os

from prometheus_client import Counter, Gauge

DONE = Counter("shop_done", "What was done.", ["by"])
ALIVE = Gauge("shop_alive", "Processes that are there.", multiprocess_mode="livesum")


def application(environ, start_response):
    child = os.fork()
    if child == 0:
        DONE.labels("child").inc()
        ALIVE.set(1)
        os._exit(0)
    os.waitpid(child, 0)
    DONE.labels("view").inc()
    ALIVE.set(1)
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
