"""What an application gives back, and what the client and the log see of it (PEP 3333)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from serving import Serving, read_all, read_reply

pytestmark = pytest.mark.interpreters


@pytest.fixture(scope="module")
def server() -> Serving:
    server = Serving("behaviours")
    yield server
    assert b"hello" in server.raw(b"GET /hello HTTP/1.0\r\n\r\n"), "the worker lives through all of it"
    assert server.stop() == 0
    server.kill()


def get(server: Serving, path: str, version: str = "1.1", method: str = "GET") -> tuple[bytes, bytes]:
    """Head and body of one reply, up to the end of the connection."""
    request = f"{method} {path} HTTP/{version}\r\nHost: a\r\nConnection: close\r\n\r\n"
    head, _, body = server.raw(request.encode()).partition(b"\r\n\r\n")
    return head, body


def log_has(server: Serving, text: str) -> bool:
    """Waits for it: the log has a thread of its own."""
    return bool(server.until(lambda: text in server.log()))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/generator", b"1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n"),
        ("/late-start", b"4\r\nlate\r\n0\r\n\r\n"),
        ("/write", b"4\r\none \r\n4\r\ntwo \r\n5\r\nthree\r\n0\r\n\r\n"),
        ("/sized", b"abc"),
        ("/replaced", b"replaced"),
        ("/memory-file", None),
    ],
)
def test_a_body_in_parts_is_sent_as_its_length_allows(server: Serving, path: str, body: bytes | None) -> None:
    head, found = get(server, path)
    if body is not None:
        assert found == body
        assert (b"Transfer-Encoding: chunked" in head) == body.endswith(b"0\r\n\r\n")
    else:
        assert found.count(b"from memory") > 900


def test_http_1_0_never_sees_chunks(server: Serving) -> None:
    head, body = get(server, "/generator", "1.0")
    assert body == b"abc"
    assert b"chunked" not in head
    assert b"Connection: close" in head


@pytest.mark.parametrize(
    "path",
    ["/raises", "/raises-after-start", "/raises-before-first", "/none", "/str", "/bytes", "/strings", "/numbers",
     "/never-starts", "/twice", "/injection", "/bad-name", "/nul", "/not-latin", "/bytes-header", "/bad-status",
     "/exits"],
)  # fmt: skip
def test_what_wsgi_does_not_allow_is_answered_with_500_and_logged(server: Serving, path: str) -> None:
    head, body = get(server, path)
    assert head.startswith(b"HTTP/1.1 500 "), head
    assert b"Set-Cookie" not in head + body
    assert b"raised on purpose" not in body, "the client learns nothing of the inside"
    # Its own lines are counted: what another test has done may be logged late.
    assert log_has(server, f"the application failed: GET {path} HTTP/1.1")
    assert server.log().count(f"GET {path} HTTP/1.1") == 1


def test_an_error_after_the_first_byte_cuts_the_reply(server: Serving) -> None:
    head, body = get(server, "/raises-after-first")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert not body.endswith(b"0\r\n\r\n")
    head, body = get(server, "/too-late")
    assert body == b"4\r\ngone\r\n"
    assert log_has(server, "too late on purpose")


@pytest.mark.parametrize(("path", "body"), [("/short", b"12345"), ("/short-parts", b"12345"),
                                            ("/long", b"1234567890"), ("/long-parts", b"1234567890")])  # fmt: skip
def test_a_wrong_length_is_cut_logged_and_closes(server: Serving, path: str, body: bytes) -> None:
    with server.connect() as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        found = read_all(sock)
    assert found.endswith(b"\r\n\r\n" + body)
    assert b"Content-Length: 10\r\n" in found
    assert log_has(server, f"GET {path} HTTP/1.1: the application announced Content-Length 10")


def closed(server: Serving) -> list[bytes]:
    """What was closed so far."""
    return get(server, "/closed")[1].split()


def test_close_is_called_once_in_every_outcome(serve: Callable[..., Serving]) -> None:
    server = serve("behaviours")
    expected = []
    for path in ("/generator", "/sized", "/strings", "/raises-before-first", "/raises-after-first", "/short-parts",
                 "/long-parts", "/close-raises"):  # fmt: skip
        get(server, path)
        expected.append(path[1:].encode())
        # The client may have its reply before close() is called.
        server.until(lambda: len(closed(server)) >= len(expected))
        assert closed(server) == expected


def test_a_generator_that_never_ends_ends_with_its_client(server: Serving) -> None:
    with server.connect() as sock:
        sock.sendall(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 200")
    server.until(lambda: b"endless" in closed(server))
    assert closed(server).count(b"endless") == 1


def test_no_content_where_there_must_be_none(server: Serving) -> None:
    head, body = get(server, "/no-content")
    assert body == b""
    assert b"Content-Length" not in head
    head, body = get(server, "/not-modified")
    assert body == b""
    assert b"Content-Length: 7" in head
    head, body = get(server, "/hello", method="HEAD")
    assert body == b""
    head, body = get(server, "/generator", method="HEAD")
    assert body == b""


def test_latin_1_passes_both_ways(server: Serving) -> None:
    head, _ = get(server, "/latin")
    assert head.startswith("HTTP/1.1 200 Grüße\r\n".encode("latin-1"))
    assert "X: ä".encode("latin-1") in head


def test_a_function_that_is_kept_beyond_its_call_says_so(server: Serving) -> None:
    get(server, "/keeps")
    assert b"has ended" in get(server, "/uses-kept")[1]
    assert get(server, "/hello")[1] == b"hello"


@pytest.mark.parametrize("size", [0, 1, 8191, 8192, 8193, 65535, 65536, 65537, 5_000_000])
def test_bodies_of_any_size_arrive_whole(server: Serving, size: int) -> None:
    with server.connect() as sock:
        buffer = bytearray()
        for _ in range(2):
            sock.sendall(f"GET /big?{size} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            status, _, body = read_reply(sock, buffer)
            assert (status, len(body), body.strip(b"b")) == (200, size, b"")


def test_pipelined_requests_are_answered_in_order(server: Serving) -> None:
    paths = ["/sleep?0.05", "/hello", "/generator", "/big?100000", "/raises", "/sized", "/hello"]
    with server.connect() as sock:
        sock.sendall(b"".join(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode() for path in paths[:4] + paths[5:]))
        buffer = bytearray()
        bodies = [read_reply(sock, buffer)[2] for _ in range(6)]
    assert bodies == [b"slept", b"hello", b"abc", b"b" * 100000, b"abc", b"hello"]


def test_a_file_is_sent_from_where_it_stands(serve: object, tmp_path: object) -> None:
    path = tmp_path / "file"
    data = bytes(range(256)) * 20_000
    path.write_bytes(data)
    server = serve("behaviours", env={"TEST_FILE": str(path)})
    for offset in (0, 1, 5_000_000):
        head, body = get(server, f"/file?{offset}")
        assert f"Content-Length: {len(data) - offset}".encode() in head
        assert body == data[offset:]
    assert get(server, "/file", method="HEAD")[1] == b""


def test_the_views_that_keep_to_the_rules_are_served_through_a_validator(serve: object, tmp_path: object) -> None:
    (tmp_path / "file").write_bytes(b"f" * 100_000)
    server = serve("behaviours:validated", env={"TEST_FILE": str(tmp_path / "file")})
    for path in ("/hello", "/generator", "/sized", "/write", "/replaced", "/big?100000", "/sleep?0.01", "/file",
                 "/memory-file", "/closed", "/environ", "/nothing-there"):  # fmt: skip
        for method in ("GET", "POST"):
            head, _ = get(server, path, method=method)
            assert head.split()[1] in (b"200", b"404", b"503"), (path, head, server.log())
    assert "AssertionError" not in server.log()


@pytest.mark.parametrize("kind", ["items", "generator", "lists", "tuple"])
def test_headers_may_be_whatever_gives_pairs(server: Serving, kind: str) -> None:
    head, body = get(server, f"/header-kinds?{kind}")
    assert head.startswith(b"HTTP/1.1 200 OK\r\nX-One: 1\r\nX-Two: 2\r\n"), head
    assert body == b"body"


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("dict", "a response header must be a pair of two str, not 'X-One'"),
        ("triples", "a response header must be a pair of two str, not ['X-One', '1', '2']"),
        ("none", "the response headers must be a list of (name, value), not None"),
        ("number", "the response headers must be a list of (name, value), not 1"),
    ],
)
def test_headers_that_are_no_pairs_are_named_in_the_log(server: Serving, kind: str, what: str) -> None:
    head, _ = get(server, f"/header-kinds?{kind}")
    assert head.startswith(b"HTTP/1.1 500 "), head
    assert log_has(server, what), server.log()


WHOLE = bytes(range(256)) * 500


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("bytearray", b"one "),
        ("memoryview", b"one two"),
        ("generator", b"one " + b"to" + b"three"),
        ("large", WHOLE + WHOLE),
        ("write", b"changingother"),
    ],
)
def test_a_body_may_be_of_anything_that_holds_bytes(server: Serving, kind: str, expected: bytes) -> None:
    head, body = get(server, f"/body-kinds?{kind}", version="1.0")
    assert head.startswith(b"HTTP/1.1 200 OK"), head
    assert body == expected


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("array", "the application's iterable gave an object of type array"),
        ("released", "the application's iterable gave an object of type memoryview"),
        ("write-str", "write() takes bytes, not str"),
    ],
)
def test_a_body_of_what_is_no_bytes_is_named_in_the_log(server: Serving, kind: str, what: str) -> None:
    head, _ = get(server, f"/body-kinds?{kind}")
    assert head.startswith(b"HTTP/1.1 500 "), head
    assert log_has(server, what), server.log()
