"""Starts Cogen's WSGI server (Python 2): serve.py HOST PORT MODULE:ATTRIBUTE."""

import importlib
import sys

from cogen.web import wsgi

host, port, target = sys.argv[1:4]
module, _, attribute = target.partition(":")
application = getattr(importlib.import_module(module), attribute)
wsgi.server_factory({}, host, int(port))(application)
