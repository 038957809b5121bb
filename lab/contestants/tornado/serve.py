"""Starts Tornado's HTTP server round a WSGI application: serve.py HOST PORT MODULE:ATTRIBUTE BACKLOG THREADS.

Without threads (0) the application runs on the event loop's thread, as in the articles.
"""

import asyncio
import importlib
import sys
from concurrent.futures import ThreadPoolExecutor

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets, bind_unix_socket
from tornado.wsgi import WSGIContainer

host, port, target, backlog, threads = sys.argv[1:6]
module, _, attribute = target.partition(":")
application = getattr(importlib.import_module(module), attribute)


async def main():
    """Listen, and go on until a signal."""
    pool = ThreadPoolExecutor(int(threads)) if int(threads) else None
    server = HTTPServer(WSGIContainer(application, pool))
    if host.startswith("/"):
        server.add_socket(bind_unix_socket(host, 0o666, backlog=int(backlog)))
    else:
        server.add_sockets(bind_sockets(int(port), host, backlog=int(backlog)))
    await asyncio.Event().wait()


asyncio.run(main())
