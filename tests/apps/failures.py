"""Applications that fail, some frames deep, and say by themselves how Python's `traceback` prints it."""

import os
import traceback


def innermost():
    raise KeyError("deep")


def middle():
    innermost()


def printed(error):
    """The traceback as the module `traceback` prints it, into the file that FAILURE names."""
    with open(os.environ["FAILURE"], "w") as file:
        traceback.print_exception(error, file=file)


def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/late":
        start_response("200 OK", [("Content-Length", "10")])
        return late()
    if path == "/noted":
        environ["shop.user"] = "ann"
        start_response("200 OK", [("X-Trace", "t1"), ("X-Trace", "t2"), ("Content-Length", "2")])
        return [b"ok"]
    try:
        middle()
    except KeyError as error:
        printed(error)
        raise


def late():
    yield b"1"
    try:
        middle()
    except KeyError as error:
        printed(error)
        raise


async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        try:
            middle()
        except KeyError as error:
            printed(error)
            raise
    if scope["path"] == "/background":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})
    try:
        middle()
    except KeyError as error:
        printed(error)
        raise


def hook(facts):
    try:
        middle()
    except KeyError as error:
        printed(error)
        raise
