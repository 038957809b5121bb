"""Starts Eventlet's WSGI server: serve.py HOST PORT MODULE:ATTRIBUTE BACKLOG CONNECTIONS."""

import importlib
import os
import sys

import eventlet

eventlet.monkey_patch()

from eventlet import wsgi  # noqa: E402  after the patch, as Eventlet asks

host, port, target, backlog, connections = sys.argv[1:6]
module, _, attribute = target.partition(":")
application = getattr(importlib.import_module(module), attribute)
sock = eventlet.listen((host, int(port)), backlog=int(backlog))
options = {"log": open(os.devnull, "w"), "max_size": int(connections)}
if sys.version_info[0] == 3:
    # No line is made for a request, and no traceback for a client: as in production.
    options.update(log_output=False, debug=False)
wsgi.server(sock, application, **options)
