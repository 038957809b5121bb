"""Addresses for a web server's own protocol: what its variables become, who may send them, and how replies end."""

from __future__ import annotations

import hashlib
import json
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest
from drivers import driving
from gatewayrequests import CLIENT, SAME, WRITERS, exchange, parsed, place, unframed, variables
from proxyheaders import v1, v2
from serving import PATIENCE, Serving, read_all

Serve = Callable[..., Serving]

DRIVEN = driving("doors", "checked")
PROTOCOLS = sorted(WRITERS)
each = pytest.mark.parametrize("protocol", PROTOCOLS)
driven = pytest.mark.parametrize("driver", DRIVEN)


def serve_at(serve: Serve, driver: tuple[str, ...], protocol: str, *options: str) -> Serving:
    target, *more = driver
    return serve(target, *more, f"--bind={protocol}://127.0.0.1:0", *options)


def ask(served: Serving, protocol: str, *, body: bytes = b"", number: int = 0, **request: Any) -> dict[str, Any]:
    sent = WRITERS[protocol](variables(body=body, **request), body)
    status, _, content = parsed(exchange(served, sent, number))
    assert status == 200, content
    found: dict[str, Any] = json.loads(content)
    return found


#: What differs between the doors, as there is no word for it in the others, or what says it is the server itself.
ONLY_WSGI = {
    "DOCUMENT_ROOT", "REQUEST_SCHEME", "SERVER_NAME", "SERVER_PORT", "REMOTE_ADDR", "REMOTE_PORT", "CONTENT_TYPE",
}  # fmt: skip
ONLY_ASGI = {"server", "client", "extensions"}


@each
@driven
def test_the_same_request_means_the_same_through_every_door(
    serve: Serve, driver: tuple[str, ...], protocol: str
) -> None:
    target, *more = driver
    served = serve(target, *more, "--bind=127.0.0.1:0", f"--bind={protocol}:127.0.0.1:0")
    ignored = ONLY_ASGI if target.endswith("app") else ONLY_WSGI
    for method, uri, headers, body in SAME:
        lines = "".join(f"{name}: {value}\r\n" for name, value in {"Host": "shop.example", **headers}.items())
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        plain = f"{method} {uri} HTTP/1.1\r\n{lines}{length}Connection: close\r\n\r\n".encode() + body
        by_http = json.loads(parsed(exchange(served, plain))[2])
        named = {
            ("" if name == "Content-Type" else "HTTP_") + name.upper().replace("-", "_"): value
            for name, value in headers.items()
        }
        path = {} if target.endswith("app") else {"PATH_INFO": by_http["PATH_INFO"]}
        # The web server has decoded the path.
        path = path or {"PATH_INFO": by_http["path"].encode().decode("latin-1")}
        by_variables = ask(served, protocol, method=method, target=uri, body=body, more={**named, **path}, number=1)
        for found in (by_http, by_variables):
            if isinstance(found.get("headers"), list):
                found["headers"] = sorted(pair for pair in found["headers"] if pair[0] != "connection")
            found.pop("HTTP_CONNECTION", None)
            # SCGI says the length of every body, also of none.
            if protocol == "scgi" and not body and found.get("CONTENT_LENGTH") == "0":
                del found["CONTENT_LENGTH"]
            if protocol == "scgi" and not body and "headers" in found:
                found["headers"] = [pair for pair in found["headers"] if pair != ["content-length", "0"]]
        differs = {key for key in {*by_http, *by_variables} if by_http.get(key) != by_variables.get(key)}
        assert differs <= ignored, (uri, {key: (by_http.get(key), by_variables.get(key)) for key in differs})


@each
@driven
def test_the_client_that_is_named_is_the_peer(serve: Serve, driver: tuple[str, ...], protocol: str) -> None:
    served = serve_at(serve, driver, protocol, "--access-log", "%h %U")
    for address in (CLIENT[0], "2001:db8::7", CLIENT[0]):
        more = {"REMOTE_ADDR": address, "HTTPS": "on", "HTTP_X_FORWARDED_FOR": "9.9.9.9", "SERVER_PORT": "443"}
        for _ in range(3):
            found = ask(served, protocol, more=more)
            if "client" in found:
                assert found["client"] == [address, int(CLIENT[1])]
                assert (found["scheme"], found["server"]) == ("https", ["shop.example", 443])
            else:
                assert (found["REMOTE_ADDR"], found["REMOTE_PORT"]) == (address, CLIENT[1])
                assert (found["wsgi.url_scheme"], found["SERVER_NAME"]) == ("https", "shop.example")
    found = ask(served, protocol, more={"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": "203.0.113.9"})
    assert found.get("REMOTE_ADDR", found.get("client", [""])[0]) == "203.0.113.9", "a proxy before the web server"
    served.until(lambda: served.log().count(f"{CLIENT[0]} /\n") == 6)


