"""Starts CherryPy's engine round an application, or the bare server of version 3:
serve.py HOST PORT APP THREADS BACKLOG.
"""

import importlib
import sys

host, port, target, threads, backlog = sys.argv[1:6]
module, _, attribute = target.partition(":")
application = getattr(importlib.import_module(module), attribute)

if sys.version_info[0] == 2:
    from cherrypy.wsgiserver import CherryPyWSGIServer

    server = CherryPyWSGIServer(
        (host, int(port)), application, numthreads=int(threads), request_queue_size=int(backlog)
    )
    server.start()
else:
    import cherrypy

    cherrypy.tree.graft(application, "/")
    cherrypy.config.update(
        {
            "environment": "production",
            "server.thread_pool": int(threads),
            "server.socket_queue_size": int(backlog),
            "log.screen": False,
        }
    )
    if host.startswith("/"):
        cherrypy.config.update({"server.socket_file": host})
    else:
        cherrypy.config.update({"server.socket_host": host, "server.socket_port": int(port)})
    # Ten kept connections are its server's default; the others keep as many as come.
    import cheroot.server

    cheroot.server.HTTPServer.keep_alive_conn_limit = None
    cherrypy.engine.signals.subscribe()
    cherrypy.engine.start()
    cherrypy.engine.block()
