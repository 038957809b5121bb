"""Behind every web server: bodies of requests, with and without a length, whole, as they come, and not wanted."""

from __future__ import annotations

import contextlib
import hashlib
import uuid

import pytest
from client import Client, ask, told, until
from webservers import BODY, Front, Row

#: More than a web server, a socket or the memory for a body takes.
LARGE = bytes(range(256)) * 5_000
SUM = [len(LARGE), hashlib.sha256(LARGE).hexdigest()]
CHUNKED = {"Transfer-Encoding": "chunked"}


def test_a_large_body_arrives_whole(row: Row, kind: str, front: Front) -> None:
    for path in ("/upload", "/blog/upload"):
        assert told(ask(front(row, kind), path, "POST", body=LARGE))["body"] == SUM
        assert told(ask(front(row, kind), path, "PUT", body=b"x"))["body"][0] == 1
    assert told(ask(front(row, kind), "/", "POST", {"Content-Length": "0"}))["body"][0] == 0


def test_a_body_without_a_length_is_what_the_page_says(row: Row, kind: str, front: Front) -> None:
    refused = row.facts["Body without a length"]
    if refused.isdigit():
        with Client(front(row, kind)) as client:
            client.begin("POST", "/upload", CHUNKED)
            with contextlib.suppress(ConnectionError):  # it may have been refused before
                client.chunk(LARGE[:100_000])
                if row.server.startswith("Caddy"):
                    client.chunk(b"")  # it reads what it refuses; lighttpd takes what has come whole in time
            assert client.reply().status == int(refused)
        return
    for sizes in ([100_000] * 12, [5], []):
        parts = [LARGE[at * size : (at + 1) * size] for at, size in enumerate(sizes)]
        with Client(front(row, kind)) as client:
            client.begin("POST", "/upload", CHUNKED)
            for part in [*parts, b""]:
                client.chunk(part)
            body = b"".join(parts)
            assert told(client.reply())["body"] == [len(body), hashlib.sha256(body).hexdigest()]


def test_a_body_is_passed_on_as_it_comes_where_the_page_says_so(row: Row, front: Front) -> None:
    if row.facts["Bodies as they come"] != "yes":
        pytest.skip("the page says that this web server waits for whole bodies")
    port, name = front(row, "asgi"), uuid.uuid4().hex
    with Client(port) as client:
        client.begin("POST", f"/?watched,{name}", {"Content-Length": "400000"})
        for part in (1, 2):
            client.sock.sendall(b"x" * 200_000)
            until(lambda wanted=200_000 * part - 65_536: int(ask(port, f"/?received,{name}").body) >= wanted)
        assert client.reply().body == hashlib.sha256(b"x" * 400_000).hexdigest().encode()


def test_who_does_not_want_a_body_can_say_so(row: Row, kind: str, front: Front) -> None:
    port = front(row, kind)
    sizes = [10, 60_000, len(LARGE)]
    # It sends all of a body before it reads the reply; of WSGI's, all has been read before.
    if kind == "asgi" and row.facts["An early refusal"] == "up to 64 KiB":
        sizes.pop()
    for size in sizes:
        reply = ask(port, "/?early", "POST", body=LARGE[:size])
        assert (reply.status, reply.body) == (403, b"early"), size


def test_a_body_that_is_too_large_is_refused(row: Row, kind: str, front: Front) -> None:
    with Client(front(row, kind)) as client:
        client.begin("POST", "/upload", {"Content-Length": str(BODY + 1)})
        left = BODY + 1
        try:
            while left:
                left -= client.sock.send(LARGE[:left])
        except ConnectionError:
            pass  # it is refused before it has come
        assert client.reply().status == 413
    assert told(ask(front(row, kind), "/"))["body"][0] == 0, "nothing else is harmed"
