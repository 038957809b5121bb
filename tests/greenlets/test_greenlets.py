"""One greenlet a request: who waits, who goes on, and what a greenlet keeps to itself."""

from __future__ import annotations

import importlib.util
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from serving import Serving, read_all, read_reply

pytestmark = pytest.mark.interpreters
GEVENT = ("--worker-class", "gevent")


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    """A server of the views."""
    server = Serving("greenlets", *GEVENT)
    yield server
    assert ask(server, "/hello")[1] == b"hello", "the worker lives through all of it"
    assert server.stop() == 0
    server.kill()


@pytest.fixture(scope="module")
def streaming() -> Iterator[Serving]:
    """The same, where applications read bodies as they arrive, and little waits for a peer."""
    server = Serving("greenlets", *GEVENT, "--no-request-buffering")
    yield server
    assert server.stop() == 0
    server.kill()


def send(server: Serving, path: str, more: str = "", body: bytes = b"") -> socket.socket:
    """A connection on which a request was sent."""
    sock = server.connect()
    method = "POST" if "Content-Length" in more else "GET"
    sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: a\r\n{more}\r\n".encode() + body)
    return sock


def ask(server: Serving, path: str) -> tuple[int, bytes]:
    """Status and body."""
    with send(server, path) as sock:
        status, _, body = read_reply(sock, bytearray())
    return status, body


def test_the_library_is_patched_before_the_application_is_imported(server: Serving) -> None:
    assert b"patched=True parent-is-hub=True multithread=True" in ask(server, "/facts")[1]


def test_two_hundred_requests_wait_at_the_same_time_in_one_worker(server: Serving) -> None:
    socks = [send(server, "/meet?200") for _ in range(200)]
    replies = {read_reply(sock, bytearray())[2] for sock in socks}
    for sock in socks:
        sock.close()
    assert replies == {b"met"}


def test_each_request_has_variables_of_its_own(server: Serving) -> None:
    with server.connect() as sock:
        buffer = bytearray()
        for _ in range(3):
            sock.sendall(b"GET /fresh HTTP/1.1\r\nHost: a\r\n\r\n")
            assert read_reply(sock, buffer)[2] == b"nothing nothing something something"


def test_pipelined_requests_are_answered_in_order_though_one_waits(server: Serving) -> None:
    with server.connect() as sock:
        paths = (b"/hello", b"/nap?0.05", b"/fresh")
        sock.sendall(b"".join(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path for path in paths))
        buffer = bytearray()
        assert [read_reply(sock, buffer)[2][:5] for _ in range(3)] == [b"hello", b"slept", b"nothi"]


