"""Starts meinheld: serve.py HOST PORT MODULE:ATTRIBUTE BACKLOG."""

import importlib
import sys

from meinheld import server

host, port, target, backlog = sys.argv[1:5]
module, _, attribute = target.partition(":")
server.set_access_logger(None)
server.set_keepalive(10)
server.set_backlog(int(backlog))
server.listen((host, int(port)))
server.run(getattr(importlib.import_module(module), attribute))
