"""Names a file in place of a body, or sends one by its path, as WSGI and ASGI: the query says with which status and
headers and what else is given (`times`: again and again), in JSON.

{"status": 200, "headers": [["X-Sendfile", "/a"]], "body": ["ignored"], "path": "/a", "fails": false}
"""

import json
from urllib.parse import unquote

#: Parts of bodies that were closed: `closed` in the query tells how many.
CLOSED = []


class Body:
    """Parts without a length; `fails` behind the last."""

    def __init__(self, parts, fails):
        self.parts = list(parts)
        self.fails = fails

    def __iter__(self):
        yield from (part.encode() for part in self.parts)
        if self.fails:
            raise RuntimeError("broken on purpose")

    def close(self):
        CLOSED.append(len(self.parts))


def application(environ, start_response):
    asked = json.loads(unquote(environ["QUERY_STRING"]) or "{}")
    if "closed" in asked:
        start_response("200 OK", [])
        return [b"%d" % sum(CLOSED)]
    # Each character of a header stands for a byte (PEP 3333).
    headers = [(name, value.encode().decode("latin-1")) for name, value in asked.get("headers", [])]
    start_response(f"{asked.get('status', 200)} As Said", headers)
    parts = asked.get("body", []) * asked.get("times", 1)
    if len(parts) < 2 and not asked.get("fails"):
        return [part.encode() for part in parts]
    return Body(parts, asked.get("fails"))


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    asked = json.loads(unquote(scope["query_string"].decode()) or "{}")
    headers = [(name.encode(), value.encode()) for name, value in asked.get("headers", [])]
    await send({"type": "http.response.start", "status": asked.get("status", 200), "headers": headers})
    if "path" in asked:
        return await send({"type": "http.response.pathsend", "path": asked["path"]})
    for part in asked.get("body", []) * asked.get("times", 1):
        await send({"type": "http.response.body", "body": part.encode(), "more_body": True})
    if asked.get("fails"):
        raise RuntimeError("broken on purpose")
    await send({"type": "http.response.body", "body": b""})
