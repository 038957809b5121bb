"""FastCGI beyond one request: records both ways, connections that are kept, management, and what is given up."""

from __future__ import annotations

import functools
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from drivers import driving
from gatewayrequests import (
    END,
    exchange,
    fastcgi,
    packed,
    parsed,
    place,
    read_record,
    read_reply,
    variables,
)  # fmt: skip
from serving import PATIENCE, Serving

Serve = Callable[..., Serving]

DRIVEN = driving("records")
driven = pytest.mark.parametrize("driver", DRIVEN)
#: What one record has, at the most.
FULL = 65_528


def serve_at(serve: Serve, driver: tuple[str, ...], *options: str) -> Serving:
    target, *more = driver
    return serve(target, *more, "--bind=fastcgi://127.0.0.1:0", *options)


@contextmanager
def connected(served: Serving) -> Iterator[socket.socket]:
    with socket.create_connection(place(served), PATIENCE) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield sock


def asked(query: str = "", body: bytes = b"", *, keep: bool = True, number: int = 1, **more: str) -> bytes:
    given = variables("POST" if body else "GET", f"/?{query}", body, more)
    return fastcgi(given, body, keep=keep, number=number)


@functools.cache
def content(size: int) -> bytes:
    return b"".join(b"%07d\n" % at for at in range((size + 7) // 8))[:size]


def ended(sock: socket.socket) -> bool:
    """The connection has ended in order, and nothing came before."""
    return read_record(sock)[0] == 0


@driven
def test_a_kept_connection_has_one_request_after_the_other(serve: Serve, driver: tuple[str, ...]) -> None:
    served = serve_at(serve, driver)
    with connected(served) as sock:
        for number in (1, 1, 7, 65_535, 256):
            for body in (b"", b"hello", b"x" * 100_000):
                sock.sendall(asked("echo", body, number=number))
                status, headers, echoed = parsed(read_reply(sock, number))
                assert (status, echoed) == (200, body)
                assert "connection" not in headers
        sock.sendall(asked("parts=5000"))
        assert parsed(read_reply(sock))[2] == content(5000)
        sock.sendall(asked(keep=False))
        assert parsed(read_reply(sock))[2] == b"hello"
        assert ended(sock), "nobody wants to go on"
    assert served.stop() == 0


@driven
def test_requests_that_come_together_are_answered_in_order(serve: Serve, driver: tuple[str, ...]) -> None:
    served = serve_at(serve, driver)
    with connected(served) as sock:
        sizes = [5, 70_000, 9000, 200_000, 1]
        sock.sendall(b"".join(asked(f"bytes={size}", number=at + 1) for at, size in enumerate(sizes)))
        for at, size in enumerate(sizes):
            assert parsed(read_reply(sock, at + 1))[2] == content(size)


@driven
def test_replies_of_every_size_and_kind_are_cut_into_records(serve: Serve, driver: tuple[str, ...]) -> None:
    served = serve_at(serve, driver)
    with connected(served) as sock:
        for kind in ("bytes", "bytearray", "parts", "large", "sized", "file"):
            for size in (1, 8_192, 8_193, FULL - 1, FULL, FULL + 1, 3 * FULL, 1_000_003):
                sock.sendall(asked(f"{kind}={size}"))
                assert parsed(read_reply(sock))[2] == content(size), (kind, size)


@driven
def test_the_end_of_a_reply_is_not_held_back(serve: Serve, driver: tuple[str, ...]) -> None:
    """A web server whose client has all that was announced lets go of a connection that has not ended its reply."""
    served = serve_at(serve, driver)
    with connected(served) as sock:
        for method, body in (("GET", content(5)), ("HEAD", b"")):
            sock.sendall(fastcgi(variables(method, "/?held=5"), keep=True))
            # The application is not done before it is told so.
            assert parsed(read_reply(sock))[2] == body, method
            assert parsed(exchange(served, asked("release", keep=False)))[2] == b"done"


@driven
def test_a_slow_reader_gets_all_of_it(serve: Serve, driver: tuple[str, ...]) -> None:
    served = serve_at(serve, driver)
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(PATIENCE)
        sock.connect(place(served))
        for kind in ("bytes", "bytearray", "large", "file"):
            sock.sendall(asked(f"{kind}=3000000"))
            assert parsed(read_reply(sock))[2] == content(3_000_000), kind


@driven
def test_a_reply_that_is_too_short_never_looks_complete(serve: Serve, driver: tuple[str, ...]) -> None:
    served = serve_at(serve, driver)
    for query in ("short=0", "short=50", "short=5000"):
        with connected(served) as sock:
            sock.sendall(asked(query))
            kinds = []
            while not kinds or kinds[-1] != 0:
                kind, _, part = read_record(sock)
                assert kind == 0 or part, "its stream was ended"
                kinds.append(kind)
            assert END not in kinds
    served.says("announced Content-Length 5001 and gave 5000")


@driven
def test_a_body_without_a_length_ends_with_its_stream(serve: Serve, driver: tuple[str, ...]) -> None:
    served = serve_at(serve, driver)
    given = variables("POST", "/?length", b"", {"CONTENT_LENGTH": ""})
    whole = fastcgi(given, content(200_000), keep=True)
    empty = fastcgi(given, b"", keep=True)
    with connected(served) as sock:
        for request, length in ((whole, 200_000), (empty, 0), (whole, 200_000)):
            for at in range(0, 600):
                sock.sendall(request[at : at + 1])
            sock.sendall(request[600:-8])
            sock.sendall(request[-8:])
            told, _, body = parsed(read_reply(sock))[2].partition(b" ")
            # One that is complete has a length that is known, as the application may read by that alone.
            assert told in (b"none", b"%d" % length)
            assert body == content(length)


@driven
def test_a_body_is_exactly_as_long_as_it_was_told_to_be(serve: Serve, driver: tuple[str, ...]) -> None:
    served = serve_at(serve, driver)
    for length, status in (("4", 400), ("6", 400), ("5", 200)):
        with connected(served) as sock:
            sock.sendall(asked("echo", b"hello", CONTENT_LENGTH=length))
            if status == 200 or "no-request-buffering" not in str(driver):
                assert parsed(read_reply(sock))[0] == status
        assert parsed(exchange(served, asked(keep=False)))[2] == b"hello", "nothing else is harmed"


@driven
def test_a_body_is_as_large_as_is_allowed_and_no_larger(serve: Serve, driver: tuple[str, ...]) -> None:
    served = serve_at(serve, driver, "--limit-body-bytes", "70000")
    for told in (True, False):
        for size, fits in ((69_999, True), (70_000, True), (70_001, False)):
            given = variables("POST", "/?echo", b"x" * size, {} if told else {"CONTENT_LENGTH": ""})
            with connected(served) as sock:
                sock.sendall(fastcgi(given, content(size), keep=True))
                status, _, body = parsed(read_reply(sock))
                assert (status, body == content(size)) == ((200, True) if fits else (413, False)), (told, size)


@driven
def test_variables_are_as_large_as_is_allowed_and_no_larger(serve: Serve, driver: tuple[str, ...]) -> None:
    served = serve_at(serve, driver, "--limit-header-bytes", "4096")
    short = len(packed(variables("GET", "/?", more={"HTTP_COOKIE": "c" * 200}))) - 200
    for size, status in ((4095, 200), (4096, 200), (4097, 431)):
        with connected(served) as sock:
            sock.sendall(asked(keep=False, HTTP_COOKIE="c" * (size - short)))
            assert parsed(read_reply(sock))[0] == status, size


@driven
def test_the_client_that_was_named_is_forgotten_with_its_request(serve: Serve, driver: tuple[str, ...]) -> None:
    served = serve_at(serve, driver)
    with connected(served) as sock:
        for named, seen in (("192.0.2.7", b"192.0.2.7"), ("", b"127.0.0.1"), ("2001:db8::9", b"2001:db8::9")):
            sock.sendall(asked("client", REMOTE_ADDR=named, REMOTE_PORT="" if not named else "5"))
            assert parsed(read_reply(sock))[2] == seen


@driven
def test_a_kept_connection_that_stays_silent_is_closed(serve: Serve, driver: tuple[str, ...]) -> None:
    served = serve_at(serve, driver, "--keep-alive", "1")
    with connected(served) as sock:
        sock.sendall(asked())
        assert parsed(read_reply(sock))[2] == b"hello"
        assert ended(sock)
    with connected(served) as sock:
        sock.sendall(asked() + asked()[:20])
        assert parsed(read_reply(sock))[2] == b"hello"
        sock.sendall(asked()[20:])
        assert parsed(read_reply(sock))[2] == b"hello", "one that has begun is no silence"


@driven
def test_a_refusal_is_about_its_request_and_ends_the_connection(serve: Serve, driver: tuple[str, ...]) -> None:
    served = serve_at(serve, driver)
    with connected(served) as sock:
        for number, method, status in ((3, "GET", 200), (9, "GET /", 400)):
            sock.sendall(asked(number=number, REQUEST_METHOD=method))
            assert parsed(read_reply(sock, number))[0] == status
        assert ended(sock)
    with connected(served) as sock:
        sock.sendall(asked())
        assert parsed(read_reply(sock))[2] == b"hello"
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert ended(sock), "nobody has asked"
    served.says("expected a FastCGI request, got an HTTP request: ")


@driven
def test_a_server_that_stops_answers_what_has_begun_and_closes_between_requests(
    serve: Serve, driver: tuple[str, ...]
) -> None:
    served = serve_at(serve, driver)
    with connected(served) as idle, connected(served) as busy:
        for sock in (idle, busy):
            sock.sendall(asked("echo", b"hello"))
            assert parsed(read_reply(sock))[2] == b"hello"
        request = asked("bytes=300000", b"hello")
        busy.sendall(request[:-8])
        served.process.terminate()
        assert ended(idle)
        busy.sendall(request[-8:])
        assert parsed(read_reply(busy))[2] == content(300_000)
        assert ended(busy)
    assert served.process.wait(PATIENCE) == 0


def test_a_request_that_takes_too_long_is_answered_in_records(serve: Serve) -> None:
    served = serve("records:application", "--bind=fastcgi://127.0.0.1:0", "--request-timeout", "0.3")
    with connected(served) as sock:
        sock.sendall(asked("held", number=4))
        assert parsed(read_reply(sock, 4))[0] == 504
        assert ended(sock)
    # It has as long as all requests have.
    served.until(lambda: parsed(exchange(served, asked("release", keep=False)))[2] == b"done")


def test_a_connection_that_speaks_for_another_may_be_kept(serve: Serve) -> None:
    from proxyheaders import v2

    served = serve("records:application", "--bind=fastcgi://127.0.0.1:0?proxy=v2", "--gateway-allow", "198.51.100.0/24")
    with connected(served) as sock:
        sock.sendall(v2(("198.51.100.9", 5), ("127.0.0.1", 1)))
        for named, seen in (("192.0.2.7", b"192.0.2.7"), ("", b"198.51.100.9")):
            sock.sendall(asked("client", REMOTE_ADDR=named, REMOTE_PORT=""))
            assert parsed(read_reply(sock))[2] == seen


def test_what_is_lost_in_the_middle_of_a_record_is_no_request(serve: Serve) -> None:
    served = serve("records:application", "--bind=fastcgi://127.0.0.1:0")
    request = asked("echo", b"hello")
    for at in (1, 7, 8, 12, 16, 40, len(request) - 1):
        with connected(served) as sock:
            sock.sendall(request[:at])
            sock.shutdown(socket.SHUT_WR)
            found: Any = read_record(sock)
            assert found[0] == 0 or found[2].startswith(b"Status: 400"), (at, found)
    assert parsed(exchange(served, asked(keep=False)))[2] == b"hello"
