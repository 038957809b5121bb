"""`--server-header` is on every reply, the server's own included."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from serving import Serving
from test_unread_replies import DRIVERS

ASKED = [
    (b"nonsense\r\n\r\n", b"400"),
    (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n", b"413"),
    (b"GET / HTTP/1.1\r\nHost: a\r\nX: %s\r\n\r\n" % (b"x" * 70_000), b"431"),
    (b"GET /no-number HTTP/1.1\r\nHost: a\r\n\r\n", b"500"),
    (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", b"200"),
    (b"GET / HTT", b"408"),
]


@pytest.mark.parametrize("driver", DRIVERS)
def test_the_servers_own_replies_have_the_server_header(serve: Callable[..., Serving], driver: str) -> None:
    more = ("--limit-body-bytes", "1000", "--header-timeout", "300ms")
    server = serve(*DRIVERS[driver], "--server-header", "mine", *more)
    for request, status in ASKED:
        head = server.raw(request).partition(b"\r\n\r\n")[0]
        assert head.split()[1] == status, head
        assert head.count(b"\r\nServer: mine\r\n") == 1, head
