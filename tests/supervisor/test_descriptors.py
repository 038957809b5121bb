"""An application that closes descriptors of its server: the worker is replaced, and says why."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from asking import get, pids  # type: ignore[import-not-found]
from serving import Serving

Serve = Callable[..., Serving]


@pytest.mark.parametrize(
    ("kind", "says"),
    [("epoll", "the kernel cannot be asked what has happened ("), ("listener", "a listener is broken (")],
)
def test_a_worker_whose_descriptors_were_closed_is_replaced(serve: Serve, kind: str, says: str) -> None:
    server = serve("closing:application", "--workers", "1")
    (old,) = server.workers
    with server.connect() as sock:
        sock.sendall(f"GET /{kind} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        assert sock.recv(1) in (b"H", b"")
    # It is seen when the next one comes.
    with server.connect():
        server.says(f"the application has closed descriptors of its server: {says}")
    server.until(lambda: pids(server) - {old})
    assert get(server)[1] != str(old)
    assert server.log().count(says) <= 2, "what is broken is not tried again and again"


def test_without_a_supervisor_the_server_ends_and_says_why(serve: Serve) -> None:
    server = serve("closing:application", "--workers", "0")
    with server.connect() as sock:
        sock.sendall(b"GET /epoll HTTP/1.1\r\nHost: a\r\n\r\n")
        server.says("the application has closed descriptors of its server: the kernel cannot be asked")
        assert server.process.wait(20) == 1
