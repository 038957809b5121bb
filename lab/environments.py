"""Environments of contestants: one for each contestant, interpreter and set of packages, made once and kept.

uv makes them and fills them; for Python 2, which uv does not know, that interpreter's own pip fills a folder. Runs
in a few threads of the lineup, before anything is measured.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from forehand_lab import interpreters
from forehand_lab.children import unhurried
from forehand_lab.contestant import Contestant
from forehand_lab.problem import MISSING, Problem

INSTALL_SECONDS = 300
_one_search = threading.Lock()


def home() -> Path:
    """Where environments are kept: $FOREHAND_LAB_HOME, or the user's cache."""
    named = os.environ.get("FOREHAND_LAB_HOME")
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(named) if named else Path(cache) / "forehand-lab"


@dataclass(frozen=True)
class Environment:
    """A place to start a contestant from."""

    python: str
    folder: Path
    bin: Path
    site: str
    version: str
    packages: tuple[str, ...]
    checkout: str = ""


def programs_missing(contestant: Contestant) -> list[str]:
    """Of the programs that it needs, those that are not here, each with the Debian package that brings it."""
    needed = [entry.partition("=") for entry in contestant.install.programs]
    if contestant.start.front:
        needed.append(("nginx", "=", "nginx-light"))
    return [f"{name} (Debian: {package})" for name, _, package in needed if not program(name)]


def program(name: str) -> str | None:
    """A program's path: in PATH, or in the folders that a user's PATH leaves out."""
    if name.startswith("/"):
        return name if os.path.exists(name) else None
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin:/sbin")


def obtained(
    contestant: Contestant, extra: tuple[str, ...] = (), python: str | None = None, checkout: str = ""
) -> Environment:
    """The environment, made now if it is not there. Raises Problem (MISSING) with one line that says why not."""
    if contestant.install.obtain and not checkout:
        raise Problem(MISSING, f"not obtainable: {contestant.install.obtain}: pass --checkout DIR")
    if checkout and not Path(checkout).is_dir():
        raise Problem(MISSING, f"--checkout {checkout}: there is no such folder")
    lacking = programs_missing(contestant)
    if lacking:
        raise Problem(MISSING, f"needs {', '.join(lacking)}")
    wanted = contestant.install.python
    here = interpreters.first((python,) if python and wanted == ("any",) else wanted)
    if here is None:
        raise Problem(MISSING, f"needs Python {' or '.join(wanted)}, which is not found here")
    version, path = here
    packages = (*contestant.install.packages, *extra)
    told = interpreters.says(path) or version
    if version == "system" and packages:
        raise Problem(MISSING, f"its Python is the system's, where the lab installs nothing: {', '.join(packages)}")
    if version in ("own", "system") and not packages:
        return Environment(path, Path(sys.prefix), Path(path).parent, "", told, _frozen_own(path, version), checkout)
    key = hashlib.sha256(json.dumps([path, packages]).encode()).hexdigest()[:10]
    folder = home() / "environments" / f"{contestant.folder.name}-{told}-{key}"
    make = _beside_own if version == "own" else _with_pip if told.startswith("2.") else _with_uv
    frozen = _made_once(folder, lambda: make(path, folder, packages))
    if version == "own":
        site, own = str(folder / "site"), Path(sys.prefix)
        return Environment(path, own, Path(path).parent, site, told, (*_frozen_own(path, version), *frozen), checkout)
    if told.startswith("2."):
        return Environment(path, folder, folder / "site/bin", str(folder / "site"), told, frozen, checkout)
    return Environment(str(folder / "bin/python"), folder, folder / "bin", "", told, frozen, checkout)


def _made_once(folder: Path, make: Callable[[], list[str]]) -> tuple[str, ...]:
    """What is installed in a folder, which is filled now if it is not. A contestant with 2 workers and one with 5 share
    theirs and come here at the same time; so may two commands.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / "installed.json"
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            frozen = make()
            done.write_text(json.dumps(frozen))
        return tuple(json.loads(done.read_text()))


def _run(command: list[str], what: str) -> str:
    """A command's output; Problem with the line of its errors that says most."""
    environ = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH")}
    process: subprocess.Popen[str] | None = None
    try:
        with unhurried():
            process = subprocess.Popen(
                command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True, start_new_session=True,
            )  # fmt: skip
        out, said = process.communicate(timeout=INSTALL_SECONDS)
    except OSError as error:
        raise Problem(MISSING, f"{what}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise Problem(MISSING, f"{what}: not done after {INSTALL_SECONDS} s") from None
    finally:
        # A compiler that goes on after its installer, or after Ctrl-C, ends here too.
        if process and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode:
        raise Problem(MISSING, f"{what}: {telling(said or out)}")
    return out


def telling(text: str) -> str:
    """The line of an installer's output that says what went wrong, without its decoration."""
    lines = [line.strip(" \t×╰─▶│├") for line in text.splitlines() if line.strip()]
    for mark in ("fatal error", "error:", "No matching distribution", "not found", "Error:", "ERROR"):
        for line in lines:
            if mark in line:
                return line[:240]
    return lines[-1][:240] if lines else "it said nothing"


def uv() -> str:
    """The uv that came with the lab, or one in PATH. Any number of threads may ask.

    One at a time finds it: the search reads sysconfig, whose variables a first caller is still filling in while a
    second finds them there, and empty (Python before 3.12).
    """
    try:
        with _one_search:
            from uv import find_uv_bin

            return str(find_uv_bin())
    except (ImportError, FileNotFoundError):
        path = shutil.which("uv")
    if not path:
        raise Problem(MISSING, "uv is not here", "pip install uv")
    return path


def _with_uv(python: str, folder: Path, packages: tuple[str, ...]) -> list[str]:
    _run([uv(), "venv", "--quiet", "--python", python, str(folder)], "making its environment")
    inside = str(folder / "bin/python")
    if packages:
        _run([uv(), "pip", "install", "--quiet", "--python", inside, *packages], f"installing {' '.join(packages)}")
    return _run([uv(), "pip", "freeze", "--python", inside], "listing its packages").split()


def _with_pip(python: str, folder: Path, packages: tuple[str, ...]) -> list[str]:
    site = folder / "site"
    site.mkdir(parents=True)
    quiet = ["--quiet", "--disable-pip-version-check", "--no-warn-script-location"]
    for package in packages:
        # One after the other: a later one's setup.py may import an earlier one.
        _run([python, "-m", "pip", "install", *quiet, "--target", str(site), package], f"installing {package}")
    # Packages that share a namespace, as zope.interface and Paste do, are joined by .pth files, which a folder in
    # PYTHONPATH alone does not read.
    (site / "sitecustomize.py").write_text("import os, site\nsite.addsitedir(os.path.dirname(__file__))\n")
    names = (path.name for path in site.glob("*-info"))
    return sorted("==".join(name.rpartition(".")[0].split("-")[:2]) for name in names)


def _beside_own(python: str, folder: Path, packages: tuple[str, ...]) -> list[str]:
    """What a scenario needs, beside the lab's own environment and not in it: that belongs to the user."""
    site = str(folder / "site")
    _run([uv(), "pip", "install", "--quiet", "--python", python, "--target", site, *packages], f"installing {packages}")
    return list(packages)


def _frozen_own(python: str, version: str) -> tuple[str, ...]:
    if version != "own":
        return ()
    code = "import importlib.metadata as m; print('forehand==' + m.version('forehand'))"
    return (_run([python, "-c", code], "finding Forehand's version").strip(),)
