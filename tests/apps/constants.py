"""Heads of which all or some is the same object each time, and what an application may do beside that."""

PLAIN = ("Content-Type", "text/plain")
SEVEN = ("Content-Length", "7")
CLOSE = ("Connection", "close")
BREAK = ("X-Wrong", "a\r\nb")
#: Pairs and a list that are the same objects each time, and yet have another content.
COUNTED, LISTED = ["X-Count", "0"], [PLAIN, SEVEN]
#: Pairs that are made for a reply, and kept.
KEPT = []


class Loud(str):
    """A string of the application's own."""


LOUD = ("X-Loud", Loud("yes"))


def again(start_response):
    try:
        start_response("200 OK", [PLAIN, SEVEN])
        raise LookupError("behind the head")
    except LookupError:
        import sys

        start_response("500 Oh", [PLAIN, SEVEN, LOUD], sys.exc_info())


def application(environ, start_response):
    path, query = environ["PATH_INFO"], environ["QUERY_STRING"]
    if path == "/same":
        start_response("200 OK", [PLAIN, SEVEN])
    elif path == "/turned":
        start_response("200 OK", [SEVEN, PLAIN])
    elif path == "/more":
        start_response("200 OK", [PLAIN, SEVEN, LOUD])
    elif path == "/status":
        start_response("404 No", [PLAIN, SEVEN])
    elif path == "/close":
        start_response("200 OK", [PLAIN, SEVEN, CLOSE])
    elif path == "/none":
        start_response("200 OK", [])
    elif path == "/wrong":
        start_response("200 OK", [PLAIN, SEVEN, BREAK])
    elif path == "/counted":
        COUNTED[1] = query
        start_response("200 OK", [PLAIN, SEVEN, COUNTED])
    elif path == "/listed":
        LISTED[2:] = [(CLOSE, LOUD)[len(query) % 2]]
        start_response("200 OK", LISTED)
    elif path == "/kept":
        KEPT.append(("X-Number", query))
        start_response("200 OK", [PLAIN, SEVEN, KEPT[-1]])
    elif path == "/made":
        start_response("200 OK", [PLAIN, SEVEN, ("X-Number", query)])
    elif path == "/anew":
        start_response(f"{200} OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(b"7 bytes")))])
    elif path == "/digit":
        start_response("200 OK", [PLAIN, ("Content-Length", "7"), ("X-Number", str(int(query) % 3))])
    elif path == "/latin":
        start_response("200 OK", [PLAIN, SEVEN, ("X-Drink", ("cafe", "caf\xe9", "th\xe9\xe9")[int(query) % 3])])
    elif path == "/own":
        start_response("200 OK", [PLAIN, SEVEN, ("X-Number", Loud(query))])
    elif path == "/sometimes":
        start_response("200 OK", [PLAIN, SEVEN, ("X-Number", ("12", "\r\n", "1\u0394", b"12")[int(query)])])
    elif path == "/name":
        start_response("200 OK", [PLAIN, SEVEN, ("".join(["X-", "A" if int(query) % 2 else "B"]), "1")])
    elif path == "/again":
        again(start_response)
    return [b"7 bytes"]
