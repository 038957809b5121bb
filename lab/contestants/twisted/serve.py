"""Starts Twisted's web server with its WSGI resource: serve.py HOST PORT MODULE:ATTRIBUTE THREADS BACKLOG."""

import importlib
import sys

from twisted.internet import reactor
from twisted.web.server import Site
from twisted.web.wsgi import WSGIResource

host, port, target, threads, backlog = sys.argv[1:6]
module, _, attribute = target.partition(":")
application = getattr(importlib.import_module(module), attribute)


class Quiet(Site):
    """The same, and no line made for each request."""

    def log(self, request):
        pass


pool = reactor.getThreadPool()
pool.adjustPoolsize(1, int(threads))
reactor.listenTCP(int(port), Quiet(WSGIResource(reactor, pool, application)), backlog=int(backlog), interface=host)
reactor.run()
