"""One application as each kind of object that Python can call; `raises` in the query makes it raise."""

import functools


def application(environ, start_response):
    if environ["QUERY_STRING"] == "raises":
        raise LookupError("as it was asked to")
    start_response("200 OK", [("Content-Length", "5")])
    return [b"pong\n"]


def more(_extra, environ, start_response):
    return application(environ, start_response)


class Instance:
    def __call__(self, environ, start_response):
        return application(environ, start_response)

    def method(self, environ, start_response):
        return application(environ, start_response)


class Kind:
    """PEP 3333 allows it: to call the class is to be answered with an instance, which is iterable."""

    def __init__(self, environ, start_response):
        self.body = application(environ, start_response)

    def __iter__(self):
        return iter(self.body)


instance = Instance()
method = instance.method
partial = functools.partial(more, "extra")