@each
@driven
def test_what_would_command_the_server_or_pass_for_its_own_never_gets_through(
    serve: Serve, driver: tuple[str, ...], protocol: str
) -> None:
    served = serve_at(serve, driver, protocol)
    evil = {
        "UWSGI_FILE": "exec://touch", "UWSGI_CHDIR": "/", "wsgi.input": "x", "wsgi.url_scheme": "https",
        "forehand.unique_id": "x", "HTTP_PROXY": "http://evil", "lower": "x", "WITH-DASH": "x",
        "HTTP_TRANSFER_ENCODING": "chunked", "HTTP_CONTENT_LENGTH": "9",
    }  # fmt: skip
    found = ask(served, protocol, more={**evil, "REMOTE_USER": "ann", "SHOP_COLOUR": "blue"})
    told = found["extensions"]["forehand.gateway"] if "extensions" in found else found
    assert (told["REMOTE_USER"], told["SHOP_COLOUR"]) == ("ann", "blue")
    text = json.dumps(found)
    for name in ("UWSGI_", "unique_id", "HTTP_PROXY", "lower", "WITH-DASH", "TRANSFER", "HTTP_CONTENT", "evil"):
        assert name not in text
    assert found.get("wsgi.url_scheme", found.get("scheme")) == "http"


@each
@driven
def test_the_application_is_where_the_variables_say(serve: Serve, driver: tuple[str, ...], protocol: str) -> None:
    served = serve_at(serve, driver, protocol, "--script-name", "/shop")
    for more, script_name, path_info in [
        ({"PATH_INFO": "/shop/a b"}, "/shop", "/a b"),
        ({"PATH_INFO": "/a b", "SCRIPT_NAME": "/shop"}, "/shop", "/a b"),
        ({"PATH_INFO": "", "SCRIPT_NAME": "/shop/a%20b"}, "/shop", "/a b"),
        ({"PATH_INFO": "/shop/a b", "SCRIPT_NAME": "/shop"}, "/shop", "/a b"),
        ({"PATH_INFO": "/other"}, "", "/other"),
    ]:
        found = ask(served, protocol, target="/shop/a%20b", more=more)
        if "path" in found:
            assert (found["root_path"], found["path"]) == (script_name, script_name + path_info), more
        else:
            assert (found["SCRIPT_NAME"], found["PATH_INFO"]) == (script_name, path_info), more


@each
@driven
def test_replies_have_their_form_and_end_with_the_connection(
    serve: Serve, driver: tuple[str, ...], protocol: str
) -> None:
    served = serve_at(serve, driver, protocol)
    first = b"HTTP/1.1 " if protocol == "uwsgi" else b"Status: "
    for method, query, status, content in [
        ("GET", "parts", 200, b"one,two,three"),
        ("HEAD", "parts", 200, b""),
        ("GET", "nothing", 204, b""),
        ("GET", "unchanged", 304, b""),
        ("GET", "left", 200, None),
        ("HEAD", "left", 200, b""),
    ]:
        reply = unframed(exchange(served, WRITERS[protocol](variables(method, f"/?{query}"))))
        found, headers, body = parsed(reply)
        # A head has a line, and is 200 where it says nothing else.
        assert reply.startswith(first) == (protocol == "uwsgi" or status != 200 or not headers), reply
        assert (found, body) == (status, body if content is None else content)
        # All but what is said here is the web server's own.
        assert not {"status", "date", "connection", "transfer-encoding"} & headers.keys(), headers
    reply = unframed(exchange(served, WRITERS[protocol](variables("GET", "/?fails"))))
    assert reply.startswith(first + b"500 "), reply
    # Without a length only a reset says that the body has no end.
    with socket.create_connection(place(served), PATIENCE) as sock:
        sock.sendall(WRITERS[protocol](variables("GET", "/?broken")))
        with pytest.raises(ConnectionResetError):
            while sock.recv(65536):
                pass


