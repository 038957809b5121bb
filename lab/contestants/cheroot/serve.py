"""Starts cheroot: serve.py HOST PORT MODULE:ATTRIBUTE THREADS BACKLOG."""

import importlib
import signal
import sys

from cheroot import wsgi

host, port, target, threads, backlog = sys.argv[1:6]
module, _, attribute = target.partition(":")
application = getattr(importlib.import_module(module), attribute)
server = wsgi.Server(
    (host, int(port)), application, numthreads=int(threads), request_queue_size=int(backlog), max=int(threads)
)
# Ten kept connections are its default; the others keep as many as come.
server.keep_alive_conn_limit = None
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
try:
    server.start()
finally:
    server.stop()
