"""Examples served from their own folders, plain and inside `wsgiref.validate`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from serving import Serving

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"

Start = Callable[..., Serving]


@pytest.fixture(params=[False, True], ids=["plain", "validated"])
def example(request: pytest.FixtureRequest, serve: Start) -> Start:
    """`example(folder, "module:attribute", env=...)` serves it, in one run as it is and in another judged."""

    def start(folder: str, target: str, env: dict[str, str] | None = None) -> Serving:
        if not request.param:
            return serve(target, cwd=EXAMPLES / folder, env=env)
        told = {**(env or {}), "VALIDATED": target}
        return serve("validated", f"--pythonpath={HERE}", cwd=EXAMPLES / folder, env=told)

    return start
