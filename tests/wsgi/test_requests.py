"""What an application is given: environ and wsgi.input (PEP 3333)."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Callable

import pytest
from serving import Serving, Shared, read_all, read_reply

pytestmark = pytest.mark.interpreters


@pytest.fixture(scope="module")
def server() -> Serving:
    server = Serving("behaviours")
    yield server
    assert server.stop() == 0
    server.kill()


def ask(server: Serving, data: bytes) -> bytes:
    with server.connect() as sock:
        sock.sendall(data)
        return read_reply(sock, bytearray())[2]


def facts(server: Serving, data: bytes) -> dict[str, str]:
    found: dict[str, str] = json.loads(ask(server, data))
    return found


def test_environ_is_complete_and_of_exact_types(server: Serving) -> None:
    body = ask(server, b"GET /environ?a=%20b HTTP/1.1\r\nHost: a:1\r\nX-Y: z\r\n\r\n")
    environ = ast.literal_eval(body.decode())
    expected = {
        "REQUEST_METHOD": "GET", "SCRIPT_NAME": "", "PATH_INFO": "/environ", "QUERY_STRING": "a=%20b",
        "SERVER_NAME": "127.0.0.1", "SERVER_PORT": str(server.port), "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "a:1", "HTTP_X_Y": "z", "REMOTE_ADDR": "127.0.0.1", "RAW_URI": "/environ?a=%20b",
        "wsgi.url_scheme": "http",
    }  # fmt: skip
    for key, value in expected.items():
        assert environ[key] == ("str", value), key
    assert environ["wsgi.version"] == ("tuple", (1, 0))
    for key, value in {"multithread": True, "multiprocess": False, "run_once": False, "input_terminated": True}.items():
        assert environ["wsgi." + key] == ("bool", value), key
    assert environ["wsgi.input"][0] == "Input"
    assert environ["wsgi.file_wrapper"][0] == "type"
    assert int(environ["REMOTE_PORT"][1]) > 0
    assert "CONTENT_LENGTH" not in environ
    assert "CONTENT_TYPE" not in environ


def test_one_thread_is_not_called_many(serve: Callable[..., Serving]) -> None:
    server = serve("behaviours", "--threads", "1")
    environ = ast.literal_eval(ask(server, b"GET /environ HTTP/1.1\r\nHost: a\r\n\r\n").decode())
    assert environ["wsgi.multithread"] == ("bool", False)


@pytest.mark.parametrize(
    ("request_lines", "expected"),
    [
        (b"GET /a%20b%2Fc%E4 HTTP/1.1\r\nHost: a\r\n", {"PATH_INFO": "/a b/c\xe4", "RAW_URI": "/a%20b%2Fc%E4"}),
        (b"GET /%00/%0d%0aSet-Cookie:x HTTP/1.1\r\nHost: a\r\n", {"PATH_INFO": "/\0/\r\nSet-Cookie:x"}),
        (b"GET http://b/x HTTP/1.1\r\nHost: a\r\n", {"HTTP_HOST": "b", "PATH_INFO": "/x"}),
        (b"GET http://b HTTP/1.1\r\nHost: a\r\n", {"HTTP_HOST": "b", "PATH_INFO": "/"}),
        (b"GET / HTTP/1.0\r\n", {"SERVER_PROTOCOL": "HTTP/1.0", "HTTP_HOST": None}),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: \x85b\xa0\r\n", {"HTTP_X": "\x85b\xa0"}),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\nX: 2\r\n", {"HTTP_X": "1,2"}),
        (b"GET / HTTP/1.1\r\nHost: a\r\nCookie: a=1\r\nCookie: b=2\r\n", {"HTTP_COOKIE": "a=1; b=2"}),
        (b"GET / HTTP/1.1\r\nHost: a\r\nProxy: http://evil\r\n", {"HTTP_PROXY": None}),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX_Forwarded_For: 1.1.1.1\r\n", {"HTTP_X_FORWARDED_FOR": None}),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Type: a/b\r\n", {"CONTENT_TYPE": "a/b", "HTTP_CONTENT_TYPE": None}),
    ],
)
def test_a_request_becomes_these_keys(echo: Serving, request_lines: bytes, expected: dict[str, str | None]) -> None:
    # Three times: parsed, from the block's template, from the head's.
    for _ in range(3):
        found = facts(echo, request_lines + b"\r\n")
        for key, value in expected.items():
            assert found.get(key) == value, key


def test_an_application_cannot_change_what_the_next_request_gets(server: Serving) -> None:
    first = ask(server, b"GET /environ HTTP/1.1\r\nHost: a\r\n\r\n")
    second = ask(server, b"GET /environ HTTP/1.1\r\nHost: b\r\n\r\n")
    assert ast.literal_eval(first.decode()).keys() == ast.literal_eval(second.decode()).keys()


def _forms(data: bytes) -> list[bytes]:
    """The same body with a length and in chunks."""
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(data[i : i + 7]), data[i : i + 7]) for i in range(0, len(data), 7))
    return [
        b"Content-Length: %d\r\n\r\n%s" % (len(data), data),
        b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n",
    ]


LINES = b"one\ntwo two two\n\nlast"


@pytest.mark.parametrize("buffering", [True, False])
@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("", [b"one\n", b"two two two\n", b"\n", b"last"]),
        ("readline", [b"one\n", b"two two two\n", b"\n", b"last"]),
        ("readline5", [b"one\n", b"two t", b"wo tw", b"o\n", b"\n", b"last"]),
        ("readlines", [b"one\n", b"two two two\n", b"\n", b"last"]),
        ("hint", [1, b"two two two\n", b"\n", b"last"]),
        ("mixed", [b"", b"on", b"e\n", b"two two two\n\nlast", b"", b""]),
    ],
)
def test_lines_are_read_as_from_a_file(shared: Shared, how: str, expected: list[object], buffering: bool) -> None:
    server = shared("behaviours", *([] if buffering else ["--no-request-buffering"]))
    for form in _forms(LINES):
        body = ask(server, b"POST /lines?" + how.encode() + b" HTTP/1.1\r\nHost: a\r\n" + form)
        assert ast.literal_eval(body.decode()) == expected, form


@pytest.mark.parametrize("options", [(), ("--limit-body-memory-bytes", "1000"), ("--no-request-buffering",)])
@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 262_143, 262_144, 262_145, 3_000_000])
def test_uploads_arrive_whole(shared: Shared, options: tuple[str, ...], size: int) -> None:
    server = shared("behaviours", *options)
    data = bytes(i * 7 % 251 for i in range(1000)) * (size // 1000 + 1)
    data = data[:size]
    for form in _forms(data) if size < 2000 else _forms(data)[:1]:
        answer = ask(server, b"POST /upload HTTP/1.1\r\nHost: a\r\n" + form).decode().split()
        assert (int(answer[0]), answer[2]) == (size, hashlib.sha256(data).hexdigest())


def test_100_continue_is_said_when_the_body_is_wanted(shared: Shared) -> None:
    for options, path in [((), "/upload"), (("--no-request-buffering",), "/upload")]:
        server = shared("behaviours", *options)
        with server.connect() as sock:
            sock.sendall(
                f"POST {path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n".encode()
            )
            buffer = bytearray()
            assert read_reply(sock, buffer)[0] == 100
            sock.sendall(b"hello")
            status, _, body = read_reply(sock, buffer)
            assert (status, body[:1]) == (200, b"5")


def test_100_continue_is_never_said_after_a_refusal(serve: Callable[..., Serving]) -> None:
    server = serve("behaviours", "--limit-body-bytes", "4")
    request = b"POST /upload HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    reply = server.raw(request)
    assert reply.startswith(b"HTTP/1.1 413 ")
    assert b"100 Continue" not in reply


def test_where_nobody_reads_the_body_nothing_is_promised(serve: Callable[..., Serving]) -> None:
    server = serve("behaviours", "--no-request-buffering")
    request = b"POST /ignores-body HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    reply = server.raw(request, end=True)
    assert b"100 Continue" not in reply
    assert b"Connection: close" in reply


def test_a_body_that_ends_early_raises_and_never_looks_complete(serve: Callable[..., Serving]) -> None:
    server = serve("elsewhere", "--no-request-buffering")
    with server.connect() as sock:
        sock.sendall(b"POST /reads-and-answers HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhello")
        sock.shutdown(1)
        reply = read_all(sock)
    assert reply.startswith(b"HTTP/1.1 400 "), reply
    assert reply.endswith(b"the client left before its request body was complete"), reply


def test_the_body_limit_holds_to_the_byte(serve: Callable[..., Serving]) -> None:
    server = serve("behaviours", "--limit-body-bytes", "1000")
    for size, status in [(999, 200), (1000, 200), (1001, 413)]:
        for form in _forms(b"x" * size):
            with server.connect() as sock:
                sock.sendall(b"POST /upload HTTP/1.1\r\nHost: a\r\n" + form)
                assert read_reply(sock, bytearray())[0] == status, size


def test_script_name_is_cut_off_the_path(serve: Callable[..., Serving]) -> None:
    server = serve("echo", "--script-name", "/shop")
    for path, info in [("/shop/cart", "/cart"), ("/shop", ""), ("/shopping", "/shopping"), ("/x", "/x")]:
        found = facts(server, f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        assert (found["SCRIPT_NAME"], found["PATH_INFO"]) == ("/shop", info)
