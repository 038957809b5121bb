"""A crowd that comes at once: more connections than one look accepts, among others that are at work."""

from __future__ import annotations

from collections.abc import Callable

from serving import Serving, read_reply


def test_a_crowd_at_once_is_answered_to_the_last(serve: Callable[..., Serving]) -> None:
    server = serve("behaviours", "--no-defer-accept", "--workers", "0")
    request = b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"
    early = [server.connect() for _ in range(100)]
    late = []
    for _ in range(3):
        for sock in early:
            sock.sendall(request)
        late += [server.connect() for _ in range(150)]
        for sock in late:
            sock.sendall(request)
        for sock in (*early, *late):
            assert read_reply(sock, bytearray())[2] == b"hello"
    for sock in (*early, *late):
        sock.close()
    assert server.stop() == 0


def test_those_who_are_there_are_counted_though_they_ask_for_nothing(serve: Callable[..., Serving]) -> None:
    server = serve("behaviours", "--no-defer-accept")

    def connections() -> int:
        return sum(worker["connections"] for worker in server.status()["workers"])

    socks = [server.connect() for _ in range(3)]
    server.until(lambda: connections() == 3)
    for sock in socks:
        sock.close()
    server.until(lambda: connections() == 0)


def test_requests_that_have_had_their_turn_are_no_longer_counted_as_waiting(serve: Callable[..., Serving]) -> None:
    server = serve("behaviours", "--threads", "1")

    def queued() -> int:
        return sum(worker["queued"] for worker in server.status()["workers"])

    socks = [server.connect() for _ in range(4)]
    socks[0].sendall(b"GET /sleep?1 HTTP/1.1\r\nHost: a\r\n\r\n")
    server.until(lambda: sum(worker["busy"] for worker in server.status()["workers"]) == 1)
    for sock in socks[1:]:
        sock.sendall(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
    server.until(lambda: queued() == 3)
    for sock in socks:
        assert read_reply(sock, bytearray())[0] == 200
    server.until(lambda: queued() == 0)
