"""Starts FastPySGI: serve.py HOST PORT MODULE:ATTRIBUTE WORKERS BACKLOG."""

import sys

import fastpysgi

host, port, target, workers, backlog = sys.argv[1:6]
module, _, attribute = target.partition(":")
fastpysgi.server.backlog = int(backlog)
fastpysgi.run(getattr(__import__(module), attribute), host, int(port), loglevel=1, workers=int(workers))