def test_a_reply_does_not_wait_for_the_next_request_of_its_connection(serve: Callable[..., Serving]) -> None:
    server = serve("greenlets")
    with server.connect() as sock:
        sock.sendall(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\nGET /forever HTTP/1.1\r\nHost: a\r\n\r\n")
        assert read_reply(sock, bytearray())[2] == b"hello"


def test_a_slow_upload_holds_up_nobody(streaming: Serving) -> None:
    with send(streaming, "/upload", "Content-Length: 10\r\n", b"12345") as slow:
        assert ask(streaming, "/hello") == (200, b"hello")
        slow.sendall(b"678")
        assert ask(streaming, "/hello") == (200, b"hello")
        slow.sendall(b"90")
        assert read_reply(slow, bytearray())[2] == b"10 bytes"


def test_an_upload_that_is_received_first_is_the_same(server: Serving) -> None:
    with send(server, "/upload", "Content-Length: 10\r\n", b"12345") as slow:
        assert ask(server, "/hello") == (200, b"hello")
        slow.sendall(b"67890")
        assert read_reply(slow, bytearray())[2] == b"10 bytes"


def test_many_uploads_in_small_parts_come_whole(streaming: Serving) -> None:
    socks = [send(streaming, "/upload", "Content-Length: 5000\r\n") for _ in range(50)]
    for _ in range(5):
        for sock in socks:
            sock.sendall(b"x" * 1000)
    for sock in socks:
        assert read_reply(sock, bytearray())[2] == b"5000 bytes"
        sock.close()


@pytest.mark.parametrize("path", ["/stream", "/write"])
def test_a_slow_reader_holds_up_nobody(server: Serving, path: str) -> None:
    parts = 400
    taken = {"/stream": "the last part was taken", "/write": "all was written"}[path]
    with send(server, f"{path}?{parts}") as slow:
        slow.recv(1)
        assert ask(server, "/hello") == (200, b"hello")
        assert taken not in server.log(), "the application ran ahead of its reader"
        slow.shutdown(socket.SHUT_WR)
        found = read_all(slow)
    assert found.count(b"x") >= parts * 65536
    server.until(lambda: taken in server.log())


def test_a_reader_that_leaves_ends_the_iteration(server: Serving) -> None:
    before = server.log().count("the parts were closed")
    with send(server, "/stream?100000") as sock:
        sock.recv(1)
    server.until(lambda: server.log().count("the parts were closed") > before)


def test_a_reader_that_takes_nothing_is_given_up(serve: Callable[..., Serving]) -> None:
    server = serve("greenlets", "--write-timeout", "300ms")
    with send(server, "/stream?400"):
        server.until(lambda: "the parts were closed" in server.log())
    assert "the last part was taken" not in server.log()
    assert ask(server, "/hello") == (200, b"hello")


def test_a_client_that_leaves_in_its_upload_is_noticed(streaming: Serving) -> None:
    with send(streaming, "/told-upload", "Content-Length: 10\r\n", b"12345"):
        streaming.until(lambda: "reads" in streaming.log())
    streaming.until(lambda: "reading raised ConnectionResetError: the client left" in streaming.log())
    assert ask(streaming, "/hello") == (200, b"hello")


def test_a_timeout_of_gevents_ends_the_waiting_for_a_body(streaming: Serving) -> None:
    with send(streaming, "/impatient", "Content-Length: 10\r\n", b"12345") as sock:
        assert read_reply(sock, bytearray())[2] == b"it did not come"


def test_a_timeout_that_nobody_catches_is_the_applications_failure(server: Serving) -> None:
    assert ask(server, "/timeout")[0] == 500
    server.until(lambda: "gevent.timeout.Timeout" in server.log() and "GET /timeout" in server.log())


def test_whoever_reads_on_after_the_end_is_told_so(streaming: Serving) -> None:
    with send(streaming, "/handed-on", "Content-Length: 10\r\n", b"12345") as sock:
        assert read_reply(sock, bytearray())[2] == b"ended"
        streaming.until(lambda: "the other one heard: the request has ended" in streaming.log())


def test_a_greenlet_that_is_ended_by_its_own_application_has_failed(server: Serving) -> None:
    assert ask(server, "/exits")[0] == 500
    server.until(lambda: "the application failed: GET /exits" in server.log())


def test_what_the_library_starts_works(server: Serving) -> None:
    assert ask(server, "/shell") == (200, b"from a shell\n")
    assert ask(server, "/thread")[0] == 200


@pytest.mark.parametrize("path", ["/hello", "/fresh", "/nap?0.01"])
def test_the_validator_of_pep_3333_has_nothing_to_say(serve: Callable[..., Serving], path: str) -> None:
    server = serve("greenlets:validated")
    assert ask(server, path)[0] == 200
    with send(server, "/upload", "Content-Length: 5\r\n", b"12345") as sock:
        assert read_reply(sock, bytearray())[2] == b"5 bytes"


@pytest.mark.skipif(importlib.util.find_spec("_cffi_backend") is None, reason="gevent's libuv needs cffi")
def test_the_loop_of_libuv_does_as_well(serve: Callable[..., Serving]) -> None:
    server = serve("greenlets", env={"GEVENT_LOOP": "libuv"})
    socks = [send(server, "/meet?20") for _ in range(20)]
    assert {read_reply(sock, bytearray())[2] for sock in socks} == {b"met"}
    for sock in socks:
        sock.close()
    assert server.stop() == 0


def held(server: Serving, count: int) -> list[socket.socket]:
    """So many requests that wait for the file, all of them begun."""
    socks = [send(server, "/until") for _ in range(count)]
    server.until(lambda: server.log().count("waits for the file") == count)
    return socks


@pytest.mark.parametrize(("more", "refused"), [(2, 0), (3, 0), (4, 1)])
def test_the_queue_takes_what_it_may_and_no_more(
    serve: Callable[..., Serving], tmp_path: Path, more: int, refused: int
) -> None:
    file = tmp_path / "now"
    bounds = ("--worker-connections", "2", "--limit-queue", "3")
    server = serve("greenlets", *bounds, env={"TEST_FILE": str(file)})
    running = held(server, 2)
    waiting = [send(server, "/until") for _ in range(more)]
    try:
        server.until(lambda: server.status()["workers"][0]["queued"] == more - refused)
        assert server.log().count("waits for the file") == 2
        file.touch()
        statuses = [read_reply(sock, bytearray())[0] for sock in running + waiting]
    finally:
        for sock in running + waiting:
            sock.close()
    assert sorted(statuses) == [200] * (2 + more - refused) + [503] * refused
    server.counts("requests_not_queued", refused)


def test_a_request_that_waits_too_long_in_the_queue_is_refused(serve: Callable[..., Serving], tmp_path: Path) -> None:
    file = tmp_path / "now"
    bounds = ("--worker-connections", "1", "--queue-timeout", "1s")
    server = serve("greenlets", *bounds, env={"TEST_FILE": str(file)})
    (first,) = held(server, 1)
    assert ask(server, "/hello")[0] == 503
    server.counts("requests_waited_too_long", 1)
    file.touch()
    assert read_reply(first, bytearray())[2] == b"it is there"
    first.close()
    # Its greenlet has come back: nobody waits for it any more.
    server.until(lambda: server.status()["workers"][0]["busy"] == 0)
    assert ask(server, "/hello") == (200, b"hello")


def test_pipelined_replies_go_out_though_the_next_request_is_queued(
    serve: Callable[..., Serving], tmp_path: Path
) -> None:
    file = tmp_path / "now"
    server = serve("greenlets", "--worker-connections", "1", env={"TEST_FILE": str(file)})
    with server.connect() as sock:
        sock.sendall(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\nGET /until HTTP/1.1\r\nHost: a\r\n\r\n")
        buffer = bytearray()
        assert read_reply(sock, buffer)[2] == b"hello"
        file.touch()
        assert read_reply(sock, buffer)[2] == b"it is there"
    assert os.path.exists(file)
