"""Starts wsgiref's server as it comes: serve.py HOST PORT MODULE:ATTRIBUTE."""

import importlib
import sys
from wsgiref import simple_server

host, port, target = sys.argv[1:4]
module, _, attribute = target.partition(":")
application = getattr(importlib.import_module(module), attribute)


class Quiet(simple_server.WSGIRequestHandler):
    """The same, and no line for each request."""

    def log_message(self, *words):
        pass

    def address_string(self):
        return self.client_address[0]


simple_server.make_server(host, int(port), application, handler_class=Quiet).serve_forever()
