"""Says which process has answered what; some requests wait for a file."""

import os
import time


def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/sleep":
        time.sleep(float(environ["QUERY_STRING"]))
    while path.startswith("/wait") and not os.path.exists(environ["QUERY_STRING"]):
        time.sleep(0.02)
    text = f"{os.getpid()} {path} {len(environ['wsgi.input'].read())}".encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
    return [text]
