"""Starts Paste's thread-pooled server: serve.py HOST PORT MODULE:ATTRIBUTE THREADS BACKLOG."""

import importlib
import sys

from paste import httpserver

host, port, target, threads, backlog = sys.argv[1:6]
module, _, attribute = target.partition(":")
application = getattr(importlib.import_module(module), attribute)
httpserver.serve(
    application,
    host=host,
    port=port,
    protocol_version="HTTP/1.1",
    use_threadpool=True,
    threadpool_workers=int(threads),
    request_queue_size=int(backlog),
)
