"""Environments of contestants: what several threads may do at once."""

from __future__ import annotations

import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import pytest
from forehand_lab.environments import uv


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
