"""Which Pythons this machine has: by version, the lab's own, the system's.

Asks each candidate once. Does not install any.
"""

from __future__ import annotations

import glob
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

ASK = "import sys; print('%d.%d' % sys.version_info[:2])"


def says(path: str) -> str | None:
    """The version that an interpreter says it is; None where it does not run (a shim of a version that is off)."""
    try:
        told = subprocess.run([path, "-c", ASK], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return told.stdout.strip() if told.returncode == 0 else None


@cache
def found(version: str) -> str | None:
    """A path for '2.7', '3.12' and so on; 'own' and 'any' are the lab's interpreter, 'system' is the distribution's."""
    if version in ("own", "any"):
        return sys.executable
    if version == "system":
        return next((path for path in ("/usr/bin/python3",) if says(path)), None)
    name = f"python{version}"
    candidates = [os.path.join(folder, name) for folder in os.get_exec_path()]
    root = os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv"))
    candidates += sorted(glob.glob(f"{root}/versions/{version}.*/bin/{name}"), reverse=True)
    for path in candidates:
        if os.access(path, os.X_OK) and says(path) == version:
            return path
    return None


def first(versions: tuple[str, ...]) -> tuple[str, str] | None:
    """The first of the wanted versions that is here, and its path."""
    for version in versions:
        path = found(version)
        if path:
            return version, path
    return None


def is_version(text: str) -> bool:
    """Whether a word can be a version that somebody asks for."""
    return re.fullmatch(r"[23]\.\d+", text) is not None
