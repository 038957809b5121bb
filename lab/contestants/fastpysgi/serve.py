"""Starts FastPySGI: serve.py HOST PORT MODULE:ATTRIBUTE WORKERS BACKLOG."""

import importlib
import sys

import fastpysgi

host, port, target, workers, backlog = sys.argv[1:6]
module, _, attribute = target.partition(":")
fastpysgi.server.backlog = int(backlog)
fastpysgi.run(getattr(importlib.import_module(module), attribute), host, int(port), loglevel=1, workers=int(workers))
