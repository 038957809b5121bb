"""Heads that are remembered make room for others while whoever leads has let go of the interpreter."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from serving import Serving, read_reply

#: So many heads a worker remembers (`wire::Limits::cached_heads`).
REMEMBERED = 64
OPTIONS = {
    "files": ("--static", "/s=."),
    "probes": ("--health-paths", "/livez"),
    "neither": (),
}
APPLICATIONS = {
    "WSGI": ("pipelines:application",),
    "one thread": ("pipelines:application", "--threads", "1"),
    "ASGI": ("pipelines:app",),
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("application", APPLICATIONS)
def test_what_python_made_of_them_is_dropped_with_the_interpreter(
    serve: Callable[..., Serving], application: str, options: str
) -> None:
    server = serve(*APPLICATIONS[application], *OPTIONS[options], "--workers", "1")
    before = server.workers
    with server.connect() as sock:
        buffer = bytearray()
        for number in range(REMEMBERED * 3):
            # Of what is asked for twice more is remembered than of what is asked for once.
            for _ in range(2):
                sock.sendall(f"GET /of/{number} HTTP/1.1\r\nHost: a\r\nX-Number: {number}\r\n\r\n".encode())
                assert read_reply(sock, buffer)[0] == 200
    assert server.workers == before
