"""Where nobody reads what a server says (`forehand --workers 0 2>&1 | head`), it stops in order all the same."""

from __future__ import annotations

import importlib.util
import signal
from collections.abc import Callable

import pytest
from serving import Serving, read_all

KINDS = {"threads": ("unheard:application",), "asyncio": ("unheard:asynchronous", "--loop", "asyncio")}
if importlib.util.find_spec("gevent"):
    KINDS["gevent"] = ("unheard:application", "--worker-class", "gevent")


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_that_cannot_be_told_waits_for_what_runs(serve: Callable[..., Serving], kind: str, workers: str) -> None:
    server = serve(*KINDS[kind], "--workers", workers)
    assert server.raw(b"GET /deaf HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").endswith(b"begun, ended")
    with server.connect() as sock:
        sock.sendall(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        reply = b""
        while b"begun" not in reply:
            reply += sock.recv(65536)
        server.process.send_signal(signal.SIGTERM)
        assert (reply + read_all(sock)).endswith(b"begun, ended")
    assert server.stop() == 0
