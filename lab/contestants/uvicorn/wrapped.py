"""The WSGI application that $LAB_APPLICATION names, as an ASGI one."""

import importlib
import os

from a2wsgi import WSGIMiddleware

module, _, attribute = os.environ["LAB_APPLICATION"].partition(":")
wsgi = getattr(importlib.import_module(module), attribute)
application = WSGIMiddleware(wsgi, workers=int(os.environ["LAB_THREADS"]))
