"""Servers of ASGI applications, on each event loop that is installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from loops import LOOPS
from serving import Serving


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> str:
    """The name of an event loop."""
    return str(request.param)


@pytest.fixture(scope="module", params=LOOPS)
def views(request: pytest.FixtureRequest) -> Iterator[Serving]:
    """A server of the views, for all tests that stop nothing."""
    server = Serving("asgi_views:app", "--loop", request.param)
    yield server
    server.kill()
