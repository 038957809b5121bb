"""Log files: how they are opened, and the supervisor's own, which workers inherit as their stderr.

Knows: paths. Does not know: lines. `--log-file` takes the place of descriptor 2, so that what
an application prints, and a crash of the interpreter itself, are found in it as well.
"""

from __future__ import annotations

import os

from forehand import errors
from forehand.errors import Problem
from forehand.supervisor import log, privileges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def open_own(settings: dict[str, Any], *, first: bool = False, tried: bool = False) -> None:
    """Open the log files (again). Raises Problem the first time; later it is told. `tried`: all that matters is whether
    they can be opened, and lines go where they went."""
    for name in ("log_file", "access_log_file"):
        path = settings[name]
        if path == "-":
            continue
        try:
            fd = open_log(path)
            privileges.give(path, settings["user"], settings["group"])
        except (Problem, OSError) as error:
            if first:
                raise
            log.write("error", f"continuing with the old file: {error}")
            continue
        if name == "log_file" and not tried:
            if first and os.isatty(2):
                # Somebody looks here for what is said next, such as why it does not start.
                os.write(2, f"forehand: what the server says goes to {os.path.abspath(path)}\n".encode())
            os.dup2(fd, 2)
        os.close(fd)


def open_log(path: str) -> int:
    """A log file, to be added to. Raises Problem."""
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        status = errors.PERMISSION if isinstance(error, PermissionError) else errors.USAGE
        folder = os.path.dirname(os.path.abspath(path))
        if isinstance(error, FileNotFoundError):
            hint = f"there is no folder {folder}: make it for the user who starts the server"
        elif isinstance(error, PermissionError):
            hint = f"the user who starts the server has to be able to write in {folder} (install -d -o USER {folder})"
        else:
            hint = ""
        raise Problem(status, f"the log {path} cannot be opened: {error.strerror}", hint=hint) from None
