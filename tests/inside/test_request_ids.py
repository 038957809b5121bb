"""`--request-id`: one name for a request, in front of the server, in it, and behind it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
from collections.abc import Callable
from typing import Any

import pytest
from h2client import Client
from serving import Serving, read_reply
from websockets.sync.client import connect

Serve = Callable[..., Serving]
OWN = re.compile(r"[0-9a-f]{32}")
DRIVERS = {"threads": ("phases:application",), "asyncio": ("phases:app", "--interface", "asgi")}
if importlib.util.find_spec("gevent"):
    DRIVERS["gevent"] = ("phases:application", "--worker-class", "gevent")


def ask(server: Serving, path: str, *fields: str) -> tuple[int, dict[str, str], str]:
    lines = "".join(f"{field}\r\n" for field in fields)
    with server.connect() as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n".encode())
        status, headers, body = read_reply(sock, bytearray())
    return status, headers, body.decode()


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_trusted_proxy_s_word_is_the_name_everywhere(serve: Serve, driver: str) -> None:
    server = serve(*DRIVERS[driver], "--workers", "1", "--request-id", "X-Request-ID", "--access-log", "%U %{id}x")
    for _ in range(2):
        status, headers, body = ask(server, "/id", "x-request-id: abc.DEF-1/2=")
        assert (status, headers["x-request-id"], body) == (200, "abc.DEF-1/2=", "abc.DEF-1/2= abc.DEF-1/2=")
    server.says("/id abc.DEF-1/2=")


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("given", [(), ("X-Request-ID: two words",), (f"X-Request-ID: {'x' * 129}",)])
def test_what_is_no_name_is_replaced_by_one_of_our_own(serve: Serve, driver: str, given: tuple[str, ...]) -> None:
    server = serve(*DRIVERS[driver], "--workers", "1", "--request-id", "X-Request-ID")
    names = set()
    for _ in range(5):
        _, headers, body = ask(server, "/id", *given)
        assert OWN.fullmatch(headers["x-request-id"]), headers
        assert body == f"{headers['x-request-id']} {headers['x-request-id']}"
        names.add(body)
    assert len(names) == 5


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_name_of_our_own_is_the_same_wherever_it_is_told(serve: Serve, driver: str) -> None:
    options = ("--request-id", "X-Request-ID", "--access-log", "json", "--slow-request", "0.05")
    server = serve(*DRIVERS[driver], "--workers", "1", *options, "--request-timeout", "2")
    with server.connect() as sock:
        sock.sendall(b"GET /id HTTP/1.1\r\nHost: a\r\n\r\n" * 3)
        buffer = bytearray()
        replies = [read_reply(sock, buffer) for _ in range(3)]
    names = [headers["x-request-id"] for _, headers, _ in replies]
    assert [body.decode() for _, _, body in replies] == [f"{name} {name}" for name in names]
    _, headers, _ = ask(server, "/sleep/0.1")
    names.append(headers["x-request-id"])
    server.says(f"slow request: GET /sleep/0.1 (id {names[-1]}), 200")
    status, headers, body = ask(server, "/sleep/30")
    names.append(headers["x-request-id"])
    assert (status, body.splitlines()[-1]) == (504, f"request {names[-1]}")
    server.says(f"GET /sleep/30 HTTP/1.1 (id {names[-1]}): overdue after")
    assert len(set(names)) == 5 and all(OWN.fullmatch(name) for name in names)
    for name in names[:4]:
        server.says(f'"request_id":"{name}"')


def test_workers_that_were_forked_from_one_process_name_no_two_requests_alike(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1", "--preload", "--request-id")
    first = ask(server, "/quick")[1]["x-request-id"]
    old = server.workers[0]
    os.kill(old, signal.SIGKILL)
    server.until(
        lambda: [one["pid"] for one in server.status()["workers"] if one["state"] == "ready"] not in ([], [old])
    )
    assert ask(server, "/quick")[1]["x-request-id"][:16] != first[:16]


@pytest.mark.parametrize("own", [False, True], ids=["the server's", "the application's"])
def test_a_websocket_s_handshake_has_the_name_unless_the_application_has_set_it(serve: Serve, own: bool) -> None:
    server = serve("phases:app", "--interface", "asgi", "--workers", "1", "--request-id", "--access-log")
    with connect(
        f"ws://127.0.0.1:{server.port}/socket{'/named' * own}", additional_headers={"X-Request-ID": "given-1"}
    ) as socket:
        assert socket.response is not None
        assert socket.response.headers.get_all("X-Request-ID") == ["the application's" if own else "given-1"]
        assert socket.recv() == "given-1"


def test_strangers_do_not_name_requests(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1", "--request-id", "X-Id", "--forwarded-allow-ips", "")
    assert OWN.fullmatch(ask(server, "/quick", "X-Id: theirs")[1]["x-id"])


def test_the_application_s_own_word_is_left_alone(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1", "--request-id", "X-Request-ID")
    status, headers, _ = ask(server, "/named", "X-Request-ID: ours")
    assert (status, headers["x-request-id"]) == (200, "the application's")


def test_failures_are_named_in_the_reply_and_in_the_log(serve: Serve) -> None:
    options = ("--request-id", "X-Request-ID", "--slow-request", "0.1", "--access-log", "json")
    server = serve("phases:application", "--workers", "1", *options)
    status, headers, body = ask(server, "/fail", "X-Request-ID: broken-1")
    assert (status, headers["x-request-id"]) == (500, "broken-1")
    assert body.splitlines()[-1] == "request broken-1"
    server.says("GET /fail HTTP/1.1 (request 1, id broken-1, after ")
    ask(server, "/sleep/0.15", "X-Request-ID: slow-1")
    server.says("slow request: GET /sleep/0.15 (id slow-1), 200 after ")
    server.says('"request_id":"slow-1"')
    found: list[dict[str, Any]] = server.until(
        lambda: [json.loads(line) for line in server.order("requests", "--json", "--slow")[1].splitlines()]
    )
    assert [one["id"] for one in found] == ["slow-1"]


@pytest.mark.parametrize("driver", DRIVERS)
def test_an_error_page_says_which_request_it_was(serve: Serve, driver: str) -> None:
    server = serve(
        *DRIVERS[driver], "--workers", "1", "--request-id-header", "X-Request-ID", "--request-timeout", "0.2"
    )
    status, headers, body = ask(server, "/sleep/30", "X-Request-ID: late-1")
    assert (status, headers["x-request-id"]) == (504, "late-1")
    assert body.splitlines()[-1] == "request late-1"
    server.says("GET /sleep/30 HTTP/1.1 (id late-1): overdue after")
    with server.connect() as sock:
        sock.sendall(b"HEAD /sleep/30 HTTP/1.1\r\nHost: a\r\nX-Request-ID: late-2\r\n\r\n")
        status, headers, _ = read_reply(sock, bytearray(), head=True)
        assert (status, headers["x-request-id"], headers["content-length"]) == (504, "late-2", str(len(body)))
        assert sock.recv(1) == b""


#: What is refused before it is a request, with room for a field: its head is understood in the first two.
REFUSED = {
    413: b"POST /id HTTP/1.1\r\nHost: a\r\n%bContent-Length: 11\r\n\r\n",
    400: b"GET /id HTTP/1.1\r\n%b\r\n",
    501: b"GET /id HTTP/1.1\r\nHost: a\r\n%bTransfer-Encoding: gzip, chunked\r\n\r\n",
}


@pytest.mark.parametrize("given", [b"", b"X-Request-ID: theirs-1\r\n"])
def test_what_is_refused_before_it_is_a_request_has_a_name_wherever_it_is_told(serve: Serve, given: bytes) -> None:
    options = ("--access-log", "%s %{id}x %B", "--limit-body-bytes", "10", "--log-level", "info")
    server = serve("phases:application", "--workers", "1", "--request-id", "X-Request-ID", *options)
    names = []
    for status, request in REFUSED.items():
        reply = server.raw(request % given)
        head, _, page = reply.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(": ", 1) for line in head.decode().splitlines()[1:])
        name = fields["x-request-id"]
        assert (reply.split()[1], fields["content-length"]) == (b"%d" % status, str(len(page)))
        assert page.decode().splitlines()[-1] == f"request {name}"
        server.says(f"{status} {name} {len(page)}\n")
        refused = re.compile(rf"info: refused a request from [\d.]+:\d+: {status} .* \(id {name}\)\n")
        server.until(lambda refused=refused: refused.search(server.log()))  # type: ignore[misc]
        names.append(name)
    assert names[:2] == ["theirs-1", "theirs-1"] if given else all(map(OWN.fullmatch, names[:2])), names
    assert given or len(set(names)) == len(names)


def test_what_is_refused_of_http_2_has_a_name(serve: Serve) -> None:
    options = ("--request-id", "X-Request-ID", "--limit-body-bytes", "10", "--log-level", "info")
    server = serve("phases:application", "--bind=h2c://127.0.0.1:0", *options)
    with Client(int(server.url.rpartition(":")[2])) as client:
        for given, expected in (((), OWN), ((("x-request-id", "theirs-2"),), re.compile("theirs-2"))):
            stream = client.ask("/id", method="POST", body=True, fields=(*given, ("content-length", "11")))
            client.flush()
            head, page = client.head(stream), client.replies([stream])[stream].decode()
            assert head[":status"] == "413" and expected.fullmatch(head["x-request-id"]), head
            assert page.splitlines()[-1] == f"request {head['x-request-id']}"
            server.says(f"(id {head['x-request-id']})")


def test_without_the_option_nothing_is_named(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1")
    _, headers, body = ask(server, "/id", "X-Request-ID: theirs")
    assert "x-request-id" not in headers
    assert body == "theirs None", "a header like any other"


def test_what_is_no_header_is_refused() -> None:
    with pytest.raises(AssertionError, match="is not the name of a header"):
        Serving("phases:application", "--request-id", "X Request")
