"""Tells what it was asked, as JSON, through `wsgiref.validate`."""

import json
from wsgiref.validate import validator


def _echo(environ, start_response):
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    facts = {key: value for key, value in environ.items() if isinstance(value, str)}
    facts["body"] = body.decode("latin-1")
    answer = json.dumps(facts).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
    return [answer]


application = validator(_echo)
