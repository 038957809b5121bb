"""The build backend: maturin, and before a wheel the load engine, so that `pip install 'forehand[lab]'` is all.

Knows where cargo puts a binary. FOREHAND_WITHOUT_ENGINE=1 leaves the engine out, where the lab will never run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import maturin

ROOT = Path(__file__).resolve().parent.parent
get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
get_requires_for_build_sdist = maturin.get_requires_for_build_sdist
get_requires_for_build_editable = maturin.get_requires_for_build_editable
prepare_metadata_for_build_wheel = maturin.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = maturin.prepare_metadata_for_build_editable
build_sdist = maturin.build_sdist


def engine() -> None:
    """Build forehand-load and put it where the wheel takes it from."""
    target = ROOT / "lab" / "bin"
    shutil.rmtree(target, ignore_errors=True)
    if os.environ.get("FOREHAND_WITHOUT_ENGINE") == "1":
        return
    subprocess.run(["cargo", "build", "--release", "--locked", "-p", "forehand-load"], cwd=ROOT, check=True)
    built = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "forehand-load"
    target.mkdir()
    shutil.copy2(built, target)


def build_wheel(folder: str, settings: Any = None, metadata: str | None = None) -> str:
    """A wheel with server, lab and engine."""
    engine()
    name: str = maturin.build_wheel(folder, settings, metadata)
    return name


def build_editable(folder: str, settings: Any = None, metadata: str | None = None) -> str:
    """An editable install: the engine is found in this clone."""
    engine()
    name: str = maturin.build_editable(folder, settings, metadata)
    return name
