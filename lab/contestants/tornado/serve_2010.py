"""Starts Tornado 0.2 (Python 2) round a WSGI application: serve_2010.py HOST PORT MODULE:ATTRIBUTE."""

import importlib
import sys

from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.wsgi import WSGIContainer

host, port, target = sys.argv[1:4]
module, _, attribute = target.partition(":")
HTTPServer(WSGIContainer(getattr(importlib.import_module(module), attribute))).listen(int(port), host)
IOLoop.instance().start()
