"""Examples served from their own folders, plain, inside `wsgiref.validate`, and in greenlets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from serving import Serving

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"

Start = Callable[..., Serving]


@pytest.fixture(params=["plain", "validated", "gevent"])
def example(request: pytest.FixtureRequest, serve: Start) -> Start:
    """`example(folder, "module:attribute", *options, env=...)` serves it, in one run as it is, in another judged, in
    a third with a greenlet for each request."""

    def start(folder: str, target: str, *options: str, env: dict[str, str] | None = None) -> Serving:
        if request.param == "gevent":
            return serve(target, *options, "--worker-class", "gevent", cwd=EXAMPLES / folder, env=env)
        if request.param == "plain":
            return serve(target, *options, cwd=EXAMPLES / folder, env=env)
        told = {**(env or {}), "VALIDATED": target}
        return serve("validated", f"--pythonpath={HERE}", *options, cwd=EXAMPLES / folder, env=told)

    return start
