"""Steps of tests/apps/pipelines.py that block until they are let go: what comes before that has not waited for them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


class Gate:
    """A step of the application blocks until it is opened: `/gate` and the path; `/lock` has the interpreter."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pipe = -1
        os.mkfifo(path)

    def open(self) -> None:
        """Also for a step that begins later."""
        self.pipe = os.open(self.path, os.O_RDWR)


@pytest.fixture
def gates(tmp_path: Path) -> Iterator[Iterator[Gate]]:
    """As many as are asked for."""
    made: list[Gate] = []

    def endless() -> Iterator[Gate]:
        while True:
            made.append(Gate(tmp_path / f"gate{len(made)}"))
            yield made[-1]

    yield endless()
    for gate in made:
        if gate.pipe >= 0:
            os.close(gate.pipe)
