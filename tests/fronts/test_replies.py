"""Behind every web server: replies with and without content, as they come, broken off, and of clients that leave."""

from __future__ import annotations

import uuid

from client import Client, ask, until
from webservers import Front, Row


def test_replies_have_what_they_had(row: Row, kind: str, front: Front) -> None:
    port = front(row, kind)
    for path in ("/", "/blog/"):
        reply = ask(port, f"{path}?parts")
        assert (reply.status, reply.body, reply.complete) == (200, b"one,two,three", True)
        reply = ask(port, f"{path}?nothing")
        assert (reply.status, reply.body) == (204, b"")
        reply = ask(port, f"{path}?unchanged")
        assert (reply.status, reply.header("etag")) == (304, ['"a"'])
        reply = ask(port, f"{path}?headers")
        assert (reply.status, reply.header("x-latin"), reply.body) == (200, ["\xe9"], b"")
        assert ", ".join(reply.header("x-twice")) == "1, 2"


def test_a_head_has_no_body_and_the_same_headers(row: Row, kind: str, front: Front) -> None:
    port = front(row, kind)
    length = ask(port, "/?release,nobody").header("content-length")
    # Apache leaves it out.
    length = [] if (row.server, row.protocol) == ("Apache 2.4", "SCGI") else length
    with Client(port) as client:
        for target, expected in (("/?release,nobody", length), ("/?parts", [])):
            client.begin("HEAD", target)
            reply = client.reply(head=True)
            assert (reply.status, reply.header("content-length")) == (200, expected), target
        # What had come behind them would be taken for this one.
        client.begin("GET", "/?parts")
        assert client.reply().body == b"one,two,three"


def test_a_failure_is_a_500_and_harms_nobody_else(row: Row, kind: str, front: Front) -> None:
    port = front(row, kind)
    for path in ("/?fails", "/blog/?fails"):
        assert ask(port, path).status == 500
    assert ask(port, "/?parts").body == b"one,two,three"


def test_a_reply_is_passed_on_as_it_comes(row: Row, kind: str, front: Front) -> None:
    port, name = front(row, kind), uuid.uuid4().hex
    with Client(port) as client:
        client.begin("GET", f"/?steps,{name}")
        client.until(b"first,")
        assert b"second" not in client.held
        assert ask(port, f"/?release,{name}").body == b"released"
        assert client.reply().body == b"first,second"


def test_a_reply_that_breaks_off_is_what_the_page_says(row: Row, kind: str, front: Front) -> None:
    # Apache sends what has no end by FastCGI, and is silent until its time for a next request is over.
    try:
        reply = ask(front(row, kind), "/?broken", headers={"Connection": "close"})
    except EOFError:
        # nginx that hears of the cut together with the reply's beginning passes nothing of it on.
        assert (row.protocol, row.facts["A reply that breaks off"]) == ("HTTP/2", "shown")
        return
    seen = reply.status >= 500 or not reply.complete
    if row.facts["A reply that breaks off"] != "may look complete":
        assert seen is (row.facts["A reply that breaks off"] == "shown"), reply
    assert seen or reply.body == b"one,"


def test_an_application_is_told_of_a_client_that_leaves(row: Row, kind: str, front: Front) -> None:
    port, name = front(row, kind), uuid.uuid4().hex
    with Client(port) as client:
        client.begin("GET", f"/?flood,{name}")
        client.until(b"x" * 1000)
    until(lambda: ask(port, f"/?left,{name}").body == b"1")
