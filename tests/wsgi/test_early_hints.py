"""`environ["wsgi.early_hints"]`: what a client may fetch while its reply is made (RFC 8297), by HTTP/1.1 and HTTP/2."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import h2.events
import pytest
from h2client import Client
from serving import PATIENCE, Serving, read_all, read_reply

pytestmark = pytest.mark.interpreters

DRIVERS = {"threads": ()}
if importlib.util.find_spec("gevent"):
    DRIVERS["gevent"] = ("--worker-class", "gevent")
FIRST, SECOND = "</a.css>; rel=preload; as=style", "</b.js>; rel=preload; as=script"


@pytest.fixture(scope="module", params=DRIVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Serving]:
    server = Serving("hinting", *DRIVERS[request.param], "--bind=127.0.0.1:0", "--bind=uwsgi:127.0.0.1:0")
    yield server
    assert server.stop() == 0
    server.kill()


def get(path: str, version: str = "1.1") -> bytes:
    return f"GET {path} HTTP/{version}\r\nHost: a\r\n\r\n".encode()


def body_of(server: Serving, path: str) -> str:
    """The only reply, with no hint before it and nothing behind it."""
    with server.connect() as sock:
        sock.sendall(get(path))
        rest = bytearray()
        status, fields, body = read_reply(sock, rest)
        assert status == 200 and not rest and "set-cookie" not in fields
        return body.decode()


def test_hints_come_while_the_reply_is_made(server: Serving) -> None:
    with server.connect() as sock:
        sock.sendall(get("/waits?1"))
        buffer = bytearray()
        for link in (FIRST, SECOND):
            status, fields, _ = read_reply(sock, buffer)
            assert (status, fields) == (103, {"link": link})
        assert body_of(server, "/open?1") == "done"
        assert read_reply(sock, buffer)[2] == b"done"
        # The connection goes on, and what comes together leaves in one interim response.
        sock.sendall(get("/") * 2)
        for _ in range(2):
            assert read_reply(sock, buffer)[0] == 103
            assert read_reply(sock, buffer)[::2] == (200, b"done")
        assert not buffer


def test_hints_come_while_the_reply_is_made_on_a_stream(server: Serving) -> None:
    with Client(server.port) as client:
        stream = client.ask("/waits?2")
        client.flush()
        found: list[dict[str, str]] = []
        while len(found) < 2:
            for event in client.events():
                assert not isinstance(event, h2.events.ResponseReceived), "the reply waits"
                if isinstance(event, h2.events.InformationalResponseReceived):
                    found.append({str(name): str(value) for name, value in event.headers or ()})
        assert found == [{":status": "103", "link": FIRST}, {":status": "103", "link": SECOND}]
        other = client.ask("/open?2")
        client.flush()
        assert client.replies([stream, other]) == {stream: b"done", other: b"done"}


@pytest.mark.parametrize("version", ["--http1.1", "--http2-prior-knowledge"])
def test_curl_shows_them(server: Serving, version: str) -> None:
    command = ["curl", "-sS", "-i", version, f"{server.url}/started"]
    shown = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True).stdout.decode().lower()
    hints, reply, body = shown.split("\r\n\r\n")
    assert hints.split()[1] == "103" and f"link: {FIRST}" in hints and f"link: {SECOND}" in hints
    assert (reply.split()[1], body) == ("200", "done") and "link" not in reply


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("line", "ValueError: response header 'Link'"),
        ("bare", "ValueError: response header 'Link'"),
        ("name", "ValueError: response header 'Link: x"),
        ("bytes", "TypeError: a header's name must be a str, not bytes"),
        ("triple", "TypeError: a response header must be a pair of two str"),
        ("number", "TypeError: the response headers must be a list of (name, value)"),
    ],
)
def test_what_would_be_no_header_or_more_than_one_is_refused(server: Serving, kind: str, words: str) -> None:
    assert body_of(server, f"/wrong?{kind}").startswith(words)


def test_what_is_about_the_connection_is_left_out(server: Serving) -> None:
    with server.connect() as sock:
        sock.sendall(get("/wrong?length"))
        buffer = bytearray()
        assert read_reply(sock, buffer)[:2] == (103, {"link": FIRST})
        assert read_reply(sock, buffer)[2] == b"None"
    assert body_of(server, "/none") == "None"


def test_behind_the_replys_head_they_are_refused_and_the_reply_goes_on(server: Serving) -> None:
    words = "first,RuntimeError: early hints are sent before the reply, and its head has gone"
    assert body_of(server, "/late").startswith(words)


def test_an_application_that_fails_behind_hints_is_answered_for(server: Serving) -> None:
    with server.connect() as sock:
        sock.sendall(get("/fails"))
        buffer = bytearray()
        assert [read_reply(sock, buffer)[0] for _ in range(2)] == [103, 500]


def test_who_reads_one_reply_gets_none_and_nobody_fails(server: Serving) -> None:
    reply = server.raw(get("/", "1.0"))
    assert reply.startswith(b"HTTP/1.1 200 ") and b"Link" not in reply
    assert b"ValueError" in server.raw(get("/wrong?line", "1.0"))


def test_a_function_that_is_kept_reaches_no_later_client(server: Serving) -> None:
    assert body_of(server, "/keeps") == "done"
    # More often than there are threads: each may have been the one that answered.
    for _ in range(40):
        words = "RuntimeError: the request that this function belongs to has ended"
        assert body_of(server, "/uses-kept").startswith(words)


def test_another_thread_may_give_them(server: Serving) -> None:
    with server.connect() as sock:
        sock.sendall(get("/elsewhere"))
        buffer = bytearray()
        assert read_reply(sock, buffer)[0] == 103
        assert read_reply(sock, buffer)[2] == b"None"


@pytest.mark.once
@pytest.mark.parametrize("driver", [*DRIVERS, "asyncio"])
def test_a_deadline_that_ends_in_the_middle_of_one_cuts_it(serve: Callable[..., Serving], driver: str) -> None:
    """What is said in place of the reply must not come between two halves of a line."""
    target, options = ("hinting:app", ()) if driver == "asyncio" else ("hinting", DRIVERS[driver])
    # None of it waits for its client, so that nobody is in the midst of sending when the time is over.
    server = serve(target, *options, "--request-timeout", "3s", "--limit-response-buffer-bytes", "64M")
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(PATIENCE)
    sock.connect((server.host, server.port))
    with sock:
        sock.sendall(get("/floods?200"))
        server.until(lambda: server.raw(get("/flooded", "1.0")).endswith(b"True"))
        # There is room in the socket again, into which nobody sends.
        said = b"".join(sock.recv(65536) for _ in range(200))
        server.counts("request_deadlines", 1)
        said += read_all(sock)
    assert said.startswith(b"HTTP/1.1 103 ") and said.count(b"HTTP/1.1 ") == said.count(b"HTTP/1.1 103 ")
    assert not said.endswith(b"\r\n\r\n"), "the last of them is cut"


@pytest.mark.once
@pytest.mark.parametrize("driver", [*DRIVERS, "asyncio"])
def test_on_a_stream_what_is_said_in_the_replys_place_comes_behind_them(
    serve: Callable[..., Serving], driver: str
) -> None:
    target, options = ("hinting:app", ()) if driver == "asyncio" else ("hinting", DRIVERS[driver])
    server = serve(target, *options, "--request-timeout", "3s", "--limit-response-buffer-bytes", "64M")
    with Client(server.port) as client:
        stream = client.ask("/floods?80")
        client.flush()
        server.until(lambda: server.raw(get("/flooded", "1.0")).endswith(b"True"))
        server.counts("request_deadlines", 1)
        # h2 raises where a head has another in its middle.
        while stream not in client.done | client.resets.keys():
            assert client.lives()
            client.events()
        assert client.heads[stream][":status"] == "504"
        assert client.get("/flooded")


def asked(sock: socket.socket, path: str, version: str = "1.1") -> tuple[int, str]:
    """How many hints came before the reply, and its body."""
    sock.sendall(get(path, version))
    buffer, hints = bytearray(), 0
    while True:
        status, _, body = read_reply(sock, buffer)
        if status != 103:
            assert status == 200 and not buffer
            return hints, body.decode()
        hints += 1


def test_a_function_that_is_given_again_and_again_is_kept_by_nobody_all_the_same(server: Serving) -> None:
    """What is the same for a request each time is copied, the function of the thread included."""
    ended = "RuntimeError: the request that this function belongs to has ended"
    with server.connect() as sock:
        for _ in range(3):
            for _ in range(40):
                assert asked(sock, "/") == (1, "done")
            assert asked(sock, "/keeps") == (0, "done")
            for _ in range(40):
                hints, body = asked(sock, "/uses-kept")
                assert hints == 0 and body.startswith(ended)
                assert asked(sock, "/") == (1, "done"), "the next request has its own"
    with server.connect() as sock:
        assert asked(sock, "/", "1.0") == (0, "done")


def test_each_of_many_requests_at_a_time_has_its_own(server: Serving) -> None:
    with ExitStack() as stack:
        socks = [stack.enter_context(server.connect()) for _ in range(2)]
        for number in range(30):
            for sock in socks:
                sock.sendall(get(f"/waits?3-{number}"))
            buffers = [bytearray() for _ in socks]
            for sock, buffer in zip(socks, buffers, strict=True):
                assert [read_reply(sock, buffer)[1] for _ in range(2)] == [{"link": FIRST}, {"link": SECOND}]
            assert body_of(server, f"/open?3-{number}") == "done"
            for sock, buffer in zip(socks, buffers, strict=True):
                assert read_reply(sock, buffer)[2] == b"done"
