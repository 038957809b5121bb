"""The build backend: maturin, whose wheel gets the status endpoint's program, the lab and its load engine, and loses
its symbols.

`pip install PATH` is all there is to do. Knows where cargo puts a binary, and how a wheel lists its files (PEP 427).
FOREHAND_WITHOUT_ENGINE=1 leaves the engine out, where the lab will never run; FOREHAND_WITH_SYMBOLS=1 keeps the names
of functions and lines in what is compiled. What is missing is said in one line, before anything is built or fetched
for it. Read by interpreters that are too old, too, so that they can say so. The module is compiled with the compiler's
profile where that is of this compiler (compiler_profile.py).
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import compiler_profile
import maturin

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 10)
WITH_SYMBOLS = os.environ.get("FOREHAND_WITH_SYMBOLS") == "1"
get_requires_for_build_sdist = maturin.get_requires_for_build_sdist
build_sdist = maturin.build_sdist


APART = {"load", "__pycache__", "lab-records"}


def needs() -> None:
    """End with one line where this machine cannot build, as `make` does."""
    if sys.version_info < OLDEST:
        here, oldest = ".".join(map(str, sys.version_info[:3])), ".".join(map(str, OLDEST))
        sys.exit(f"forehand: this is Python {here}, and {oldest} or newer is needed: make the environment with one")
    told = subprocess.run(["/bin/sh", str(ROOT / "tools/needs.sh"), "compilers"], stderr=subprocess.PIPE, check=False)
    if told.returncode:
        sys.exit(told.stderr.decode().rstrip())


def get_requires_for_build_wheel(settings: Any = None) -> Any:
    """What maturin needs. pip asks for it first, but for --no-build-isolation: then metadata come first."""
    needs()
    return maturin.get_requires_for_build_wheel(settings)


def get_requires_for_build_editable(settings: Any = None) -> Any:
    """The same for an editable install."""
    needs()
    return maturin.get_requires_for_build_editable(settings)


def prepare_metadata_for_build_wheel(folder: str, settings: Any = None) -> Any:
    """Name, version and dependencies."""
    needs()
    return maturin.prepare_metadata_for_build_wheel(folder, settings)


def prepare_metadata_for_build_editable(folder: str, settings: Any = None) -> Any:
    """The same for an editable install."""
    needs()
    return maturin.prepare_metadata_for_build_editable(folder, settings)


def stripped(compiled: bytes) -> bytes:
    """A compiled file without symbols, a fifth of its size; as it is where there is no `strip`."""
    if WITH_SYMBOLS or shutil.which("strip") is None:
        return compiled
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "compiled"
        path.write_bytes(compiled)
        subprocess.run(["strip", "--strip-all", str(path)], check=True)
        return path.read_bytes()


TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
ENGINE = ["cargo", "build", "--release", "--locked", "-p", "forehand-load"]


@contextmanager
def engine() -> Iterator[Callable[[], dict[str, bytes]]]:
    """Builds forehand-load beside what is done within: linking that takes longest, on one processor alone.

    Until then it steps back. A call waits for it: its place in the wheel, and its bytes.
    """
    if os.environ.get("FOREHAND_WITHOUT_ENGINE") == "1":
        yield dict
        return
    # Cargo builds one thing at a time in a folder.
    folder = TARGET / "engine"
    building = subprocess.Popen(["nice", "-n", "15", *ENGINE, "--target-dir", str(folder)], cwd=ROOT)

    def built() -> dict[str, bytes]:
        if building.wait():
            raise subprocess.CalledProcessError(building.returncode, ENGINE)
        return {"forehand_lab/bin/forehand-load": stripped((folder / "release" / "forehand-load").read_bytes())}

    try:
        yield built
    finally:
        if building.poll() is None:
            building.terminate()
            building.wait()


def cargo_profile() -> str:
    """How cargo builds: for a release, unless something else is asked for."""
    words = os.environ.get("MATURIN_PEP517_ARGS", "").split()
    return words[words.index("--profile") + 1] if "--profile" in words[:-1] else "release"


def use_profile(*more: str) -> bool:
    """Have cargo compile by the compiler's profile from here on, with `more` flags. False: without it, as it was."""
    if cargo_profile() != "release":
        return False
    if reason := compiler_profile.why_not():
        print(f"building without the compiler's profile: {reason}", file=sys.stderr)
        return False
    os.environ.update(compiler_profile.environment(*more))
    return True


