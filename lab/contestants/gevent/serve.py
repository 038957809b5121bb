"""Starts gevent's WSGI server: serve.py HOST PORT MODULE:ATTRIBUTE spawn|raw BACKLOG.

Version 0.12 has it as gevent.wsgi.
"""

import importlib
import sys

import gevent

host, port, target, how, backlog = sys.argv[1:6]
if sys.version_info[0] == 3:
    from gevent import monkey

    monkey.patch_all()
    from gevent.pywsgi import WSGIServer
else:
    from gevent.wsgi import WSGIServer

module, _, attribute = target.partition(":")
application = getattr(importlib.import_module(module), attribute)
options = {"log": None, "spawn": "default" if how == "spawn" else None}
server = WSGIServer((host, int(port)), application, backlog=int(backlog), **options)
if hasattr(gevent, "signal_handler"):
    import signal

    gevent.signal_handler(signal.SIGTERM, server.stop)
server.serve_forever()
