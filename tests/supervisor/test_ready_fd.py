"""`--ready-fd`: whoever reads it to its end gets the end as soon as the server has told that it serves."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from serving import HERE, PATIENCE, PYTHON


@pytest.mark.parametrize("options", [(), ("--workers", "2", "--preload"), ("--workers", "0")])
def test_a_reader_that_waits_for_the_end_gets_it(options: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    command = [PYTHON, "-m", "forehand", "echo:application", "--bind", "127.0.0.1:0", "--control", "none"]
    server = subprocess.Popen(
        [*command, "--ready-fd", str(writer), *options], cwd=HERE / "apps", pass_fds=[writer], stderr=subprocess.DEVNULL
    )
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as ready:
            reading = subprocess.run(["cat"], stdin=ready, capture_output=True, timeout=PATIENCE, check=True)
        assert json.loads(reading.stdout)["pid"] == server.pid
        assert server.poll() is None, "it serves on"
    finally:
        server.terminate()
        assert server.wait(PATIENCE) == 0
