"""The pong, and the counted pong, as a handler of mod_python: no WSGI in between."""

import os

from mod_python import apache

BODY = b"Pong!"
_descriptor = None


def handler(request):
    """200 and five bytes; a byte to $LAB_HITS where it is set."""
    global _descriptor
    path = os.environ.get("LAB_HITS")
    if path:
        if _descriptor is None:
            _descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(_descriptor, b".")
    request.content_type = "text/plain"
    request.set_content_length(len(BODY))
    request.write(BODY)
    return apache.OK
