"""Fixtures that all tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from serving import Serving


@pytest.fixture
def serve() -> Iterator[Callable[..., Serving]]:
    """Start servers with `serve(target, *options)`; each is ended, and must end, with the test."""
    started: list[Serving] = []

    def start(target: str, *options: str, **more: object) -> Serving:
        server = Serving(target, *options, **more)
        started.append(server)
        return server

    yield start
    for server in started:
        server.kill()


@pytest.fixture(scope="session")
def echo() -> Iterator[Serving]:
    """A server of the echo application, for all tests that change nothing."""
    server = Serving("echo:application")
    yield server
    server.kill()