@each
@driven
def test_a_body_may_come_in_pieces_and_one_that_ends_early_is_never_taken_for_whole(
    serve: Serve, driver: tuple[str, ...], protocol: str
) -> None:
    served = serve_at(serve, driver, protocol)
    body = bytes(range(256)) * 4000
    request = WRITERS[protocol](variables("POST", "/", body), body)
    with socket.create_connection(place(served), PATIENCE) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, 600, 1):
            sock.sendall(request[at : at + 1])
        sock.sendall(request[600:])
        found = json.loads(parsed(read_all(sock))[2])
    assert found["body"] == [len(body), hashlib.sha256(body).hexdigest()]
    with socket.create_connection(place(served), PATIENCE) as sock:
        sock.sendall(request[:-1])
        sock.shutdown(socket.SHUT_WR)
        reply = read_all(sock)
        assert not reply or parsed(reply)[0] >= 400, reply
    assert ask(served, protocol)["body"][0] == 0, "nothing else is harmed"


@each
@driven
def test_a_client_that_leaves_is_noticed(serve: Serve, driver: tuple[str, ...], protocol: str) -> None:
    served = serve_at(serve, driver, protocol)
    with socket.create_connection(place(served), PATIENCE) as sock:
        sock.sendall(WRITERS[protocol](variables("GET", "/?endless")))
        assert sock.recv(100)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def left() -> bool:
        return parsed(exchange(served, WRITERS[protocol](variables("GET", "/?left"))))[2] == b"1"

    served.until(left)


@each
def test_who_may_not_send_variables_is_closed_before_one_is_read(serve: Serve, protocol: str) -> None:
    served = serve_at(serve, ("doors:checked",), protocol, "--gateway-allow", "192.0.2.0/24")
    assert exchange(served, WRITERS[protocol](variables())) == b""
    served.until(lambda: "refused a connection from 127.0.0.1:" in served.log())
    assert "(--gateway-allow)" in served.log()


@each
def test_behind_a_proxy_header_whom_that_names_is_judged(serve: Serve, protocol: str) -> None:
    address = f"--bind={protocol}://127.0.0.1:0?proxy=v2"
    served = serve("doors:checked", address, "--gateway-allow", "198.51.100.0/24")
    request = WRITERS[protocol](variables())
    server = ("127.0.0.1", 1)
    assert parsed(exchange(served, v2(("198.51.100.9", 5), server) + request))[0] == 200
    assert exchange(served, v2(("203.0.113.9", 5), server) + request) == b""
    served.until(lambda: "refused a connection from 203.0.113.9:5" in served.log())
    assert "(--gateway-allow)" in served.log()


WRONG = [
    (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "an HTTP request"),
    (b"\x16\x03\x01\x02\x00\x01\x00", "a TLS handshake"),
    (b"PROXY UNKNOWN\r\n", "a PROXY v1 header"),
]


@each
def test_another_protocol_is_refused_and_the_log_says_what_was_expected_and_seen(serve: Serve, protocol: str) -> None:
    served = serve_at(serve, ("doors:checked",), protocol)
    expected = {"uwsgi": "a uwsgi request", "scgi": "an SCGI request", "fastcgi": "a FastCGI request"}[protocol]
    for sent, seen in WRONG:
        reply = exchange(served, sent)
        # Without a number of a request there is nothing that a reply in records could be about.
        assert reply == b"" if protocol == "fastcgi" else parsed(reply)[0] == 400
        served.until(lambda seen=seen: f"expected {expected}, got {seen}: " in served.log())
        assert ask(served, protocol)["body"][0] == 0, "nothing else is harmed"


@pytest.mark.parametrize("driver", driving("doors", "checked", unbuffered=False))
def test_at_an_address_for_http_the_log_says_what_else_has_come(serve: Serve, driver: tuple[str, ...]) -> None:
    target, *more = driver
    served = serve(target, *more)
    with served.connect() as kept:
        kept.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert kept.recv(12) == b"HTTP/1.1 200"
        for sent, seen in [
            *(
                (WRITERS[name](variables()), f"a{'n' * (name == 'scgi')} {word} request")
                for name, word in NAMES.items()
            ),
            (v1(), "a PROXY v1 header"),
            (v2(), "a PROXY v2 header"),
        ]:
            # At once: nothing is waited for that would make a request of it.
            assert parsed(exchange(served, sent))[0] == 400, seen
            served.until(lambda seen=seen: f"expected an HTTP request, got {seen}: " in served.log())
        assert served.log().count("refused a connection from ") == 5


