"""Heads that an application has given before, which are judged once: every reply has its own all the same."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from serving import Serving, read_reply

pytestmark = pytest.mark.interpreters

TYPE, LENGTH = {"content-type": "text/plain"}, {"content-length": "7"}
ALWAYS = TYPE | LENGTH
#: Status and headers but for the date, by path; a mark stands for the query.
OWED: dict[str, tuple[int, dict[str, str]]] = {
    "/same": (200, ALWAYS),
    "/turned": (200, ALWAYS),
    "/more": (200, ALWAYS | {"x-loud": "yes"}),
    "/status": (404, ALWAYS),
    "/none": (200, LENGTH),
    "/counted": (200, ALWAYS | {"x-count": "?"}),
    "/kept": (200, ALWAYS | {"x-number": "?"}),
    "/made": (200, ALWAYS | {"x-number": "?"}),
    "/anew": (200, ALWAYS),
    "/digit": (200, ALWAYS | {"x-number": "?3"}),
    "/latin": (200, ALWAYS | {"x-drink": "?drink"}),
    "/own": (200, ALWAYS | {"x-number": "?"}),
    "/again": (500, ALWAYS | {"x-loud": "yes"}),
}
#: What a mark stands for, by the query.
MARKS = {
    "?": str,
    "?3": lambda number: str(number % 3),
    "?drink": lambda number: ("cafe", "caf\xe9", "th\xe9\xe9")[number % 3],
}
TIMES = 40


def owed(path: str, number: int) -> dict[str, str]:
    return {name: MARKS[value](number) if value in MARKS else value for name, value in OWED[path][1].items()}


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    server = Serving("constants", "--bind=127.0.0.1:0", "--threads=1")
    yield server
    assert server.stop() == 0
    server.kill()


def get(path: str, query: int | str = "") -> bytes:
    return f"GET {path}?{query} HTTP/1.1\r\nHost: a\r\n\r\n".encode()


def test_each_reply_has_its_own_head_in_whatever_order_they_come(server: Serving) -> None:
    order = random.Random(7).choices(list(OWED), k=TIMES * len(OWED))
    with server.connect() as sock:
        buffer = bytearray()
        for number, path in enumerate(order):
            sock.sendall(get(path, number))
            status, fields, body = read_reply(sock, buffer)
            del fields["date"]
            assert (status, fields, body) == (OWED[path][0], owed(path, number), b"7 bytes"), (
                f"{path} after {order[:number][-3:]}"
            )


def test_pipelined_replies_have_their_own_heads(server: Serving) -> None:
    order = [path for path in OWED for _ in range(4)] * 4
    with server.connect() as sock:
        sock.sendall(b"".join(get(path, number) for number, path in enumerate(order)))
        buffer = bytearray()
        for number, path in enumerate(order):
            status, fields, _ = read_reply(sock, buffer)
            del fields["date"]
            assert (status, fields) == (OWED[path][0], owed(path, number)), path


def test_what_closes_the_connection_closes_it_each_time(server: Serving) -> None:
    for path in ("/close", "/listed"):
        for _ in range(4):
            reply = server.raw(get(path))
            assert reply.count(b"Connection: close") == 1 and reply.endswith(b"\r\n\r\n7 bytes"), path


def test_a_list_that_has_changed_is_another_one(server: Serving) -> None:
    with server.connect() as sock:
        buffer = bytearray()
        for _ in range(4):
            sock.sendall(get("/listed", "1"))
            status, fields, _ = read_reply(sock, buffer)
            assert (status, fields["x-loud"]) == (200, "yes") and "connection" not in fields
    assert b"Connection: close" in server.raw(get("/listed"))


def test_a_header_that_is_refused_is_refused_each_time(server: Serving) -> None:
    for _ in range(4):
        assert server.raw(b"GET /wrong HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 500 ")


def test_a_value_that_is_refused_is_refused_beside_others_as_long(server: Serving) -> None:
    for number in (0, 1, 0, 0, 2, 0, 3, 0):
        reply = server.raw(f"GET /sometimes?{number} HTTP/1.0\r\n\r\n".encode())
        assert reply.startswith(b"HTTP/1.1 500 " if number else b"HTTP/1.1 200 ")
        assert (b"X-Number: 12\r\n" in reply) == (number == 0)


def test_names_that_are_made_anew_are_those_that_were_given(server: Serving) -> None:
    with server.connect() as sock:
        buffer = bytearray()
        for number in (1, 1, 1, 2, 1, 2, 2, 1):
            sock.sendall(get("/name", number))
            _, fields, _ = read_reply(sock, buffer)
            assert ("x-a" in fields, "x-b" in fields) == (number == 1, number == 2)


def test_heads_that_differ_for_long_are_followed_by_those_that_do_not(server: Serving) -> None:
    """Nothing is kept for a thousand replies then."""
    with server.connect() as sock:
        buffer = bytearray()
        for start in range(100, 1300, 100):
            sock.sendall(b"".join(get("/made", number) for number in range(start, start + 100)))
            for number in range(start, start + 100):
                assert read_reply(sock, buffer)[1]["x-number"] == str(number)
        for number in (7, 7, 8, 8, 7):
            sock.sendall(get("/made", number))
            assert read_reply(sock, buffer)[1]["x-number"] == str(number)
