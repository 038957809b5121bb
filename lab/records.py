"""Records: what was measured, as JSON lines in a folder of its own, added to and never changed.

`record.jsonl` begins with the manifest; each later line is one fact. `logs/` has what servers said. A record that is
complete is made read-only. Knows nothing of what the lines mean beyond their kind.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from forehand_lab import FORMAT
from forehand_lab.problem import BUSY, SYSTEM, USAGE, Problem

FILE = "record.jsonl"
# A run of an hour writes some 20 MiB; a tenth of a gigabyte left is a disk that is about to be full.
ROOM_BYTES = 100 * 1024 * 1024


def folder() -> Path:
    """Where records go: $FOREHAND_LAB_RECORDS, or `lab-records` here."""
    return Path(os.environ.get("FOREHAND_LAB_RECORDS", "lab-records"))


class Writer:
    """A record that is being written. One process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            (path / "logs").mkdir(parents=True, exist_ok=True)
            room(path)
            descriptor = os.open(path / FILE, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise Problem(SYSTEM, f"{path}: {error.strerror}", "choose another place with --out DIR") from None
        self._file = os.fdopen(descriptor, "rb+")
        self._mended()

    def _mended(self) -> None:
        # A run that was killed may have left half a line, which nobody has read: it goes.
        end = self._file.seek(0, os.SEEK_END)
        if not end:
            return
        self._file.seek(0)
        data = self._file.read()
        if not data.endswith(b"\n"):
            self._file.truncate(data.rfind(b"\n") + 1)
            self._file.seek(0, os.SEEK_END)

    def add(self, kind: str, **facts: Any) -> None:
        """One line, on the disk when this returns."""
        line = json.dumps({"kind": kind, "at": round(time.time(), 3), **facts}, separators=(",", ":"))
        data = line.encode() + b"\n"
        try:
            room(self.path)
            written = os.write(self._file.fileno(), data)
            if written != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())
        except OSError as error:
            message = f"{self.path / FILE}: {error.strerror}: what was measured before is kept"
            raise Problem(SYSTEM, message, f"make room, then go on with --resume {self.path}") from None

    def close(self, *, complete: bool) -> None:
        """No more lines. A complete record can only be read from now on."""
        self._file.close()
        if complete:
            (self.path / FILE).chmod(0o444)

    def discard(self) -> None:
        """The record is not wanted: it goes, with its logs; what somebody else put into its folder stays."""
        self._file.close()
        (self.path / FILE).unlink()
        shutil.rmtree(self.path / "logs", ignore_errors=True)
        with contextlib.suppress(OSError):
            self.path.rmdir()


def room(path: Path) -> None:
    """Raises OSError where the disk is all but full: a record that ends in half a line helps nobody."""
    state = os.statvfs(path)
    needed = int(os.environ.get("FOREHAND_LAB_ROOM", ROOM_BYTES))
    if state.f_bavail * state.f_frsize < needed:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def located(named: str) -> Path:
    """The file of a record that somebody named: a file, a folder, one below that of records, or 'latest'."""
    if named == "latest":
        found = sorted(folder().glob(f"*/{FILE}"), key=lambda path: path.stat().st_mtime)
        if not found:
            raise Problem(USAGE, f"there is no record in {folder()}/", "`forehand lab run` makes one")
        return found[-1]
    for path in (Path(named), folder() / named):
        if path.is_dir():
            path = path / FILE
        if path.is_file():
            return path
    raise Problem(
        USAGE,
        f"there is no record {named}",
        f"one is named by its folder, or by its name below {folder()}/: `forehand lab list` has those",
    )


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The facts of a record. The last line of a run that was killed may be incomplete, and is left out."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                fact = json.loads(line)
                kind = fact["kind"]
            except (ValueError, KeyError, TypeError):
                raise Problem(USAGE, f"{path}: line {number} is not a fact of a record") from None
            if number == 1:
                _of_this_version(path, fact, kind)
            yield fact


def _of_this_version(path: Path, fact: dict[str, Any], kind: str) -> None:
    if kind != "manifest":
        raise Problem(USAGE, f"{path} does not begin with a manifest: it is not a record of the lab")
    told = fact.get("format")
    if told != FORMAT:
        way = (
            "measure again, or read it with the lab that wrote it"
            if told is None or told < FORMAT
            else "update the lab"
        )
        raise Problem(USAGE, f"{path} is a record of format {told}; this lab reads format {FORMAT}", way)


def read(named: str) -> list[dict[str, Any]]:
    """All facts of a record."""
    found = list(lines(located(named)))
    if not found:
        raise Problem(USAGE, f"{named}: the record is empty")
    return found


class OneRun:
    """The lock that keeps two runs from measuring each other. Held by the kernel for as long as this process lives."""

    def __init__(self, home: Path) -> None:
        self._path = home / "running"

    def __enter__(self) -> OneRun:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(self._path, "a+")  # noqa: SIM115  it is held until the end
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            who = self._file.read().strip() or "unknown"
            self._file.close()
            message = f"another run is measuring on this machine (pid {who}): two at once would measure each other"
            raise Problem(BUSY, message, "wait for its end, or interrupt it: it keeps what it has") from None
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
