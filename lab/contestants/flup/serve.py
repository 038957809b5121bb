"""Starts flup's FastCGI server: serve.py threaded|prefork SOCKET MODULE:ATTRIBUTE WORKERS THREADS."""

import importlib
import sys

how, path, target, workers, threads = sys.argv[1:6]
module, _, attribute = target.partition(":")
application = getattr(importlib.import_module(module), attribute)
if how == "threaded":
    from flup.server.fcgi import WSGIServer

    pool = {"maxThreads": int(threads), "maxSpare": int(threads)}
else:
    from flup.server.fcgi_fork import WSGIServer

    pool = {"minSpare": 1, "maxSpare": int(workers), "maxChildren": int(workers)}
WSGIServer(application, bindAddress=path, umask=0, **pool).run()
