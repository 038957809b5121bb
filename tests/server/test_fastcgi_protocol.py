"""What FastCGI has beside requests: management records, other roles, second requests, requests that are given up."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from gatewayrequests import (
    ABORT,
    BEGIN,
    END,
    GET_VALUES,
    GET_VALUES_RESULT,
    PARAMS,
    STDIN,
    STDOUT,
    UNKNOWN_TYPE,
    exchange,
    packed,
    parsed,
    read_record,
    read_reply,
    record,
    variables,
)
from serving import Serving
from test_fastcgi import asked, connected, driven, ended, serve_at

Serve = Callable[..., Serving]


@driven
def test_management_records_are_answered_between_requests_and_inside_of_one(
    serve: Serve, driver: tuple[str, ...]
) -> None:
    served = serve_at(serve, driver, "--limit-connections", "321")
    names = {"FCGI_MAX_CONNS": "", "FCGI_MAX_REQS": "", "FCGI_MPXS_CONNS": "", "OTHER": ""}
    values = record(GET_VALUES, 0, packed(names), 1)
    told = packed({"FCGI_MAX_CONNS": "321", "FCGI_MAX_REQS": "321", "FCGI_MPXS_CONNS": "0"})
    unknown = record(200, 0, b"whatever", 7)
    refused = bytes([200, 0, 0, 0, 0, 0, 0, 0])
    request = asked("echo", b"hello")
    inside = request.index(b"hello") - 8
    with connected(served) as sock:
        for sent in (values, values[:3], values[3:]):
            sock.sendall(sent)
            if sent != values[:3]:
                assert read_record(sock) == (GET_VALUES_RESULT, 0, told)
        sock.sendall(unknown)
        assert read_record(sock) == (UNKNOWN_TYPE, 0, refused)
        for at in (16, inside):
            sock.sendall(request[:at] + values + unknown + request[at:])
            found = [read_record(sock) for _ in range(5)]
            assert sorted(kind for kind, *_ in found) == [END, STDOUT, STDOUT, GET_VALUES_RESULT, UNKNOWN_TYPE]
            assert {(GET_VALUES_RESULT, 0, told), (UNKNOWN_TYPE, 0, refused)} <= set(found)
        sock.sendall(request)
        assert parsed(read_reply(sock))[2] == b"hello"


@driven
def test_a_second_request_at_the_same_time_is_told_that_there_is_no_multiplexing(
    serve: Serve, driver: tuple[str, ...]
) -> None:
    served = serve_at(serve, driver)
    request, other = asked("echo", b"hello"), asked("echo", b"other", number=2)
    at = request.index(b"hello") - 8
    with connected(served) as sock:
        sock.sendall(request[:16] + other + request[16:])
        assert read_record(sock) == (END, 2, bytes([0, 0, 0, 0, 1, 0, 0, 0]))
        assert parsed(read_reply(sock))[2] == b"hello"
        sock.sendall(request[:at] + other[:16] + request[at:] + other[16:])
        found = [read_record(sock) for _ in range(4)]
        assert (END, 2, bytes([0, 0, 0, 0, 1, 0, 0, 0])) in found
        assert [about for _, about, _ in found].count(1) == 3
        sock.sendall(other)
        assert parsed(read_reply(sock, 2))[2] == b"other", "afterwards there is room for it"


@driven
def test_what_is_no_responders_request_is_refused_in_the_words_of_the_protocol(
    serve: Serve, driver: tuple[str, ...]
) -> None:
    served = serve_at(serve, driver)
    for role in (2, 3, 9):
        for keep in (True, False):
            with connected(served) as sock:
                sock.sendall(record(BEGIN, 5, struct.pack("!HB5x", role, keep)))
                assert read_record(sock) == (END, 5, bytes([0, 0, 0, 0, 3, 0, 0, 0]))
                if not keep:
                    assert ended(sock)
                    continue
                sock.sendall(record(PARAMS, 5, packed(variables())) + record(PARAMS, 5) + record(STDIN, 5))
                sock.sendall(asked())
                assert parsed(read_reply(sock))[2] == b"hello"


@driven
def test_a_request_that_is_given_up_ends_for_the_application(serve: Serve, driver: tuple[str, ...]) -> None:
    served = serve_at(serve, driver)
    with connected(served) as sock:
        sock.sendall(asked("endless"))
        assert read_record(sock)[0] == STDOUT
        sock.sendall(record(ABORT, 2) + record(ABORT, 1))
        # Whoever gives up reads on, until the end that it is owed.
        with pytest.raises((ConnectionResetError, AssertionError)):
            while not ended(sock):
                pass
            raise ConnectionResetError
    served.until(lambda: parsed(exchange(served, asked("left", keep=False)))[2] == b"1")
    log = served.log()
    assert "Traceback" not in log, log


@driven
def test_a_request_that_is_given_up_before_it_is_complete_is_nobodys(serve: Serve, driver: tuple[str, ...]) -> None:
    served = serve_at(serve, driver)
    request = asked("echo", b"hello")
    with connected(served) as sock:
        sock.sendall(request[:16] + record(ABORT, 1))
        assert read_record(sock) == (END, 1, bytes(8))
        sock.sendall(request)
        assert parsed(read_reply(sock))[2] == b"hello", "the connection goes on"
        sock.sendall(request[: request.index(b"hello") + 2])
        sock.sendall(b"l" * 6)
        sock.sendall(record(ABORT, 1))
        with pytest.raises((ConnectionResetError, AssertionError)):
            while not ended(sock):
                pass
            raise ConnectionResetError
    assert parsed(exchange(served, asked(keep=False)))[2] == b"hello", "nothing else is harmed"
    assert "Traceback" not in served.log()
