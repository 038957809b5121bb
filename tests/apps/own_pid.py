"""Says which process has answered."""

import os


def application(environ, start_response):
    content = str(os.getpid()).encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(content)))])
    return [content]
