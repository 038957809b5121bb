"""Environments of contestants: what several threads may do at once."""

from __future__ import annotations

import re
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from forehand_lab import engine
from forehand_lab.environments import uv
from forehand_lab.problem import Problem

MAKEFILE = Path(__file__).parents[2] / "Makefile"


def test_threads_that_install_at_once_find_uv_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    searching, together = threading.Lock(), threading.Event()

    def find_uv_bin() -> str:
        # The first waits for company, which must not come: sysconfig, which is read here, does not stand it.
        if not searching.acquire(blocking=False):
            together.set()
            return "beside another"
        try:
            together.wait(0.3)
            return "/found/uv"
        finally:
            searching.release()

    monkeypatch.setitem(sys.modules, "uv", types.SimpleNamespace(find_uv_bin=find_uv_bin))
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: uv(), range(4))) == {"/found/uv"}


def test_what_builds_a_load_engine_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FOREHAND_LOAD", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(engine, "HERE", tmp_path / "lab")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(Problem) as caught:
        engine.found()
    (order,) = re.findall(r"`make (\w+)`", caught.value.hint)
    recipe = MAKEFILE.read_text().partition(f"\n{order}:")[2].partition("\n\n")[0]
    assert "forehand-load" in recipe, recipe
