"""The build backend: maturin, whose wheel gets the lab and its load engine.

`pip install 'forehand[lab]'` is all there is to do, also in a clone. Knows where cargo puts a binary, and how a wheel
lists its files (PEP 427). FOREHAND_WITHOUT_ENGINE=1 leaves the engine out, where the lab will never run.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import subprocess
import zipfile
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


APART = {"load", "__pycache__", "lab-records"}


def engine() -> dict[str, bytes]:
    """Build forehand-load; its place in the wheel, and its bytes."""
    if os.environ.get("FOREHAND_WITHOUT_ENGINE") == "1":
        return {}
    subprocess.run(["cargo", "build", "--release", "--locked", "-p", "forehand-load"], cwd=ROOT, check=True)
    built = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "forehand-load"
    return {"forehand_lab/bin/forehand-load": built.read_bytes()}


def lab() -> dict[str, bytes]:
    """The files of the package forehand_lab."""
    folder = ROOT / "lab"
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".pyc")
    inside = [(path.relative_to(folder), path) for path in found]
    return {f"forehand_lab/{name}": path.read_bytes() for name, path in inside if not APART & set(name.parts)}


def joined(wheel: Path, more: dict[str, bytes]) -> None:
    """Put files into a wheel, and into its list of files."""
    with zipfile.ZipFile(wheel) as archive:
        entries = [(info, archive.read(info)) for info in archive.infolist()]
    record = next(info for info, _ in entries if info.filename.endswith(".dist-info/RECORD"))
    rows = list(csv.reader(io.StringIO(archive_text(entries, record))))
    for name, data in more.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.insert(-1, [name, f"sha256={digest}", str(len(data))])
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
    """A wheel with server, lab and engine."""
    name: str = maturin.build_wheel(folder, settings, metadata)
    joined(Path(folder) / name, {**lab(), **engine()})
    return name


def build_editable(folder: str, settings: Any = None, metadata: str | None = None) -> str:
    """An editable install: lab and engine are found in this clone."""
    engine()
    name: str = maturin.build_editable(folder, settings, metadata)
    return name
