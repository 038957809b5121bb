"""Unix sockets: made where nothing lives, and open to those who shall connect.

Knows: paths, permissions, what a dead server has left. Does not know: who accepts.
"""

from __future__ import annotations

import _socket as socket  # without the enumerations that `socket` makes of its numbers
import os
import stat

from forehand import errors
from forehand.errors import Problem

#: What `sockaddr_un` has room for, in bytes, on Linux.
LONGEST_PATH = 107

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def listen(path: str, backlog: int, access: dict[str, Any]) -> socket.socket:
    """A listening socket. `path` begins with @ for one without a file. `access`: mode, and the names of its user and
    group (`Settings.socket_access`). Raises Problem."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.startswith("@"):
            sock.bind("\0" + path[1:])
        else:
            _clear(path)
            _bind(sock, path, access)
        sock.listen(backlog)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        status = errors.PERMISSION if isinstance(error, PermissionError) else errors.ADDRESS
        text = f"the unix socket {path} cannot be bound: {error.strerror or error}"
        raise Problem(status, text, hint=_remedy(path, error)) from None
    except Problem:
        sock.close()
        raise
    return sock


def _remedy(path: str, error: OSError) -> str:
    """What to do where a path cannot be bound."""
    folder = os.path.dirname(os.path.abspath(path))
    if isinstance(error, FileNotFoundError):
        return f"there is no folder {folder}: make it for the user who starts the server (install -d -o USER {folder})"
    if isinstance(error, PermissionError):
        return f"whoever starts the server has to be able to write in {folder}"
    if error.errno is None:
        return f"the system allows {LONGEST_PATH} bytes; a relative path is shorter"
    return "choose another path"


def _bind(sock: socket.socket, path: str, access: dict[str, Any]) -> None:
    """Bound without any permission first, so that nobody connects who shall not while owner and mode are set."""
    try:
        # What a socket's descriptor says before bind(2) is what its file will have, on Linux.
        os.fchmod(sock.fileno(), 0)
    except OSError:
        pass
    sock.bind(path)
    try:
        _own(path, access["user"], access["group"])
        os.chmod(path, access["mode"])
    except BaseException:
        os.unlink(path)
        raise


def _own(path: str, user: str, group: str) -> None:
    if not user and not group:
        return
    from forehand.supervisor import privileges

    # Those of --user and --group were looked for before.
    uid, gid, _ = privileges.resolve(user, group, "socket-")
    try:
        os.chown(path, uid if os.geteuid() == 0 else -1, gid)
    except PermissionError:
        raise Problem(
            errors.PERMISSION,
            f"the unix socket {path} cannot be given to the group '{group}'",
            hint="whoever starts the server must be root, or a member of that group",
        ) from None


def _clear(path: str) -> None:
    """Remove what a dead server has left; never what is alive or no socket."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise Problem(errors.ADDRESS, f"{path} exists and is not a socket", hint="remove it, or choose another path")
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        probe.connect(path)
    except ConnectionRefusedError:
        os.unlink(path)
        return
    except OSError as error:
        raise Problem(errors.PERMISSION, f"{path} exists and cannot be examined: {error.strerror}") from None
    finally:
        probe.close()
    raise Problem(errors.ADDRESS, f"{path} is in use: a server answers there", hint="stop it, or choose another path")
