"""Notes: a small Flask application with a JSON API, a form, a session, a stream, an upload and error pages.

Notes live in the process, bounded, and are gone with it: an example of serving, not of storing.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator

from flask import Flask, Response, abort, redirect, render_template_string, request, session
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response as Reply

app = Flask(__name__)
app.secret_key = "only for this example"  # a real one comes from the environment
# A deque with a bound: append is atomic among threads, and visitors cannot fill the memory.
notes: deque[str] = deque(maxlen=1000)

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,"><title>{{ title }}</title>
<link rel="stylesheet" href="{{ url_for('static', filename='notes.css') }}">
<h1>{{ title }}</h1>
{% if visits is defined %}
<p>You have been here {{ visits }} times. The same as <a href="/api/notes">JSON</a>.</p>
<form method="post"><input name="text" required aria-label="A note"> <button>Add</button></form>
<ul>{% for note in notes %}<li>{{ note }}</li>{% endfor %}</ul>
{% else %}
<p>{{ words }}</p>
{% endif %}
</html>"""


@app.route("/", methods=["GET", "POST"])
def index() -> str | Reply:
    """The page, and its form."""
    if request.method == "POST":
        notes.append(request.form["text"])
        return redirect("/", 303)
    session["visits"] = session.get("visits", 0) + 1
    return render_template_string(PAGE, title="Notes", notes=list(notes), visits=session["visits"])


@app.get("/api/notes")
def listed() -> dict[str, list[str]]:
    """All notes as JSON."""
    return {"notes": list(notes)}


@app.post("/api/notes")
def added() -> tuple[dict[str, int], int]:
    """Add a note from JSON."""
    sent = request.get_json()
    if not isinstance(sent, dict) or not isinstance(sent.get("text"), str):
        abort(400, 'Send {"text": "..."}.')
    notes.append(sent["text"])
    return {"number": len(notes)}, 201


@app.get("/count/<int:most>")
def count(most: int) -> Response:
    """A stream, a line at a time."""

    def lines() -> Iterator[str]:
        for number in range(most):
            yield f"{number}\n"

    return Response(lines(), mimetype="text/plain")


@app.post("/upload")
def upload() -> dict[str, str | int]:
    """Size and hash of a file, read in parts."""
    digest, size = hashlib.sha256(), 0
    while part := request.files["file"].read(65536):
        digest.update(part)
        size += len(part)
    return {"size": size, "sha256": digest.hexdigest()}


@app.get("/broken")
def broken() -> None:
    """A fault of the application: its traceback is logged, the client gets the page below."""
    raise RuntimeError("broken on purpose")


@app.get("/teapot")
def teapot() -> None:
    """418."""
    abort(418)


@app.errorhandler(HTTPException)
def told(error: HTTPException) -> tuple[Reply | str | dict[str, str], int]:
    """An error as a page, or as JSON under /api. A fault arrives here as 500."""
    status = error.code or 500
    if request.path.startswith("/api/"):
        return {"error": error.description or error.name}, status
    return render_template_string(PAGE, title=error.name, words=error.description), status
