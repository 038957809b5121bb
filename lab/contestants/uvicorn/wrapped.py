"""The WSGI application that $LAB_APPLICATION names, as an ASGI one."""

import os

from a2wsgi import WSGIMiddleware

module, _, attribute = os.environ["LAB_APPLICATION"].partition(":")
application = WSGIMiddleware(getattr(__import__(module), attribute), workers=int(os.environ["LAB_THREADS"]))
