"""Notes: a small Flask application with a JSON API, a form, a session, a stream and an upload."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from flask import Flask, Response, abort, redirect, render_template_string, request, session
from werkzeug.wrappers import Response as Reply

app = Flask(__name__)
app.secret_key = "only for this example"  # a real one comes from the environment
notes: list[str] = []

PAGE = """<!doctype html><title>Notes</title><h1>Notes</h1>
<p>You have been here {{ visits }} times.</p>
<form method="post"><input name="text" aria-label="A note"><button>Add</button></form>
<ul>{% for note in notes %}<li>{{ note }}</li>{% endfor %}</ul>"""


@app.route("/", methods=["GET", "POST"])
def index() -> str | Reply:
    """The page, and its form."""
    if request.method == "POST":
        notes.append(request.form["text"])
        return redirect("/", 303)
    session["visits"] = session.get("visits", 0) + 1
    return render_template_string(PAGE, notes=notes, visits=session["visits"])


@app.get("/api/notes")
def listed() -> dict[str, list[str]]:
    """All notes as JSON."""
    return {"notes": notes}


@app.post("/api/notes")
def added() -> tuple[dict[str, int], int]:
    """Add a note from JSON."""
    notes.append(str(request.get_json()["text"]))
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
    """Size and hash of a file."""
    data = request.files["file"].read()
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


@app.get("/broken")
def broken() -> None:
    """Flask's own error page: 500."""
    raise RuntimeError("broken on purpose")


@app.get("/teapot")
def teapot() -> None:
    """418."""
    abort(418)
