"""Examples served from their own folders, plain, inside `wsgiref.validate`, and in greenlets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from serving import Serving, Shared

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"

Start = Callable[..., Serving]


@pytest.fixture(scope="module", params=["plain", "validated", "gevent"])
def example(request: pytest.FixtureRequest) -> Iterator[Start]:
    """`example(folder, "module:attribute", *options, env=...)` serves it until the file's last test: in one run as it
    is, in another judged, in a third with a greenlet for each request."""
    servers = Shared()

    def start(folder: str, target: str, *options: str, env: dict[str, str] | None = None) -> Serving:
        kind = {
            "plain": (target,),
            "validated": ("validated", f"--pythonpath={HERE}"),
            "gevent": (target, "--worker-class", "gevent"),
        }[request.param]
        return servers(*kind, *options, cwd=EXAMPLES / folder, env={**(env or {}), "VALIDATED": target})

    yield start
    servers.end()
