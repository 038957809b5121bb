"""`forehand lab` as a command: records of its own, environments that all tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PATIENCE = 120


def home(folder: Path) -> Path:
    """Where commands of this process keep what they share: one measures at a time, as runs look after each other.

    Environments are made once for all processes that share the tests; pytest gives each of them a folder in one.
    """
    found = folder.parent / "lab-home"
    if "PYTEST_XDIST_WORKER" in os.environ and not found.exists():
        found.mkdir()
        shared = folder.parent.parent / "lab-environments"
        shared.mkdir(exist_ok=True)
        (found / "environments").symlink_to(shared)
    return found


def surroundings(folder: Path, **more: str) -> dict[str, str]:
    """Variables of a command with records of its own."""
    return {
        **os.environ,
        "FOREHAND_LAB_HOME": str(home(folder)),
        "FOREHAND_LAB_RECORDS": str(folder / "records"),
        "COLUMNS": "300",
        **more,
    }


def words_of(*words: str) -> list[str]:
    """The command."""
    return [sys.executable, "-m", "forehand", "lab", *words]


def lab(variables: dict[str, str], *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`forehand lab …` to its end."""
    return subprocess.run(
        words_of(*words), env=variables, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip


def begun(variables: dict[str, str], *words: str) -> subprocess.Popen[str]:
    """The same, going on."""
    return subprocess.Popen(
        words_of(*words), env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
