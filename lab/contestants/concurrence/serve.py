"""Starts Concurrence from a checkout (Python 2): serve.py HOST PORT MODULE:ATTRIBUTE."""

import importlib
import sys

from concurrence import dispatch
from concurrence.http import WSGIServer

host, port, target = sys.argv[1:4]
module, _, attribute = target.partition(":")
server = WSGIServer(getattr(importlib.import_module(module), attribute))
server.serve((host, int(port)))
dispatch()