def status() -> dict[str, bytes]:
    """Build forehand-status as the module is built, with which it shares nearly all; its place in the wheel, and its
    bytes.
    """
    profile = cargo_profile()
    subprocess.run(["cargo", "build", "--profile", profile, "--locked", "-p", "forehand-status"], cwd=ROOT, check=True)
    # Cargo's own profile for development has a folder of another name.
    built = TARGET / {"dev": "debug"}.get(profile, profile) / "forehand-status"
    return {"forehand/bin/forehand-status": stripped(built.read_bytes())}


def lab() -> dict[str, bytes]:
    """The files of the package forehand_lab."""
    folder = ROOT / "lab"
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".pyc")
    inside = [(path.relative_to(folder), path) for path in found]
    return {f"forehand_lab/{name}": path.read_bytes() for name, path in inside if not APART & set(name.parts)}


def row(name: str, data: bytes) -> list[str]:
    """How a wheel lists a file."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return [name, f"sha256={digest}", str(len(data))]


def joined(wheel: Path, more: dict[str, bytes]) -> None:
    """Put files into a wheel, and into its list of files; what is compiled in it is stripped."""
    with zipfile.ZipFile(wheel) as archive:
        entries = [(info, archive.read(info)) for info in archive.infolist()]
    record = next(info for info, _ in entries if info.filename.endswith(".dist-info/RECORD"))
    entries = [(info, stripped(data) if info.filename.endswith(".so") else data) for info, data in entries]
    changed = {info.filename: data for info, data in entries if info.filename.endswith(".so")}
    rows = [
        row(known[0], changed[known[0]]) if known and known[0] in changed else known
        for known in csv.reader(io.StringIO(archive_text(entries, record)))
    ]
    rows[-1:-1] = [row(name, data) for name, data in more.items()]
    listed = io.StringIO()
    csv.writer(listed, lineterminator="\n").writerows(rows)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, data in entries:
            if info is not record:
                archive.writestr(info, data)
        for name, data in more.items():
            made = zipfile.ZipInfo(name)
            made.compress_type = zipfile.ZIP_DEFLATED
            made.external_attr = (0o100755 if "/bin/" in name else 0o100644) << 16
            archive.writestr(made, data)
        archive.writestr(record, listed.getvalue())


def archive_text(entries: list[tuple[zipfile.ZipInfo, bytes]], wanted: zipfile.ZipInfo) -> str:
    """An entry as text."""
    return next(data for info, data in entries if info is wanted).decode()


def build_wheel(folder: str, settings: Any = None, metadata: str | None = None) -> str:
    """A wheel with server, lab and programs."""
    with engine() as built:
        # Lines that nobody will see need not be worked out: a tenth of the time. Said to cargo, that would change all
        # names, by which the compiler finds what its profile says of a function.
        if not use_profile(*([] if WITH_SYMBOLS else ["-Cdebuginfo=0"])) and not WITH_SYMBOLS:
            os.environ.setdefault("CARGO_PROFILE_RELEASE_DEBUG", "false")
        name: str = maturin.build_wheel(folder, settings, metadata)
        joined(Path(folder) / name, {**lab(), **status(), **built()})
    return name


def build_editable(folder: str, settings: Any = None, metadata: str | None = None) -> str:
    """An editable install: lab and programs are found in this clone."""
    if os.environ.get("FOREHAND_WITHOUT_ENGINE") != "1":
        subprocess.run(ENGINE, cwd=ROOT, check=True)
    use_profile()
    status()
    name: str = maturin.build_editable(folder, settings, metadata)
    return name
