"""The pid file: one server a file.

Knows: a path and who wrote it. Does not know: anything of that process but whether it lives.
"""

from __future__ import annotations

import os

from forehand import errors
from forehand.errors import Problem


def write(path: str) -> None:
    """Write our process id. A file that a dead process has left is replaced. Raises Problem."""
    if not path:
        return
    holder = _holder(path)
    if holder and holder != os.getpid():
        raise Problem(
            errors.ADDRESS,
            f"the pid file {path} is that of process {holder}, which is running ({_command(holder)})",
            hint="stop that server, or choose another file with --pid-file",
        )
    fresh = f"{path}.{os.getpid()}"
    try:
        with open(fresh, "w", encoding="utf-8") as file:
            file.write(f"{os.getpid()}\n")
        # In one step: nobody ever reads half a number.
        os.replace(fresh, path)
    except OSError as error:
        status = errors.PERMISSION if isinstance(error, PermissionError) else errors.USAGE
        raise Problem(status, f"the pid file {path} cannot be written: {error.strerror}") from None


def _holder(path: str) -> int:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(32).strip()
    except OSError:
        return 0
    if not text.isdigit() or int(text) == 0:
        return 0
    try:
        os.kill(int(text), 0)
    except ProcessLookupError:
        return 0
    except (PermissionError, OverflowError):
        pass
    return int(text)


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip()[:80]
    except OSError:
        return "its command is not known"


def remove(path: str) -> None:
    """Remove the file if it is still ours."""
    if path and _holder(path) == os.getpid():
        try:
            os.unlink(path)
        except OSError:
            pass  # the folder may not be ours any more
