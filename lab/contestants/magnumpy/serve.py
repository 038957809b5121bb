"""Starts MagnumPy from a checkout (Python 2): serve.py HOST PORT MODULE:ATTRIBUTE."""

import importlib
import sys

import magnum.http.wsgi
import magnum.server

host, port, target = sys.argv[1:4]
module, _, attribute = target.partition(":")
application = getattr(importlib.import_module(module), attribute)
magnum.server.Server(magnum.http.wsgi.WSGIWrapper(application), host=host, port=int(port)).serve_forever()
