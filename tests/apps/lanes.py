"""Views that take as long as they are told, some with one of four connections, or wait for a file, or at a gate that
a quick view opens; another tells how many wait, another in which order they began, and others answer at once, with 200
or 404."""

import os
import threading
import time

GATE = threading.Event()
CONNECTIONS = threading.Semaphore(4)
INSIDE = []
BEGUN = []


def application(environ, start_response):
    path, query = environ["PATH_INFO"], environ["QUERY_STRING"]
    text, status = b"ok", "200 OK"
    if path == "/gate":
        (GATE.set if query == "open" else GATE.clear)()
    elif path == "/inside":
        text = str(len(INSIDE)).encode()
    elif path == "/begun":
        text = " ".join(BEGUN).encode()
    elif path.startswith("/nothing"):
        status = "404 Not Found"
    elif not path.endswith("/profile"):
        INSIDE.append(path)
        BEGUN.append(path.rpartition("/")[2])
        if query.startswith("/"):
            while not os.path.exists(query):
                time.sleep(0.01)
        elif path == "/pool":
            with CONNECTIONS:
                time.sleep(float(query))
        elif query:
            time.sleep(float(query))
        else:
            GATE.wait(30)
        INSIDE.remove(path)
    start_response(status, [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
    return [text]
