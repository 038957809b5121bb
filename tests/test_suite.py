"""tools/suite.py: what fails once is told, what fails twice has failed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parent.parent / "tools" / "suite.py"
#: Tests that fail until they have been tried so often.
TESTS = """
import pathlib
import pytest

@pytest.mark.parametrize("name", [{names}])
def test_it(name):
    tried = pathlib.Path(__file__).with_name(name)
    tried.write_text(tried.read_text() + "x" if tried.exists() else "x")
    assert len(tried.read_text()) >= {times}
"""


def run(folder: Path, names: str, times: int, *options: str) -> tuple[int, str]:
    (folder / "tests").mkdir()
    (folder / "tests/test_some.py").write_text(TESTS.format(names=", ".join(map(repr, names)), times=times))
    command = [sys.executable, str(TOOL), "-q", *options, "--", "tests"]
    done = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("beside", [(), ("-n", "2", "--dist", "loadgroup")])
def test_what_fails_beside_others_and_passes_alone_is_told_and_no_failure(
    tmp_path: Path, beside: tuple[str, ...]
) -> None:
    status, said = run(tmp_path, "abcde", 2, *beside)
    assert status == 0, said
    assert "5 failed in" in said and "5 passed in" in said
    *_, last = said.splitlines()
    assert last == "failed beside others, passed alone: tests/test_some.py::test_it[e]"


def test_what_fails_twice_has_failed(tmp_path: Path) -> None:
    status, said = run(tmp_path, "a", 3)
    assert status == 1 and said.count("1 failed in") == 2 and "passed alone" not in said


def test_of_more_than_a_few_nobody_is_tried_again(tmp_path: Path) -> None:
    status, said = run(tmp_path, "abcdef", 2)
    assert status == 1 and "6 failed in" in said and "Once more" not in said


def test_other_ends_are_as_they_are(tmp_path: Path) -> None:
    assert run(tmp_path, "a", 1)[0] == 0
    nothing = subprocess.run(
        [sys.executable, str(TOOL), "-q", "--", "none"], cwd=tmp_path, capture_output=True, check=False
    )
    assert nothing.returncode == 4
