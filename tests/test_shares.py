"""How the files of tests are shared out among interpreters.

Knows: names and sizes. Does not know: which interpreters this machine has (`tools/interpreters.py`).
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).resolve().parent.parent / "tools" / "interpreters.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("interpreters", TOOL)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_file_is_tested_by_one_of_those_that_share_and_none_has_much_more_than_others(tool: ModuleType) -> None:
    weights = {f"tests/test_{number}.py": number * 100 for number in range(1, 28)}
    shares = tool.shared_out(weights, [12, 13])
    assert sorted(shares[12] + shares[13]) == sorted(weights)
    loads = [sum(weights[file] for file in files) for files in shares.values()]
    assert max(loads) - min(loads) <= max(weights.values())


@pytest.mark.parametrize(
    "minors, share",
    [([10, 12, 13, 14, 15], [12, 13]), ([15, 13, 10, 14], [13]), ([10, 12, 13], []), ([12], []), ([], [])],
)
def test_the_oldest_and_the_two_newest_test_all(tool: ModuleType, minors: list[int], share: list[int]) -> None:
    assert tool.sharing(minors) == share
    # One that would share with nobody has everything.
    assert tool.shared_out({"a": 1, "b": 2}, share[:1]) in ({}, {13: ["b", "a"]}, {12: ["b", "a"]})
