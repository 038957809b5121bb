"""Builds and tests on every other Python from 3.10 on that this machine has.

Looks in PATH, among pyenv's versions, and in /opt/pythons/usr/bin, where distributions' newer ones are unpacked. Each
minor version is built, with debug assertions, and installed into `.venvs/3.X`, and runs the tests that are marked
`interpreters` and not `once`: builds one after the other, as they share what does not differ, and tests of as many at a
time as there are processors, each as soon as it is built. What no interpreter changes is taken from target/debug, if
`make debug-built` or `cargo test` has compiled it. What has been built since anything changed is not built again. What
is skipped, and why, is printed. `--list` only says what would be done; `--only 3.X` does one; `--build` tests nothing;
`--beside COMMAND…` does all this while that command runs, whose tests wait more than they work. Then interpreters
between the oldest and the two newest share the files of tests: what is wrong with one of them alone is rare, and
without `--beside` each runs all.
"""

from __future__ import annotations

import fcntl
import glob
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST, NEWEST = 10, 15
ASK = "import sys, sysconfig; print(sys.version_info[1], sysconfig.get_config_var('Py_GIL_DISABLED') or 0)"
#: What is built is made of these.
SOURCES = ("crates/**/*.rs", "crates/**/Cargo.toml", "crates/**/page/*", "python/**/*.py", "Cargo.*", "pyproject.toml")
UNPACKED = "/opt/pythons/usr/bin"
#: Where all are built, tests/test_install.py's as well, and where it begins.
TARGET = ROOT / "target" / "interpreters"
COMPILED = ROOT / "target" / "debug"
#: Comes with what the lab needs.
UV = ROOT / ".venv" / "bin" / "uv"
#: Three processes for each, as tests wait more than they work; which tests share one, tests/conftest.py says.
SHARED = ("-n", "3", "--dist", "loadgroup", "--no-loadscope-reorder")
#: What the tests need everywhere, and what they do without where there is no wheel of it.
NEEDED = ("pytest", "pytest-xdist", "tomli", "watchfiles", "python-dotenv", "requests", "httpx", "h2")
WELCOME = ("gevent",)


class Failed(Exception):
    """What was tried and has failed, with what it has said."""


#: Set when nobody asks for results any more: what has not begun does not.
over = threading.Event()


def _candidates() -> list[str]:
    """Paths of what may be an interpreter: those in PATH first."""
    paths: list[str] = []
    for folder in os.get_exec_path():
        paths += sorted(glob.glob(f"{folder}/python3.[0-9]*"))
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    paths += sorted(glob.glob(f"{root}/versions/3.*/bin/python3.[0-9]*"), reverse=True)
    paths += sorted(glob.glob(f"{UNPACKED}/python3.[0-9]*"))
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
        elif _answer(path, "import venv, ensurepip") is None and not _has_virtualenv():
            skipped[minor] = f"{path} has no venv module, and virtualenv is not installed here (pip install virtualenv)"
        else:
            usable[minor] = path
    return usable, skipped


def _has_virtualenv() -> bool:
    return _answer(sys.executable, "import virtualenv") is not None


def _do(command: list[str], **more: str) -> str:
    """Run something; what it has said. Raises Failed."""
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **more}, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise Failed(f"{done.stdout}failed with status {done.returncode}: {' '.join(command)}")
    return done.stdout


def _has_uv(path: str, venv: Path) -> list[str] | None:
    """An environment with what tests need, made by uv, which takes a tenth of pip's time; what installs more there.

    None where there is no uv, or where it cannot: it does not read what pip was told of indexes.
    """
    install = [str(UV), "pip", "install", "-q", "--python", str(venv / "bin" / "python")]
    try:
        if not (venv / "bin" / "python").exists():
            _do([str(UV), "venv", "-q", "--python", path, str(venv)])
        _do([*install, *NEEDED])
    except (OSError, Failed):
        return None
    return install


def _has_pip(path: str, venv: Path) -> list[str]:
    """The same by pip. Raises Failed."""
    python = str(venv / "bin" / "python")
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    if not os.path.exists(python) or _answer(python, "import pip") is None:
        # One whose making has failed before has no pip.
        shutil.rmtree(venv, ignore_errors=True)
        try:
            _do([path, "-m", "venv", str(venv)])
        except Failed:
            if not _has_virtualenv():
                raise
            shutil.rmtree(venv, ignore_errors=True)
            _do([sys.executable, "-m", "virtualenv", "-q", "-p", path, str(venv)])
    _do([*install, *NEEDED])
    return install


