"""examples/pong, through requests and curl."""

from __future__ import annotations

import hashlib
import re
import ssl
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
import requests
from conftest import EXAMPLES, Start
from serving import Serving


class Outside(HTMLParser):
    """Collects what a page would fetch from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [f"{tag} {key}={value}" for key, value in attrs if key in ("src", "href") and value != "data:,"]


def test_the_page_shows_what_the_application_was_given(example: Start) -> None:
    server = example("pong", "pong:application")
    page = requests.get(server.url, timeout=10, headers={"X-Note": "<b>&"})
    assert page.status_code == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "What the application was given" in page.text
    assert "<th>SERVER_PROTOCOL</th><td>HTTP/1.1</td>" in page.text
    assert "<th>HTTP_X_NOTE</th><td>&lt;b&gt;&amp;</td>" in page.text, "what a client sends is text, not markup"


def test_the_page_needs_nothing_from_elsewhere(example: Start) -> None:
    server = example("pong", "pong:application")
    outside = Outside()
    outside.feed(requests.get(server.url, timeout=10).text)
    assert outside.found == []


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_the_page_says_how_to_try_https_and_what_it_says_works(serve: Callable[..., Serving]) -> None:
    said = re.search(r"<code>forehand (.*?)</code>", (EXAMPLES / "pong/page.html").read_text())
    assert said
    *words, target = said[1].split()
    served = serve(target, *(word.replace(":8443", ":0") for word in words), cwd=EXAMPLES / "pong")
    shown = hashlib.sha256(ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", served.port)))).hexdigest()
    told = served.log().partition("self-signed, SHA-256 ")[2].split()[0]
    assert told.replace(":", "").lower() == shown, "it can be compared with what a browser shows"
    page = requests.get(f"https://localhost:{served.port}/", timeout=10, verify=False)
    assert "<th>wsgi.url_scheme</th><td>https</td>" in page.text


def test_ping_is_answered(example: Start) -> None:
    server = example("pong", "pong:application")
    assert requests.get(server.url + "/ping", timeout=10).text == "Pong!"
    assert requests.head(server.url + "/ping", timeout=10).headers["Content-Length"] == "5"
    assert requests.get(server.url + "/x", timeout=10).status_code == 404
    curl = subprocess.run(["curl", "-sS", server.url + "/ping"], capture_output=True, timeout=10, check=True)
    assert curl.stdout == b"Pong!"
