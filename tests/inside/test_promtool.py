"""Prometheus' own judge of names and formats reads what is served, after all that there is was counted."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import Serving
from shared import OPEN, Watched, settled, statistics

Serve = Callable[..., Serving]
PROMTOOL = shutil.which("promtool")
#: What is asked of which application: one counts with prometheus_client.
VIEWS = {"phases": ["/quick", "/quick", "/sleep/0.01", "/missing", "/fail"], "counting": ["/1", "/2", "/3"]}


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian's package prometheus)")
@pytest.mark.parametrize("target", VIEWS)
def test_promtool_finds_nothing_to_say(serve: Serve, tmp_path: Path, target: str) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", target=f"{target}:application")
    for path in VIEWS[target]:
        watched.view(path)
    watched.server.raw(b"no request\r\n\r\n")
    settled(watched.server, statistics(watched.server), len(VIEWS[target]) + 1)
    status, text = watched.ask("/metrics")
    assert status == 200
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_only_one_of_the_two_formats_has_is_in_that_one(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1")
    text, open_text = (watched.ask("/metrics", fields)[1] for fields in ("", OPEN))
    assert open_text.endswith("\n# EOF\n") and "# EOF" not in text
    assert "# TYPE forehand_requests_total counter" in text
    assert "# TYPE forehand_requests counter" in open_text
