"""An application is whatever can be called (PEP 3333), with a vectorcall function of its own (PEP 590) or without."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from serving import Serving, read_reply

pytestmark = pytest.mark.interpreters


@pytest.mark.parametrize("kind", ["application", "instance", "method", "Kind", "partial"])
def test_whatever_can_be_called_is_an_application(serve: Callable[..., Serving], kind: str) -> None:
    server = serve(f"callables:{kind}")
    for query, status in (("", 200), ("?raises", 500), ("", 200)):
        with server.connect() as sock:
            sock.sendall(f"GET /{query} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            assert read_reply(sock, bytearray())[0] == status
    assert server.log().count("LookupError: as it was asked to") == 1
