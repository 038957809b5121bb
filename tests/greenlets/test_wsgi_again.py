"""The tests of tests/wsgi again: what holds for threads holds for greenlets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import Serving

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "wsgi"))

from test_forwarded import *  # noqa: E402, F403
from test_leaving import *  # noqa: E402, F403
from test_other_threads import *  # noqa: E402, F403
from test_requests import *  # noqa: E402, F403
from test_responses import *  # noqa: E402, F403


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    """The server of the views, in place of the one that has threads."""
    server = Serving("behaviours", "--worker-class", "gevent")
    yield server
    assert b"hello" in server.raw(b"GET /hello HTTP/1.0\r\n\r\n"), "the worker lives through all of it"
    assert server.stop() == 0
    server.kill()
