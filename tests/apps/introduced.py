"""Tells who has asked, as a WSGI and as an ASGI application: what a load balancer has said of its client."""

import json

#: How often each path was asked for.
ASKED = {}


def _told(path, facts):
    ASKED[path] = ASKED.get(path, 0) + 1
    return json.dumps({**facts, "asked": ASKED}).encode()


def application(environ, start_response):
    facts = {
        "client": [environ["REMOTE_ADDR"], environ.get("REMOTE_PORT", "")],
        "server": [environ["SERVER_NAME"], environ["SERVER_PORT"]],
        "scheme": environ["wsgi.url_scheme"],
        "told": {
            key: value
            for key, value in environ.items()
            if key.startswith("SSL_") or (key.startswith("forehand.") and isinstance(value, str))
        },
    }
    body = _told(environ["PATH_INFO"], facts)
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return
    facts = {
        "client": [str(part) for part in scope["client"] or ("", "")],
        "server": [str(part) for part in scope["server"]],
        "scheme": scope["scheme"],
        "told": scope["extensions"].get("forehand.proxy", {}),
    }
    body = _told(scope["path"], facts)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
