"""`forehand lab` as a command: records of its own, environments that all tests share, signals as in a terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

PATIENCE = 120


def heeding() -> None:
    """In the child: SIGINT as in a terminal, whatever these tests were started by. A script's background ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def surroundings(folder: Path, **more: str) -> dict[str, str]:
    """Variables of a command with records of its own. Environments are made once for all tests of a run."""
    return {
        **os.environ,
        "FOREHAND_LAB_HOME": str(folder.parent / "lab-home"),
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
        preexec_fn=heeding,
    )  # fmt: skip


def begun(variables: dict[str, str], *words: str) -> subprocess.Popen[str]:
    """The same, going on."""
    return subprocess.Popen(
        words_of(*words), env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        preexec_fn=heeding,
    )  # fmt: skip
