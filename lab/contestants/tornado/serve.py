"""Starts Tornado's HTTP server round a WSGI application: serve.py HOST PORT MODULE:ATTRIBUTE BACKLOG."""

import asyncio
import importlib
import sys

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets, bind_unix_socket
from tornado.wsgi import WSGIContainer

host, port, target, backlog = sys.argv[1:5]
module, _, attribute = target.partition(":")
application = getattr(importlib.import_module(module), attribute)


async def main():
    """Listen, and go on until a signal."""
    server = HTTPServer(WSGIContainer(application))
    if host.startswith("/"):
        server.add_socket(bind_unix_socket(host, 0o666, backlog=int(backlog)))
    else:
        server.add_sockets(bind_sockets(int(port), host, backlog=int(backlog)))
    await asyncio.Event().wait()


asyncio.run(main())
