"""Starts Rocket: serve.py HOST PORT MODULE:ATTRIBUTE THREADS BACKLOG."""

import importlib
import sys

try:
    from rocket3 import Rocket3 as Rocket
except ImportError:
    from rocket import Rocket

host, port, target, threads, backlog = sys.argv[1:6]
module, _, attribute = target.partition(":")
application = getattr(importlib.import_module(module), attribute)
server = Rocket(
    (host, int(port)),
    "wsgi",
    {"wsgi_app": application},
    min_threads=int(threads),
    max_threads=int(threads),
    queue_size=int(backlog),
)
server.start()
