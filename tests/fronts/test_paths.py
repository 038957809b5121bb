"""Behind every web server: where the application is, what it is asked for and by whom."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from client import CLIENT, ask, place, told
from webservers import Front, Row

#: As clients escape them.
PATHS = ["/", "/a%20b/%C3%A9", "/a+b;c=1~", "/a%25b", "/%2541", "/a%3Fb%23c", "/100%25/"]
#: With empty segments and dots, which web servers may tidy up.
UNTIDY = ["/a//b", "//a/b", "/a/./b/../c", "/a/%2e%2e/c", "/blogs"]
UNTIDY += ["/blog", "/blog//a", "/blog/a//b%20c", "/blog/./a/../b%20c"]
QUERY = "q=%20x&y=%C3%A9%2F&&z"


def test_the_root_is_the_applications_place(row: Row, kind: str, front: Front) -> None:
    port = front(row, kind)
    for path in PATHS:
        found = told(ask(port, f"{path}?{QUERY}"))
        assert place(found) == ("", unquote(path)), path
        assert found.get("QUERY_STRING", found.get("query_string")) == QUERY


def test_what_the_row_says_is_spoken(row: Row, kind: str, front: Front) -> None:
    found = told(ask(front(row, kind), "/"))
    version = found["http_version"] if kind == "asgi" else found["SERVER_PROTOCOL"].removeprefix("HTTP/")
    if row.protocol.startswith("HTTP"):
        assert (version in ("2", "2.0")) is row.protocol.startswith("HTTP/2"), version
    secured = "tls" in found["extensions"] if kind == "asgi" else "SSL_PROTOCOL" in found
    assert secured is row.protocol.endswith("TLS")


@pytest.mark.parametrize("behind", ["wsgi", "asgi", "whole"])
def test_a_prefix_is_the_applications_place(row: Row, behind: str, front: Front) -> None:
    port = front(row, behind)
    for path in PATHS:
        assert place(told(ask(port, f"/blog{path}?{QUERY}"))) == ("/blog", unquote(path)), path


def test_the_place_and_what_is_below_are_the_path(row: Row, kind: str, front: Front) -> None:
    port = front(row, kind)
    for path in UNTIDY:
        reply = ask(port, path)
        if reply.status != 200:
            # The web server's own page: it has no such place.
            assert path == "/blog" and reply.status in (301, 308, 404), (path, reply)
            continue
        assert "".join(place(told(reply))) in (unquote(path), tidy(unquote(path).split("/"))), path


def tidy(segments: list[str]) -> str:
    """A path without empty segments and dots."""
    kept: list[str] = []
    for segment in segments:
        if segment == "..":
            kept = kept[:-1]
        elif segment not in ("", "."):
            kept.append(segment)
    return "/" + "/".join(kept)


def test_an_escaped_slash_is_what_the_page_says(row: Row, kind: str, front: Front) -> None:
    for prefix in ("", "/blog"):
        reply = ask(front(row, kind), f"{prefix}/a%2Fb%20c")
        if row.facts["%2F"].isdigit():
            assert reply.status == int(row.facts["%2F"])
            continue
        found = told(reply)
        assert place(found) == (prefix, "/a/b c")
        raw = found.get("REQUEST_URI") or found.get("raw_path")
        assert (raw == f"{prefix}/a%2Fb%20c") is (row.facts["%2F"] == "kept"), raw


def test_a_nul_in_a_path_is_refused_by_every_gateway(row: Row, kind: str, front: Front) -> None:
    for prefix in ("", "/blog"):
        reply = ask(front(row, kind), f"{prefix}/a%00b")
        # By HTTP a path is the application's, whatever it is, and these pass it on.
        if row.server.startswith(("Caddy", "HAProxy")) and row.protocol.startswith("HTTP"):
            assert place(told(reply)) == (prefix, "/a\0b")
        else:
            assert reply.status in (400, 404)


def test_who_asks_and_for_whom(row: Row, kind: str, front: Front) -> None:
    sent = {"X-Two-Words": "1", "Proxy": "http://evil", "Accept-Language": "de, en", "Cookie": "a=b; c=d"}
    sent |= {"UWSGI_FILE": "exec://evil", "Content-Type": "text/plain"}
    found = told(ask(front(row, kind), "/", headers=sent))
    if kind == "asgi":
        headers = dict(found["headers"])
        assert found["client"][0] == CLIENT
        assert found["scheme"] == "http"
    else:
        named = {name[5:]: value for name, value in found.items() if name.startswith("HTTP_")}
        headers = {name.lower().replace("_", "-"): value for name, value in named.items()}
        headers["content-type"] = found["CONTENT_TYPE"]
        assert found["REMOTE_ADDR"] == CLIENT
        assert found["wsgi.url_scheme"] == "http"
    assert {name: headers[name] for name in ("x-two-words", "accept-language", "cookie", "content-type", "host")} == {
        "x-two-words": "1", "accept-language": "de, en", "cookie": "a=b; c=d", "content-type": "text/plain",
        "host": "shop.example",
    }  # fmt: skip
    # A header of a client's has its prefix, whatever its name.
    assert not {"HTTP_PROXY", "UWSGI_FILE"} & found.keys()
    assert not {"proxy", "uwsgi_file"} & headers.keys() or row.protocol.startswith("HTTP")
