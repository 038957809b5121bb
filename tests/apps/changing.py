"""Changes its `environ`, or keeps it, once it was told how; and shows what it was given."""

import gc
import json

KEPT = []
#: Whose `environ` is held by something that is kept: of the objects that live each has a number of its own.
HELD = set()
NEXT = []


def keeps(environ, held):
    HELD.add(id(environ))
    KEPT.append(held)


def items(environ):
    """Yields what it has been given for as long as somebody asks."""
    yield from environ


CHANGES = {
    "nothing": lambda environ: environ.get("x"),
    "sets": lambda environ: environ.__setitem__("x", "1"),
    "replaces": lambda environ: environ.__setitem__("PATH_INFO", "/other"),
    "deletes": lambda environ: environ.__delitem__("HTTP_HOST"),
    "pops": lambda environ: environ.pop("HTTP_HOST"),
    "pops the last": lambda environ: environ.popitem(),
    "clears": lambda environ: environ.clear(),
    "updates": lambda environ: environ.update(x="1"),
    "merges": lambda environ: environ.__ior__({"PATH_INFO": "/other"}),
    "defaults": lambda environ: environ.setdefault("x", "1"),
    "sets and takes back": lambda environ: (environ.__setitem__("x", "1"), environ.__delitem__("x")),
    "keeps": lambda environ: keeps(environ, environ),
    "keeps a view": lambda environ: keeps(environ, environ.items()),
    "keeps a generator": lambda environ: keeps(environ, items(environ)),
    "keeps what holds it": lambda environ: keeps(environ, [environ]),
    "raises": lambda environ: raises(),
}


def is_whole(one):
    return type(one) is dict and one.get("PATH_INFO") == "/calm" and "wsgi.input" in one


def raises():
    # With a name the exception would refer to itself, and to its frames.
    raise NotImplementedError


def application(environ, start_response):
    path, query = environ["PATH_INFO"], environ["QUERY_STRING"]
    found = {key: value for key, value in environ.items() if isinstance(value, str)}
    found["keys"] = list(environ)
    if path == "/next":
        NEXT.append(query.replace("-", " "))
    if path == "/kept":
        found = {key: value for key, value in KEPT[-1].items() if isinstance(value, str)}
    if path == "/left":
        # Those that are held here are nobody else's.
        found = sum(is_whole(one) and id(one) not in HELD for one in gc.get_objects())
    if path == "/calm" and NEXT:
        CHANGES[NEXT.pop()](environ)
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(found).encode()]
