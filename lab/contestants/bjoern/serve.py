"""Starts bjoern: serve.py HOST PORT MODULE:ATTRIBUTE."""

import importlib
import sys

import bjoern

host, port, target = sys.argv[1:4]
module, _, attribute = target.partition(":")
bjoern.run(getattr(importlib.import_module(module), attribute), host, int(port))
