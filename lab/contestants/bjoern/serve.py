"""Starts bjoern: serve.py HOST PORT MODULE:ATTRIBUTE BACKLOG."""

import importlib
import sys

import bjoern

host, port, target, backlog = sys.argv[1:5]
module, _, attribute = target.partition(":")
bjoern.run(getattr(importlib.import_module(module), attribute), host, int(port), listen_backlog=int(backlog))
