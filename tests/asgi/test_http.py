"""ASGI over HTTP: scopes, bodies both ways, leaving clients, failing applications, extensions."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable

import pytest
from serving import Serving, read_all, read_reply

pytestmark = pytest.mark.interpreters


def ask(server: Serving, path: str, *lines: str, method: str = "GET", body: bytes = b"") -> tuple[int, dict, bytes]:
    """One request and its reply."""
    head = "".join(f"{line}\r\n" for line in ("Host: a", "Connection: close", *lines))
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    with server.connect() as sock:
        sock.sendall(f"{method} {path} HTTP/1.1\r\n{head}{length}\r\n".encode() + body)
        return read_reply(sock, bytearray(), head=method == "HEAD")


def noted(server: Serving, name: str = "") -> list:
    """What the application has noted, since the last look, of requests that gave this name in `X-Client`.

    Where a server is shared each test has a name of its own, for what an earlier one has left behind may come late.
    """
    return json.loads(ask(server, "/noted", f"X-Client: {name}")[2])


def wait_for(what: Callable[[], object], message: str) -> None:
    until = time.monotonic() + 20
    while not what():
        assert time.monotonic() < until, message
        time.sleep(0.01)


def test_a_scope_has_every_key_and_its_type(views: Serving) -> None:
    for _ in range(3):  # the third is built from what the first two have left
        status, _, body = ask(views, "/scope?q=%20x", "X-Twice: 1", "X-TWICE: 2", "Cookie: a=b")
        assert status == 200
        scope = json.loads(body)
        assert set(scope) == {
            "type", "asgi", "http_version", "method", "scheme", "path", "raw_path", "query_string", "root_path",
            "server", "headers", "client", "state", "extensions",
        }  # fmt: skip
        assert scope["type"] == "str 'http'" and scope["method"] == "str 'GET'"
        assert scope["asgi"] == {"version": "str '3.0'", "spec_version": "str '2.4'"}
        assert scope["http_version"] == "str '1.1'" and scope["scheme"] == "str 'http'"
        assert scope["path"] == "str '/scope'" and scope["raw_path"] == "bytes b'/scope'"
        assert scope["query_string"] == "bytes b'q=%20x'" and scope["root_path"] == "str ''"
        assert scope["server"] == {"tuple": ["str '127.0.0.1'", f"int {views.port}"]}
        assert scope["client"]["tuple"][0] == "str '127.0.0.1'" and scope["client"]["tuple"][1].startswith("int ")
        assert scope["state"] == {"opened": "str 'at the start'"}
        names = [pair["tuple"] for pair in scope["headers"]["list"]]
        assert ["bytes b'x-twice'", "bytes b'1'"] in names and ["bytes b'x-twice'", "bytes b'2'"] in names
        assert names[0] == ["bytes b'host'", "bytes b'a'"]
        assert set(scope["extensions"]) == {
            f"http.response.{name}" for name in ("pathsend", "zerocopysend", "trailers", "early_hint")
        }


def test_a_path_is_decoded_and_its_raw_form_is_kept(serve: Callable[..., Serving], loop: str) -> None:
    server = serve(
        "asgi_views:view_scope", "--interface", "asgi", "--lifespan", "off", "--root-path", "/shop", "--loop", loop
    )
    # A proxy may have stripped the mount point or not: `path` has it in both cases, `raw_path` is what came.
    for path, decoded in (
        ("/shop/a%20%C3%A9%2Fb", "/shop/a \u00e9/b"),
        ("/a%20b", "/shop/a b"),
        ("/shop%zz", "/shop/shop%zz"),
    ):
        scope = json.loads(ask(server, path)[2])
        assert scope["path"] == f"str {decoded!r}", path
        assert scope["raw_path"] == f"bytes {path.encode()!r}"
        assert scope["root_path"] == "str '/shop'"


def test_forwarding_headers_of_a_trusted_peer_are_believed(views: Serving) -> None:
    lines = ("X-Forwarded-For: 1.2.3.4", "X-Forwarded-Proto: https", "X-Forwarded-Host: shop.example")
    scope = json.loads(ask(views, "/scope", *lines)[2])
    assert scope["client"] == {"tuple": ["str '1.2.3.4'", "int 0"]}
    assert scope["scheme"] == "str 'https'"
    assert {"tuple": ["bytes b'host'", "bytes b'shop.example'"]} in scope["headers"]["list"]


@pytest.mark.parametrize("path", ["/x", "/api/x", "/pre/api/x"])
def test_a_proxy_s_prefix_comes_before_the_root_path(serve: Callable[..., Serving], loop: str, path: str) -> None:
    """Whatever the proxy has stripped: both prefixes, its own, or nothing."""
    options = ("--interface", "asgi", "--lifespan", "off", "--script-name", "/api", "--loop", loop)
    server = serve("asgi_views:view_scope", *options)
    scope = json.loads(ask(server, path, "X-Forwarded-Prefix: /pre")[2])
    assert scope["root_path"] == "str '/pre/api'" and scope["path"] == "str '/pre/api/x'"
    assert scope["raw_path"] == f"bytes {path.encode()!r}"
    assert json.loads(ask(server, "/x")[2])["path"] == "str '/api/x'"


def test_those_of_others_are_not(serve: Callable[..., Serving]) -> None:
    server = serve("asgi_views:app", "--forwarded-allow-ips", "10.0.0.1")
    scope = json.loads(ask(server, "/scope", "X-Forwarded-For: 1.2.3.4", "X-Forwarded-Proto: https")[2])
    assert scope["client"]["tuple"][0] == "str '127.0.0.1'" and scope["scheme"] == "str 'http'"
    assert "forwarded" not in json.dumps(scope["headers"])


def test_what_an_application_does_to_its_scope_is_its_own(views: Serving) -> None:
    with views.connect() as sock:
        buffer = bytearray()
        seen = set()
        for _ in range(5):
            sock.sendall(b"GET /own HTTP/1.1\r\nHost: a\r\n\r\n")
            seen.add(read_reply(sock, buffer)[2])
    assert len(seen) == 1, seen


@pytest.mark.parametrize("size", [1, 1000, 65_536, 3_000_000])
def test_a_body_arrives_whole(views: Serving, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    assert ask(views, "/echo", method="POST", body=body)[2] == body


def test_a_body_is_mirrored_part_by_part_in_any_framing(views: Serving) -> None:
    with views.connect() as sock:
        sock.sendall(b"POST /mirror HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        buffer = bytearray()
        for part in (b"one", b"two", b"three"):
            sock.sendall(b"%x\r\n%s\r\n" % (len(part), part))
            # Each part comes back before the next is sent: nothing waits for the whole.
            while part not in buffer:
                buffer += sock.recv(65536)
        sock.sendall(b"0\r\n\r\n")
        assert read_reply(sock, buffer)[2] == b"onetwothree"


def test_a_body_that_waits_for_the_word_gets_it_when_it_is_read(views: Serving) -> None:
    with views.connect() as sock:
        sock.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        buffer = bytearray()
        assert read_reply(sock, buffer)[0] == 100
        sock.sendall(b"hello")
        assert read_reply(sock, buffer)[2] == b"hello"


def test_a_body_that_breaks_the_rules_is_refused(views: Serving) -> None:
    reply = views.raw(b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nxyz\r\n")
    assert reply.startswith(b"HTTP/1.1 400 ") and b"Connection: close" in reply


def test_a_body_that_ends_in_its_middle_is_no_body(views: Serving) -> None:
    with views.connect() as sock:
        sock.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\nabc")
        sock.shutdown(socket.SHUT_WR)
        assert b"200 OK" not in read_all(sock)


def test_a_body_that_comes_too_slowly_is_refused(serve: Callable[..., Serving], loop: str) -> None:
    server = serve("asgi_views:app", "--body-grace", "200ms", "--loop", loop)
    with server.connect() as sock:
        sock.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\nabc")
        assert read_all(sock).startswith(b"HTTP/1.1 408 ")


def test_a_body_nobody_reads_does_not_become_a_request(views: Serving) -> None:
    smuggled = b"GET /echo HTTP/1.1\r\nHost: a\r\nX-Smuggled: 1\r\n\r\n"
    request = b"POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n"
    with views.connect() as sock:
        sock.sendall(request + smuggled)
        assert read_all(sock).count(b"HTTP/1.1 ") == 1


def test_a_backlog_of_requests_is_answered_in_order(views: Serving) -> None:
    paths = ["/hello", "/concurrent", "/echo", "/hello", "/nowhere"] * 10
    with views.connect() as sock:
        sock.sendall(b"".join(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path.encode() for path in paths[:5]))
        buffer = bytearray()
        got = [read_reply(sock, buffer)[2] for _ in range(5)]
    assert got == [b"hello", b"slept", b"", b"hello", b"no such view"]


def test_a_reply_is_not_kept_back_by_the_next_request(views: Serving) -> None:
    with views.connect() as sock:
        sock.sendall(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\nGET /wait?kept HTTP/1.1\r\nHost: a\r\n\r\n")
        buffer = bytearray()
        assert read_reply(sock, buffer)[2] == b"hello"
        ask(views, "/open?kept")
        assert read_reply(sock, buffer)[2] == b"waited"


def test_waiting_requests_do_not_hold_up_others(views: Serving) -> None:
    socks = [views.connect() for _ in range(50)]
    for sock in socks:
        sock.sendall(b"GET /wait?many HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert ask(views, "/hello")[2] == b"hello"
    ask(views, "/open?many")
    assert all(read_reply(sock, bytearray())[2] == b"waited" for sock in socks)
    for sock in socks:
        sock.close()


def test_a_crowd_at_once_is_answered_to_the_last(views: Serving) -> None:
    # More than one turn of the loop takes: what a look has found must not be lost for the next.
    socks = [views.connect() for _ in range(300)]
    for _ in range(5):
        for sock in socks:
            sock.sendall(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
        for sock in socks:
            assert read_reply(sock, bytearray())[2] == b"hello"
    for sock in socks:
        sock.close()


def test_a_client_that_leaves_is_heard_of_at_once(views: Serving) -> None:
    sock = views.connect()
    sock.sendall(b"GET /wait?leaves HTTP/1.1\r\nHost: a\r\nX-Client: leaver\r\n\r\n")
    seen: list = []
    wait_for(lambda: seen.extend(noted(views, "leaver")) or "leaves waits" in seen, f"it never waited: {seen}")
    sock.close()
    wait_for(lambda: seen.extend(noted(views, "leaver")) or "leaves heard the client leave" in seen, f"unheard: {seen}")
    assert "failed" not in views.log().partition("leaves")[2]


def test_a_stream_ends_when_its_client_leaves(views: Serving) -> None:
    with views.connect() as sock:
        sock.sendall(b"GET /forever HTTP/1.1\r\nHost: a\r\nX-Client: streamed\r\n\r\n")
        assert sock.recv(65536)
    seen: list = []
    wait_for(lambda: seen.extend(noted(views, "streamed")) or "ConnectionResetError" in seen, f"it went on: {seen}")


def test_who_passes_over_that_its_client_has_left_harms_nobody(views: Serving) -> None:
    with views.connect() as sock:
        sock.sendall(b"GET /deaf HTTP/1.1\r\nHost: a\r\nX-Client: gone\r\n\r\n")
        assert sock.recv(65536)
    seen: list = []
    wait_for(lambda: seen.extend(noted(views, "gone")) or seen, "it never came to its end")
    assert seen == ["went on, and heard ['http.disconnect']"]
    assert ask(views, "/hello")[2] == b"hello" and "GET /deaf" not in views.log()


def test_a_stream_waits_for_a_slow_reader(views: Serving) -> None:
    with views.connect() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(b"GET /forever HTTP/1.1\r\nHost: a\r\nX-Client: slow\r\n\r\n")
        last: list = [None]
        quiet = 0
        while quiet < 5:  # five looks without progress: it waits
            now = noted(views, "slow")
            quiet = quiet + 1 if not now else 0
            last = now or last
            time.sleep(0.05)
        assert int(last[0].split()[1]) * 65536 < 16_000_000, last
        assert sock.recv(65536)


def test_a_reader_that_takes_nothing_is_given_up(serve: Callable[..., Serving], loop: str) -> None:
    server = serve("asgi_views:app", "--write-timeout", "300ms", "--loop", loop)
    with server.connect() as sock:
        sock.sendall(b"GET /forever HTTP/1.1\r\nHost: a\r\n\r\n")
        seen: list = []
        wait_for(lambda: seen.extend(noted(server)) or "ConnectionResetError" in seen, f"it went on: {seen}")


@pytest.mark.parametrize("path, size", [("/large", 10_000_000), ("/large-parts", 10_000_000)])
def test_a_large_reply_arrives_whole(views: Serving, path: str, size: int) -> None:
    status, _, body = ask(views, path)
    assert status == 200 and len(body) == size and len(set(body)) == 1


def test_events_come_when_they_are_sent(views: Serving) -> None:
    with views.connect() as sock:
        sock.sendall(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
        buffer = bytearray()
        while b"\r\n\r\n" not in buffer:
            buffer += sock.recv(65536)
        assert b"text/event-stream" in buffer and b"data" not in buffer
        ask(views, "/open?events")
        assert read_reply(sock, buffer)[2] == b"data: one\n\ndata: two\n\n"


def test_work_goes_on_behind_a_reply_and_its_connection_too(views: Serving) -> None:
    with views.connect() as sock:
        buffer = bytearray()
        sock.sendall(b"GET /background HTTP/1.1\r\nHost: a\r\nX-Client: backer\r\n\r\n")
        assert read_reply(sock, buffer)[2] == b"first the reply"
        sock.sendall(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
        assert read_reply(sock, buffer)[2] == b"hello"
    assert noted(views, "backer") == []
    ask(views, "/open?background")
    wait_for(lambda: "then the work" in noted(views, "backer"), "the work was not done")


def test_after_its_end_a_request_only_hears_of_the_end(views: Serving) -> None:
    seen: list = []
    ask(views, "/after-end", "X-Client: ended")
    wait_for(lambda: seen.extend(noted(views, "ended")) or seen == ["http.disconnect"] * 2, f"it heard {seen}")


FAILURES = [
    ("/raise", b"HTTP/1.1 500 "), ("/raise-after-start", b"HTTP/1.1 500 "), ("/nothing", b"HTTP/1.1 500 "),
    ("/exit", b"HTTP/1.1 500 "), ("/no-path", b"HTTP/1.1 500 "),
]  # fmt: skip


@pytest.mark.parametrize("path, begin", FAILURES)
def test_a_failure_before_the_reply_is_a_500_and_is_logged(views: Serving, path: str, begin: bytes) -> None:
    reply = views.raw(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path.encode())
    assert reply.startswith(begin) and b"Traceback" not in reply
    views.says(f"the application failed: GET {path}")
    assert ask(views, "/hello")[2] == b"hello"


@pytest.mark.parametrize("path", ["/raise-in-body", "/half"])
def test_a_failure_in_the_reply_cuts_it(views: Serving, path: str) -> None:
    reply = views.raw(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path.encode())
    assert reply.startswith(b"HTTP/1.1 200 ") and not reply.endswith(b"0\r\n\r\n")
    views.says(f"the application failed: GET {path}")


def test_a_failure_behind_the_reply_is_logged_and_harms_nobody(views: Serving) -> None:
    assert ask(views, "/raise-after-all")[2] == b"whole"
    wait_for(lambda: "after its response was complete" in views.log(), views.log())


def test_a_head_has_the_reply_s_length_and_no_content(views: Serving) -> None:
    status, fields, body = ask(views, "/hello", method="HEAD")
    assert (status, body) == (200, b"")


def test_http_1_0_is_answered_without_chunks(views: Serving) -> None:
    reply = views.raw(b"GET /large-parts HTTP/1.0\r\n\r\n")
    assert b"Transfer-Encoding" not in reply.partition(b"\r\n\r\n")[0]
    reply = views.raw(b"GET /mirror HTTP/1.0\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 200 ") and b"Transfer-Encoding" not in reply


def test_a_file_is_sent_by_its_path(views: Serving) -> None:
    status, fields, body = ask(views, "/path-send")
    assert (status, fields["content-length"]) == (200, str(12 * 100_000))
    assert body == b"from a file " * 100_000


def test_parts_of_a_file_are_sent_among_others(views: Serving) -> None:
    assert ask(views, "/zero-copy")[2] == b"[0123456789" + b"0123456789" * 20_000 + b"]"


def test_trailers_reach_those_who_ask_for_them(views: Serving) -> None:
    request = b"GET /trailers HTTP/1.1\r\nHost: a\r\nConnection: close\r\n%s\r\n"
    reply = views.raw(request % b"TE: trailers\r\n")
    assert b"trailer: x-sum\r\n" in reply and reply.endswith(b"0\r\nx-sum: 7\r\n\r\n")
    reply = views.raw(request % b"")
    assert reply.endswith(b"0\r\n\r\n") and b"x-sum: 7" not in reply


def test_hints_come_before_the_reply(views: Serving) -> None:
    with views.connect() as sock:
        sock.sendall(b"GET /hints HTTP/1.1\r\nHost: a\r\n\r\n")
        buffer = bytearray()
        status, fields, _ = read_reply(sock, buffer)
        assert (status, fields["link"]) == (103, "</a.css>; rel=preload")
        assert read_reply(sock, buffer)[2] == b"hinted"
    assert views.raw(b"GET /hints HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 ")
