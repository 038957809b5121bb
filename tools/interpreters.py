"""Builds and tests on every other Python from 3.10 on that this machine has.

Looks in PATH and among pyenv's versions. Each minor version is built once, into `.venvs/3.X`, and runs the tests
marked `interpreters`. What is skipped, and why, is printed. `--list` only says what would be done.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST, NEWEST = 10, 14
ASK = "import sys, sysconfig; print(sys.version_info[1], sysconfig.get_config_var('Py_GIL_DISABLED') or 0)"
TESTS = ("tests/wsgi", "tests/asgi", "tests/greenlets", "tests/cli", "tests/server", "tests/supervisor")


def _candidates() -> list[str]:
    """Paths of what may be an interpreter: those in PATH first."""
    paths: list[str] = []
    for folder in os.get_exec_path():
        paths += sorted(glob.glob(f"{folder}/python3.[0-9]*"))
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    paths += sorted(glob.glob(f"{root}/versions/3.*/bin/python3.[0-9]*"), reverse=True)
    return [path for path in paths if re.fullmatch(r"python3\.\d+t?", os.path.basename(path))]


def _answer(path: str, code: str) -> list[str] | None:
    """What an interpreter prints, in words; None where it fails, as a shim of a version that is switched off."""
    told = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
    return None if told.returncode else told.stdout.split()


def found() -> tuple[dict[int, str], dict[int, str]]:
    """By minor version: interpreters that can be used, and why others cannot."""
    usable: dict[int, str] = {}
    skipped: dict[int, str] = {}
    for path in _candidates():
        told = _answer(path, ASK)
        if told is None or int(told[0]) < OLDEST or int(told[0]) in usable:
            continue
        minor = int(told[0])
        if told[1] != "0":
            skipped[minor] = f"{path} is free-threaded, which is not supported yet"
        elif _answer(path, "import venv, ensurepip") is None:
            skipped[minor] = f"{path} has no venv module"
        else:
            usable[minor] = path
    return usable, skipped


def _build(python: Path, venv: Path) -> None:
    """Install the module into the environment; quick where nothing has changed."""
    wheels = venv / "wheel"
    shutil.rmtree(wheels, ignore_errors=True)
    # A target folder for each: a shared one would build the bindings anew at every change of interpreter.
    target = ROOT / "target" / f"python-{venv.name}"
    maturin = [str(ROOT / ".venv/bin/maturin"), "build", "--release", "--quiet", "-i", str(python)]
    subprocess.run(
        [*maturin, "-o", str(wheels), "--target-dir", str(target)],
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYO3_PYTHON": str(python)},
    )
    install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*install, "pytest", "tomli", "watchfiles", "gevent"], check=True)
    subprocess.run([*install, "--force-reinstall", "--no-deps", *map(str, wheels.glob("*.whl"))], check=True)


def test(minor: int, path: str) -> None:
    """Build for one interpreter and run its tests; CalledProcessError where anything fails."""
    venv = ROOT / ".venvs" / f"3.{minor}"
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([path, "-m", "venv", str(venv)], check=True)
    _build(python, venv)
    subprocess.run([python, "-m", "pytest", "-q", "-m", "interpreters", *TESTS], check=True, cwd=ROOT)


def main(arguments: list[str]) -> int:
    """Test on all that are found; the exit status."""
    usable, skipped = found()
    for minor in range(OLDEST, max([NEWEST, *usable, *skipped]) + 1):
        if minor == sys.version_info[1]:
            print(f"Python 3.{minor}: all tests run on it, in .venv", flush=True)
        elif minor in usable:
            print(f"Python 3.{minor}: {usable[minor]}", flush=True)
            if "--list" not in arguments:
                test(minor, usable[minor])
        else:
            print(f"Python 3.{minor}: skipped: {skipped.get(minor, 'not on this machine')}", flush=True)
    if not any("free-threaded" in why for why in skipped.values()):
        print("free-threaded Python: skipped: no such build on this machine")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except subprocess.CalledProcessError as error:
        sys.exit(f"failed with status {error.returncode}: {' '.join(map(str, error.cmd))}")