def _build(minor: int, path: str) -> list[str]:
    """Build and install the module and what its tests need; what they have to do without. Raises Failed."""
    if (known := _built(minor)) is not None:
        return known
    begun = time.time()
    venv = ROOT / ".venvs" / f"3.{minor}"
    python = str(venv / "bin" / "python")
    install = _has_uv(path, venv) or _has_pip(path, venv)
    wheels = venv / "wheel"
    shutil.rmtree(wheels, ignore_errors=True)
    _begin()
    # A small step back for tests that run meanwhile, and no more: one of them waits for builds in the same folder.
    maturin = ["nice", "-n", "5", str(ROOT / ".venv/bin/maturin"), "build", "--profile", "dev", "--quiet"]
    # Nobody is sent this wheel: it is neither compressed nor asked on which other systems it would run.
    maturin += ["-i", python, "--compression-method", "stored", "--auditwheel", "skip"]
    # One target folder: only the bindings are built anew for each.
    _do([*maturin, "-o", str(wheels), "--target-dir", str(TARGET)], PYO3_PYTHON=python)
    _do([*install, "--force-reinstall", "--no-deps", *map(str, wheels.glob("*.whl"))])
    missing = []
    for package in WELCOME:
        try:
            _do([*install, "--only-binary", ":all:", package])
        except Failed:
            missing.append(package)
    # Thousands of servers begin here, which may not write down what they compile; nor does uv. Some packages have files
    # for other versions.
    compiled = [python, "-m", "compileall", "-q", *glob.glob(f"{venv}/lib/python3.*/site-packages")]
    subprocess.run(compiled, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    (venv / "built").write_text(" ".join(missing))
    # What changed meanwhile may not be in it.
    os.utime(venv / "built", (begun, begun))
    return missing


def _compiled_in_common(folder: str, names: list[str]) -> set[str]:
    """What a copy of COMPILED leaves out: programs of tests, and what is made of our crates bit by bit."""
    if Path(folder) == COMPILED:
        return set(names) - {".fingerprint", "build", "deps"}
    if Path(folder) != COMPILED / "deps":
        return set()
    return {name for name in names if "." not in name}


def _begin() -> None:
    """Lay a copy of what has been compiled where builds begin: cargo takes what is as it would make it.

    Not the folder itself: each interpreter has its bindings made anew, and so would the next `make test-debug`.
    """
    begins = TARGET / COMPILED.name
    if begins.exists() or not (COMPILED / ".cargo-lock").exists():
        return
    part = TARGET / "part"
    shutil.rmtree(part, ignore_errors=True)
    # Cargo holds it while it builds there.
    with (COMPILED / ".cargo-lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.copytree(COMPILED, part, symlinks=True, ignore=_compiled_in_common)
    try:
        part.rename(begins)
    except OSError:  # somebody else has begun to build there meanwhile
        shutil.rmtree(part)


def _built(minor: int) -> list[str] | None:
    """What tests have to do without on an interpreter that has been built since anything changed; else None."""
    made = ROOT / ".venvs" / f"3.{minor}" / "built"
    sources = [Path(__file__), *(path for part in SOURCES for path in ROOT.glob(part))]
    if not made.exists() or made.stat().st_mtime < max(path.stat().st_mtime for path in sources):
        return None
    return made.read_text().split()


@contextmanager
def _alone() -> Iterator[None]:
    """While no other of this program builds here, as CI's has begun long before its tests."""
    folder = ROOT / ".venvs"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def marked() -> list[str]:
    """The files with tests for every interpreter: others need not be imported."""
    files = sorted((ROOT / "tests").glob("*/test_*.py"))
    return [str(path.relative_to(ROOT)) for path in files if "pytest.mark.interpreters" in path.read_text()]


def shared_out(weights: dict[str, int], minors: list[int]) -> dict[int, list[str]]:
    """Which files each of these interpreters tests, where every file is tested by one of them: the heaviest first, to
    whoever has least."""
    shares: dict[int, list[str]] = {minor: [] for minor in minors}
    for file in sorted(weights, key=lambda file: (-weights[file], file)) if minors else ():
        least = min(minors, key=lambda minor: (sum(weights[one] for one in shares[minor]), minor))
        shares[least].append(file)
    return shares


def sharing(minors: list[int]) -> list[int]:
    """Those that share the files where not each interpreter runs all: neither the oldest nor the two newest."""
    return sorted(minors)[1:-2]


def _test(minor: int, files: list[str]) -> str:
    """Run the tests of these files on one; what they have said. Raises Failed."""
    python = str(ROOT / ".venvs" / f"3.{minor}" / "bin" / "python")
    # Beside others, so that a folder of temporary files is not cleared by another's run.
    base = str(ROOT / ".venvs" / f"3.{minor}" / "tmp")
    options = ("-q", "-p", "no:cacheprovider", "-m", "interpreters and not once", "--basetemp", base, *SHARED)
    if over.is_set():
        raise Failed("not tested: another command has failed\n")
    return _do([python, "-m", "pytest", *options, *files])


def _tell(minor: int, running: Future[str]) -> bool:
    """What has come of one; True if all is well."""
    try:
        print(f"Python 3.{minor}:\n{running.result()}", flush=True)
    except Failed as failure:
        print(f"Python 3.{minor}:\n{failure}", flush=True)
        return False
    return True


def _build_all(chosen: dict[int, str]) -> Iterator[tuple[int, list[str] | Failed]]:
    """Build for all that were chosen, one after the other: what came of each."""
    for minor, path in chosen.items():
        if over.is_set():
            return
        begun = time.monotonic()
        if (known := _built(minor)) is not None:
            yield minor, known
            continue
        try:
            with _alone():
                missing = _build(minor, path)
        except Failed as failure:
            yield minor, failure
        else:
            print(f"Python 3.{minor}: built after {time.monotonic() - begun:.0f} s", flush=True)
            yield minor, missing


def build(chosen: dict[int, str]) -> int:
    """Build for all that were chosen; the exit status."""
    failed = [(minor, it) for minor, it in _build_all(chosen) if isinstance(it, Failed)]
    for minor, failure in failed:
        print(f"Python 3.{minor}:\n{failure}", flush=True)
    return 1 if failed else 0


def test(chosen: dict[int, str], beside: list[str]) -> int:
    """Build for all that were chosen, and run their tests, beside a command if one is given; the exit status."""
    begun = time.monotonic()
    files = dict.fromkeys(chosen, marked())
    if beside:
        weights = {file: (ROOT / file).stat().st_size for file in marked()}
        files |= shared_out(weights, sharing(list(chosen)))
    command = subprocess.Popen(beside, cwd=ROOT) if beside else None
    with ThreadPoolExecutor(1) as builder, ThreadPoolExecutor(max(1, len(os.sched_getaffinity(0)))) as pool:
        running: dict[int, Future[str]] = {}

        def all_built() -> None:
            for minor, missing in _build_all(chosen):
                running[minor] = pool.submit(_outcome, minor, missing, files[minor])

        building = builder.submit(all_built)
        try:
            status = command.wait() if command else 0
            if status:
                over.set()
            building.result()
            for minor, one in running.items():
                if not _tell(minor, one):
                    status = status or 1
        except BaseException:
            over.set()
            raise
    print(f"other interpreters: {time.monotonic() - begun:.0f} s", flush=True)
    return status


def _outcome(minor: int, missing: list[str] | Failed, files: list[str]) -> str:
    """What the tests of one have said. Raises Failed."""
    if isinstance(missing, Failed):
        raise missing
    said = _test(minor, files)
    if len(files) < len(marked()):
        share = (
            f"{len(files)} of {len(marked())} files, and the others on the next one (`make interpreters`: each has all)"
        )
        said = f"{share}\n{said}"
    return "".join(f"tests with {package} are skipped: there is no wheel of it\n" for package in missing) + said


def main(arguments: list[str]) -> int:
    """Test on all that are found; the exit status."""
    beside: list[str] = []
    if "--beside" in arguments:
        at = arguments.index("--beside")
        arguments, beside = arguments[:at], arguments[at + 1 :]
    usable, skipped = found()
    only = arguments[arguments.index("--only") + 1] if "--only" in arguments else ""
    chosen: dict[int, str] = {}
    for minor in range(OLDEST, max([NEWEST, *usable, *skipped]) + 1):
        if minor == sys.version_info[1]:
            print(f"Python 3.{minor}: all tests run on it, in .venv", flush=True)
        elif minor in usable:
            print(f"Python 3.{minor}: {usable[minor]}", flush=True)
            if only in ("", f"3.{minor}"):
                chosen[minor] = usable[minor]
        else:
            print(f"Python 3.{minor}: skipped: {skipped.get(minor, 'not on this machine')}", flush=True)
    if not any("free-threaded" in why for why in skipped.values()):
        print("free-threaded Python: skipped: no such build on this machine", flush=True)
    if "--list" in arguments:
        return 0
    return build(chosen) if "--build" in arguments else test(chosen, beside)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
