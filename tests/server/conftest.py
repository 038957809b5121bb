"""What tests of HTTPS share: an authority, its certificate for this machine, a server of each driver that has it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from drivers import driving
from serving import Serving
from tlsfiles import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> tuple[str, ...]:
    """The options that name a certificate and its key."""
    cert, key = authority.issue("localhost", "localhost", "127.0.0.1", "other.localhost")
    return ("--tls-cert", cert, "--tls-key", key)


@pytest.fixture(scope="module", params=driving("secured"))
def driven(request: pytest.FixtureRequest, pair: tuple[str, ...]) -> Iterator[Serving]:
    """A server of each driver that speaks HTTPS, for tests that change nothing."""
    target, *options = request.param
    served = Serving(target, *options, *pair, "--bind", "https://127.0.0.1:0")
    yield served
    served.kill()