NAMES = {"uwsgi": "uwsgi", "scgi": "SCGI", "fastcgi": "FastCGI"}


@each
def test_a_proxy_header_of_each_version_may_come_before_it(serve: Serve, protocol: str, tmp_path: Any) -> None:
    served = serve(
        "doors:checked", *(f"--bind={protocol}:127.0.0.1:0?proxy={version}" for version in ("v1", "v2", "any")),
        f"--bind={protocol}:unix:{tmp_path}/sock?proxy=v2", "--gateway-allow", "192.0.2.0/24",
    )  # fmt: skip
    request = WRITERS[protocol](variables(more={"REMOTE_ADDR": "203.0.113.9"}))
    for number, (right, wrong) in enumerate([([v1], [v2]), ([v2], [v1]), ([v1, v2], [])]):
        for header in right:
            found = json.loads(parsed(exchange(served, header() + request, number))[2])
            assert found["REMOTE_ADDR"] == "203.0.113.9", "the web server's own client"
        for sent in (*(header() + request for header in wrong), request):
            assert exchange(served, sent, number) == b""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(PATIENCE)
        sock.connect(f"{tmp_path}/sock")
        sock.sendall(v2() + request)
        assert json.loads(parsed(read_all(sock))[2])["REMOTE_ADDR"] == "203.0.113.9"


@each
def test_variables_that_contradict_or_lie_are_refused(serve: Serve, protocol: str) -> None:
    served = serve_at(serve, ("doors:checked",), protocol)
    for wrong in [
        {"CONTENT_LENGTH": "5x"}, {"CONTENT_LENGTH": "-1"}, {"REMOTE_ADDR": "evil"}, {"REMOTE_PORT": "70000"},
        {"REQUEST_METHOD": "GET /"}, {"REQUEST_URI": "/a b"}, {"REQUEST_METHOD": ""}, {"HTTP_X": "a\r\nY: b"},
    ]:  # fmt: skip
        assert parsed(exchange(served, WRITERS[protocol](variables(more=wrong))))[0] == 400, wrong
    twice = [*variables().items(), ("REMOTE_USER", "ann"), ("REMOTE_USER", "bob")]
    assert parsed(exchange(served, WRITERS[protocol](twice)))[0] == 400


def test_a_packet_may_be_as_large_as_its_format_allows(serve: Serve) -> None:
    served = serve_at(serve, ("doors:checked",), "uwsgi")
    room = 65535 - (len(WRITERS["uwsgi"](variables(more={"HTTP_COOKIE": ""}))) - 4)
    found = ask(served, "uwsgi", more={"HTTP_COOKIE": "c" * room})
    assert found["HTTP_COOKIE"] == "c" * room
    few = serve_at(serve, ("doors:checked",), "uwsgi", "--limit-header-bytes", "4096")
    for size, status in [(4095, 200), (4096, 200), (4097, 431)]:
        request = WRITERS["uwsgi"](variables(more={"HTTP_COOKIE": "c" * (size - (65535 - room))}))
        assert int.from_bytes(request[1:3], "little") == size
        assert parsed(exchange(few, request))[0] == status, size


@pytest.mark.parametrize("processes", [(), ("--workers", "2")], ids=["one process", "workers"])
@each
def test_a_unix_socket_may_speak_it(serve: Serve, protocol: str, processes: tuple[str, ...], tmp_path: Any) -> None:
    served = serve("doors:checked", f"--bind={protocol}:unix:{tmp_path}/sock", *processes)
    assert served.url == f"{protocol}:unix:{tmp_path}/sock"
    for _ in range(4):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(PATIENCE)
            sock.connect(f"{tmp_path}/sock")
            sock.sendall(WRITERS[protocol](variables()))
            found = json.loads(parsed(read_all(sock))[2])
        assert found["REMOTE_ADDR"] == CLIENT[0]
