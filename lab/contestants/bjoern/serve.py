"""Starts bjoern: serve.py HOST PORT MODULE:ATTRIBUTE."""

import sys

import bjoern

host, port, target = sys.argv[1:4]
module, _, attribute = target.partition(":")
bjoern.run(getattr(__import__(module), attribute), host, int(port))
