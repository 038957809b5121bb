"""A crowd that comes at once: more connections than one look accepts, among others that are at work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from drivers import DRIVERS
from serving import Serving, read_reply


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize("driver", DRIVERS)
def test_the_table_of_descriptors_has_its_size_before_a_crowd_comes(
    serve: Callable[..., Serving], driver: str, workers: str
) -> None:
    """To grow it a process with threads waits for every processor, and so does whoever asks it."""
    target, *options = DRIVERS[driver]
    server = serve(target, *options, "--workers", workers, "--no-defer-accept")
    pid = server.workers[0] if server.workers else server.pid

    def size() -> int:
        return int(Path(f"/proc/{pid}/status").read_text().partition("FDSize:")[2].split()[0])

    before = size()
    socks = [server.connect() for _ in range(600)]
    server.until(lambda: len(list(Path(f"/proc/{pid}/fd").iterdir())) > 600)
    after = size()
    for sock in socks:
        sock.close()
    assert after == before


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
