"""Starts Cogen's WSGI server (Python 2): serve.py HOST PORT MODULE:ATTRIBUTE."""

import sys

from cogen.web import wsgi

host, port, target = sys.argv[1:4]
module, _, attribute = target.partition(":")
application = getattr(__import__(module), attribute)
wsgi.server_factory({}, host, int(port))(application)
