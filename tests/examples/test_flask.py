"""examples/flask_notes, through requests and curl."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess

import pytest
import requests
from conftest import EXAMPLES, Start
from serving import Serving


@pytest.fixture(scope="module")
def notes(example: Start) -> Serving:
    # A key of `environ` has a value where an application was asked, and none where a file was sent.
    log = ("--access-log", "%U %s asked by %{wsgi.url_scheme}e.")
    return example("flask_notes", "app:app", "--static", "/static=static", *log)


def test_its_style_sheet_comes_without_python(notes: Serving) -> None:
    page = requests.get(notes.url, timeout=10)
    style = re.search(r'<link rel="stylesheet" href="([^"]+)"', page.text)
    assert style, page.text
    reply = requests.get(notes.url + style[1], timeout=10)
    assert (reply.status_code, reply.headers["Content-Type"]) == (200, "text/css; charset=utf-8")
    assert reply.content == (EXAMPLES / "flask_notes/static/notes.css").read_bytes()
    assert requests.get(notes.url + "/static/none.css", timeout=10).status_code == 404
    for line in ("/ 200 asked by http.", f"{style[1]} 200 asked by -.", "/static/none.css 404 asked by -."):
        notes.says(line)


def test_a_session_is_kept_in_a_cookie(notes: Serving) -> None:
    with requests.Session() as session:
        assert "been here 1 times" in session.get(notes.url, timeout=10).text
        assert "been here 2 times" in session.get(notes.url, timeout=10).text
    assert "been here 1 times" in requests.get(notes.url, timeout=10).text


def test_a_form_adds_a_note_and_leads_back(notes: Serving) -> None:
    page = requests.post(notes.url, {"text": "<b>bold"}, timeout=10)
    assert [reply.status_code for reply in page.history] == [303]
    assert "&lt;b&gt;bold" in page.text


def test_the_api_takes_and_gives_json(notes: Serving) -> None:
    there = requests.get(notes.url + "/api/notes", timeout=10).json()["notes"]
    added = requests.post(notes.url + "/api/notes", json={"text": "from JSON"}, timeout=10)
    assert (added.status_code, added.json()) == (201, {"number": len(there) + 1})
    assert requests.get(notes.url + "/api/notes", timeout=10).json() == {"notes": [*there, "from JSON"]}
    refused = requests.post(notes.url + "/api/notes", json=["not that"], timeout=10)
    assert (refused.status_code, refused.json()) == (400, {"error": 'Send {"text": "..."}.'})
    no_json = requests.post(
        notes.url + "/api/notes", data="{", headers={"Content-Type": "application/json"}, timeout=10
    )
    assert no_json.status_code == 400


def test_a_generator_is_streamed(notes: Serving) -> None:
    reply = requests.get(notes.url + "/count/5000", timeout=10, stream=True)
    assert reply.headers["Transfer-Encoding"] == "chunked"
    assert [int(line) for line in reply.iter_lines()] == list(range(5000))


def test_a_client_that_leaves_a_stream_costs_nobody_anything(notes: Serving) -> None:
    for _ in range(5):
        requests.get(notes.url + "/count/2000000000", timeout=10, stream=True).close()
    assert requests.get(notes.url, timeout=10).status_code == 200


@pytest.mark.parametrize("size", [0, 1, 1_000_000])
def test_a_file_is_uploaded_whole(notes: Serving, size: int) -> None:
    data = os.urandom(size)
    told = requests.post(notes.url + "/upload", files={"file": ("f", data)}, timeout=10).json()
    assert told == {"size": size, "sha256": hashlib.sha256(data).hexdigest()}


def test_curl_sends_a_chunked_body(notes: Serving) -> None:
    command = ["curl", "-sS", "-H", "Transfer-Encoding: chunked", "-F", "file=@-", notes.url + "/upload"]
    told = subprocess.run(command, input=b"y" * 300_000, capture_output=True, timeout=20, check=True)
    assert b'"size":300000' in told.stdout


@pytest.mark.parametrize(("path", "status"), [("/broken", 500), ("/teapot", 418), ("/nothing", 404), ("/upload", 405)])
def test_errors_have_pages(notes: Serving, path: str, status: int) -> None:
    page = requests.get(notes.url + path, timeout=10)
    assert page.status_code == status
    assert "<h1>" in page.text
    assert requests.get(notes.url, timeout=10).status_code == 200
    if path == "/broken":
        notes.says("RuntimeError: broken on purpose")


def test_head_has_the_headers_of_get_and_no_content(notes: Serving) -> None:
    head = requests.head(notes.url, timeout=10)
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["Content-Length"]) > 0
