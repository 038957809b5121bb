"""Whom to believe: X-Forwarded-* and Forwarded, from trusted peers and from others."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from serving import Serving, read_reply


def ask(server: Serving, headers: str) -> tuple[int, dict[str, str]]:
    with server.connect() as sock:
        sock.sendall(f"GET / HTTP/1.1\r\nHost: a\r\n{headers}\r\n".encode())
        status, _, body = read_reply(sock, bytearray())
        return status, json.loads(body) if status == 200 else {}


CASES = [
    ("X-Forwarded-For: 9.9.9.9, 203.0.113.7\r\n", {"REMOTE_ADDR": "203.0.113.7"}),
    ("X-Forwarded-For: 9.9.9.9, 203.0.113.7, 127.0.0.2\r\n", {"REMOTE_ADDR": "203.0.113.7"}),
    ("X-Forwarded-For: evil, 203.0.113.7:123\r\n", {"REMOTE_ADDR": "203.0.113.7", "REMOTE_PORT": "123"}),
    ("X-Forwarded-For: 127.0.0.3\r\n", {"REMOTE_ADDR": "127.0.0.3"}),
    ("X-Forwarded-For: unknown\r\n", {"REMOTE_ADDR": "127.0.0.1"}),
    ("X-Forwarded-Proto: https\r\n", {"wsgi.url_scheme": "https", "SERVER_PORT": "443"}),
    ("X-Forwarded-Proto: https\r\nX-Forwarded-Port: 8443\r\n", {"SERVER_PORT": "8443"}),
    ("X-Forwarded-Host: shop.example\r\n", {"HTTP_HOST": "shop.example"}),
    ("X-Forwarded-Prefix: /shop\r\n", {"SCRIPT_NAME": "/shop"}),
    ('Forwarded: for="[2001:db8::1]:47011";proto=https;host=b.example\r\n',
     {"REMOTE_ADDR": "2001:db8::1", "REMOTE_PORT": "47011", "wsgi.url_scheme": "https", "HTTP_HOST": "b.example"}),
    ("Forwarded: for=9.9.9.9, for=203.0.113.7\r\n", {"REMOTE_ADDR": "203.0.113.7"}),
    ("Forwarded: for=_hidden\r\n", {"REMOTE_ADDR": "127.0.0.1"}),
]  # fmt: skip


@pytest.mark.parametrize(("headers", "expected"), CASES)
def test_a_trusted_peer_is_believed(echo: Serving, headers: str, expected: dict[str, str]) -> None:
    for _ in range(3):
        status, found = ask(echo, headers)
        assert status == 200
        assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize(("headers", "expected"), CASES)
def test_anyone_else_changes_nothing(stranger: Serving, headers: str, expected: dict[str, str]) -> None:
    status, found = ask(stranger, headers)
    assert status == 200
    assert found["REMOTE_ADDR"] == "127.0.0.1"
    assert found["wsgi.url_scheme"] == "http"
    assert found["HTTP_HOST"] == "a"
    assert found["SCRIPT_NAME"] == ""
    assert not [key for key in found if "FORWARDED" in key], "removed where a trusted-proxy mode is on"


@pytest.mark.parametrize("path", ["/x", "/api/x", "/pre/api/x"])
def test_a_proxy_s_prefix_comes_before_the_script_name(serve: Callable[..., Serving], path: str) -> None:
    """Whatever the proxy has stripped: both prefixes, its own, or nothing; as under ASGI."""
    server = serve("echo", "--script-name", "/api")
    for _ in range(3):
        with server.connect() as sock:
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nX-Forwarded-Prefix: /pre\r\n\r\n".encode())
            found = json.loads(read_reply(sock, bytearray())[2])
        assert (found["SCRIPT_NAME"], found["PATH_INFO"]) == ("/pre/api", "/x")


@pytest.fixture(scope="module")
def stranger() -> Serving:
    server = Serving("echo", "--forwarded-allow-ips", "10.0.0.0/8,192.0.2.1")
    yield server
    server.kill()


def test_where_nobody_is_trusted_the_headers_are_headers_like_others(serve: Callable[..., Serving]) -> None:
    server = serve("echo", "--forwarded-allow-ips", "")
    _, found = ask(server, "X-Forwarded-For: 9.9.9.9\r\n")
    assert (found["REMOTE_ADDR"], found["HTTP_X_FORWARDED_FOR"]) == ("127.0.0.1", "9.9.9.9")


@pytest.mark.parametrize(
    "headers",
    [
        "X-Forwarded-Proto: https\r\nX-Forwarded-Ssl: off\r\n",
        "X-Forwarded-Proto: gopher\r\n",
        "X-Forwarded-Host: a/b\r\n",
        "X-Forwarded-Port: 99999\r\n",
        "X-Forwarded-Prefix: //evil\r\n",
        'Forwarded: for="unclosed\r\n',
        "Forwarded: for=1.2.3.4;for=5.6.7.8\r\n",
        "Forwarded: for=1.2.3.4\r\nX-Forwarded-For: 5.6.7.8\r\n",
    ],
)
def test_what_contradicts_itself_is_refused(echo: Serving, headers: str) -> None:
    assert ask(echo, headers)[0] == 400


def test_a_unix_socket_is_trusted(serve: Callable[..., Serving], tmp_path: object) -> None:
    import socket

    server = serve("echo", f"--bind=unix:{tmp_path}/sock")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(f"{tmp_path}/sock")
        sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.7\r\n\r\n")
        found = json.loads(read_reply(sock, bytearray())[2])
    assert found["REMOTE_ADDR"] == "203.0.113.7"
    assert (found["SERVER_NAME"], found["SERVER_PORT"]) == ("localhost", "80")
    assert server.stop() == 0
    import os

    assert not os.path.exists(f"{tmp_path}/sock")
