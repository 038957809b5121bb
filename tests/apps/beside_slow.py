"""Slow requests of one connection, and another client that asks while they run: who was served when.

`/meet?PORT` has this process be that client: it connects to the server. `/slow` burns a fifth of a millisecond, and
every twentieth of them asks for `/other` on that connection. `/told` tells of all that was so asked how much of it
began, and how much was answered, before the next slow request ended. Under WSGI and ASGI.
"""

import select
import socket
import time

GET = b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n"
#: One in so many slow requests asks.
EVERY = 20


class Beside:
    """The other client, and what it has seen."""

    def __init__(self):
        self.sock = None
        self.slow = self.asked = self.begun = self.answered = 0
        #: What it has asked for has not begun, or has.
        self.waits, self.served = False, False

    def meet(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.sendall(GET)

    def other(self):
        self.served = self.waits

    def serve_slow(self):
        self.slow += 1
        served = self.served
        end = time.perf_counter() + 0.0002
        while time.perf_counter() < end:
            pass
        readable = bool(select.select([self.sock], [], [], 0)[0])
        if self.waits:
            self.begun += served
            self.answered += readable
        self.waits = self.served = False
        if readable:
            self.sock.recv(65536)
        if self.slow % EVERY == 0:
            self.asked, self.waits = self.asked + 1, True
            self.sock.sendall(GET)


BESIDE = Beside()


def answer(path, query):
    if path == "/meet":
        BESIDE.meet(int(query))
    elif path == "/slow":
        BESIDE.serve_slow()
    elif path == "/other":
        BESIDE.other()
    elif path == "/told":
        return b"%d %d %d" % (BESIDE.asked, BESIDE.begun, BESIDE.answered)
    return b"ok"


def application(environ, start_response):
    body = answer(environ["PATH_INFO"], environ["QUERY_STRING"])
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


async def app(scope, receive, send):
    body = answer(scope["path"], scope["query_string"])
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
