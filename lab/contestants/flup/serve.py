"""Starts flup's FastCGI server: serve.py threaded|prefork SOCKET MODULE:ATTRIBUTE WORKERS THREADS."""

import sys

how, path, target, workers, threads = sys.argv[1:6]
module, _, attribute = target.partition(":")
application = getattr(__import__(module), attribute)
if how == "threaded":
    from flup.server.fcgi import WSGIServer

    pool = {"maxThreads": int(threads), "maxSpare": int(threads)}
else:
    from flup.server.fcgi_fork import WSGIServer

    pool = {"minSpare": 1, "maxSpare": int(workers), "maxChildren": int(workers)}
WSGIServer(application, bindAddress=path, umask=0, **pool).run()
