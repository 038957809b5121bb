"""Starts FAPWS3 (Python 2): serve.py HOST PORT MODULE:ATTRIBUTE."""

import importlib
import sys

import fapws._evwsgi as evwsgi
from fapws import base

host, port, target = sys.argv[1:4]
module, _, attribute = target.partition(":")
application = getattr(importlib.import_module(module), attribute)
evwsgi.start(host, port)
evwsgi.set_base_module(base)
evwsgi.wsgi_cb(("", application))
evwsgi.set_debug(0)
evwsgi.run()
