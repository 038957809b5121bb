"""Builds and tests on every other Python from 3.10 on that this machine has.

Each minor version is built once, into `.venvs/3.X`, and runs the tests marked `interpreters`.
What is skipped, and why, is printed.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WANTED = ("3.10", "3.11", "3.12", "3.13", "3.14")
ASK = "import sys, sysconfig; print('%d.%d' % sys.version_info[:2], bool(sysconfig.get_config_var('Py_GIL_DISABLED')))"


def found() -> dict[str, str]:
    """Version and path of each interpreter, one for each minor version."""
    names = [shutil.which(f"python{version}") for version in WANTED]
    names += sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python")))
    interpreters: dict[str, str] = {}
    for path in filter(None, names):
        told = subprocess.run([path, "-c", ASK], capture_output=True, text=True, check=False)
        if told.returncode:
            continue  # a shim for a version that is not there
        version, free = told.stdout.split()
        if version in WANTED and free == "False":
            interpreters.setdefault(version, path)
    return interpreters


def test(version: str, path: str) -> None:
    """Build for one interpreter and run its tests."""
    venv = ROOT / ".venvs" / version
    python = venv / "bin" / "python"
    if not python.exists():
        made = subprocess.run([path, "-m", "venv", str(venv)], capture_output=True, text=True, check=False)
        if made.returncode:
            shutil.rmtree(venv, ignore_errors=True)
            print(f"Python {version}: skipped: {path} has no venv module")
            return
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "pytest", "tomli"], check=True)
    wheel_folder = venv / "wheel"
    shutil.rmtree(wheel_folder, ignore_errors=True)
    environment = {**os.environ, "PYO3_PYTHON": str(python)}
    maturin: list[str] = [
        str(ROOT / ".venv/bin/maturin"),
        "build",
        "--release",
        "--quiet",
        "-i",
        str(python),
        "-o",
        str(wheel_folder),
    ]
    target = ["--target-dir", str(ROOT / "target" / "interpreters")]
    subprocess.run([*maturin, *target], check=True, cwd=ROOT, env=environment)
    wheel = next(iter(wheel_folder.glob("*.whl")))
    install = [
        str(python),
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "--force-reinstall",
        str(wheel),
    ]
    subprocess.run(install, check=True)
    print(f"Python {version}: {path}", flush=True)
    subprocess.run([python, "-m", "pytest", "-q", "-m", "interpreters", "tests/wsgi", "tests/cli", "tests/server"],
                   check=True, cwd=ROOT)  # fmt: skip


def main() -> int:
    """Test all that are found; the exit status."""
    own = "%d.%d" % sys.version_info[:2]
    interpreters = found()
    for version in WANTED:
        if version == own:
            print(f"Python {version}: is what all tests ran on")
        elif version not in interpreters:
            print(f"Python {version}: skipped: not on this machine")
        else:
            test(version, interpreters[version])
    print("free-threaded Python: skipped: the module asks for the lock there, and no such build is looked for")
    return 0


if __name__ == "__main__":
    sys.exit(main())
