"""Servers whose requests run in greenlets."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from serving import Serving, Shared

pytest.importorskip("gevent")
GEVENT = ("--worker-class", "gevent")


@pytest.fixture
def serve() -> Iterator[Callable[..., Serving]]:
    """Start servers with `serve(target, *options)`; each is ended, and must end, with the test."""
    started: list[Serving] = []

    def start(target: str, *options: str, **more: object) -> Serving:
        # What bounds threads there bounds greenlets here.
        said = ["--worker-connections" if option == "--threads" else option for option in options]
        server = Serving(target, *GEVENT, *said, **more)
        started.append(server)
        return server

    yield start
    for server in started:
        server.kill()


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    """Servers that tests of a file have in common."""
    servers = Shared(*GEVENT)
    yield servers
    servers.end()


@pytest.fixture(scope="session")
def echo() -> Iterator[Serving]:
    """A server of the echo application, for all tests that change nothing."""
    server = Serving("echo:application", *GEVENT)
    yield server
    server.kill()
