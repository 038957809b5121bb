"""The control socket: a unix socket (mode 0600) on which a supervisor takes orders.

Knows: lines. An order is one line; the answer is lines of JSON, of which the last has `ok`.
Does not know: what an order does (`run.py`). Runs on the supervisor's only thread, so that
nothing here waits for a client.
"""

from __future__ import annotations

import _socket as socket
import os
import stat
import time
from binascii import crc32

from forehand import errors
from forehand.errors import Problem
from forehand.supervisor.channel import receive_with, send_with
from forehand.unix_socket import LONGEST_PATH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Orders are a word and a number; a client that sends more is none of ours.
LONGEST = 256
#: At these the port alone names the control socket: only one server can have it, at all of them or at one.
USUAL_ADDRESSES = ("127.0.0.1", "0.0.0.0")
#: Stands between an address and a number where another server has a control socket of that name.
BESIDE = "~"
#: Control sockets of one name, at most.
MOST_OF_A_NAME = 64
#: Clients at a time; more wait in the kernel's queue.
MOST_CLIENTS = 16


def folder() -> str:
    """Where control sockets are by default: a folder that only this user can enter."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.geteuid() == 0:
        return "/run/forehand"
    if runtime and os.path.isdir(runtime):
        return os.path.join(runtime, "forehand")
    return f"/tmp/forehand-{os.geteuid()}"


def path_for(option: str, url: str, number: int = 1) -> str:
    """The socket's path: what `--control` names, or one made from the first address.

    Above one, `number` tells this server from others that are named by the same address (`8000~2.sock`): one that
    has been stopped and finishes its requests, or one in another network namespace.
    """
    if option == "none":
        return ""
    if option != "auto":
        return os.path.abspath(option)
    if "://" in url:
        # An address of one's own is part of the name: another server can have the same port at another address.
        address, _, port = url.partition("://")[2].rpartition(":")
        name = port if address in USUAL_ADDRESSES else f"{address}:{port}"
    else:
        # `uwsgi:unix:/run/x.sock` and `unix:/run/x.sock` are the same place, as a path can be listened on once.
        name = url.rpartition("unix:")[2].strip("/@").replace("/", "-")
    name = name.removesuffix(".sock") or "server"
    if number > 1:
        name = f"{name}{BESIDE}{number}"
    path = os.path.join(folder(), f"{name}.sock")
    over = len(os.fsencode(path)) - LONGEST_PATH
    if over <= 0:
        return path
    # The address has room where it is, but not its whole name in our folder: its end, and what tells it from others.
    end = os.fsdecode(os.fsencode(name)[over + 9 :])
    return os.path.join(folder(), f"{crc32(os.fsencode(name)):08x}-{end}.sock")


#: A socket that nobody answers at may be about to be listened on; after so many seconds its server is dead.
DEAD_AFTER = 10.0


def sweep(place: str) -> None:
    """Remove sockets that dead servers have left in the folder."""
    try:
        names = os.listdir(place)
    except OSError:
        return
    for name in names:
        path = os.path.join(place, name)
        try:
            found = os.lstat(path)
            old = time.time() - found.st_mtime > DEAD_AFTER
            if name.endswith(".sock") and stat.S_ISSOCK(found.st_mode) and old and ask_holder(path) == 0:
                os.unlink(path)
        except OSError:
            continue  # somebody else's, or gone


class Client:
    """Somebody who gave an order, or is about to."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.order = b""
        #: It has asked for the server's end, and not for a reload's.
        self.waits_for_the_end = False
        #: A descriptor that has come with the order.
        self.given: list[int] = []

    def tell(self, **words: Any) -> None:
        """One line of the answer. A client that is gone, or reads too slowly, misses it."""
        import json

        try:
            os.write(self.fd, json.dumps(words).encode() + b"\n")
        except OSError:
            pass  # its order is carried out all the same

    def give(self, fd: int, **words: Any) -> None:
        """One line, and a descriptor with it."""
        import json

        try:
            send_with(self.fd, json.dumps(words).encode() + b"\n", fd)
        except OSError:
            pass  # a client that is gone misses it

    def close(self) -> None:
        """The answer is complete."""
        while self.given:
            os.close(self.given.pop())
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Taken(Problem):
    """Another server, which lives, has a control socket at this path."""


def open_for(option: str, url: str) -> Control | None:
    """The control socket that `--control` asks for; None for `none`. Raises Problem.

    A path that was chosen must be free. Of names that are made from an address, the first that is free is taken.
    """
    number = 1
    while path := path_for(option, url, number):
        try:
            return Control(path)
        except Taken:
            if option != "auto" or number == MOST_OF_A_NAME:
                raise
            number += 1
    return None


class Control:
    """The listening end."""

    def __init__(self, path: str, fd: int = -1) -> None:
        self.path = path
        self.clients: dict[int, Client] = {}
        if fd >= 0:
            self.sock = socket.socket(fileno=fd)
            return
        _make_room(path)
        if os.path.dirname(path) == folder():
            sweep(os.path.dirname(path))
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o177)
        try:
            self.sock.bind(path)
            self.sock.listen(MOST_CLIENTS)
            self.sock.setblocking(False)
        except OSError as error:
            self.sock.close()
            import errno

            if error.errno == errno.EADDRINUSE:
                # Somebody else has come between, at this very moment.
                raise _taken(path, ask_holder(path)) from None
            raise Problem(
                errors.ADDRESS,
                f"the control socket {path} cannot be made: {error.strerror or error}",
                hint="choose another place with --control PATH, or do without: --control none",
            ) from None
        finally:
            os.umask(mask)

    def fileno(self) -> int:
        """The listening descriptor."""
        return self.sock.fileno()

    def accept(self) -> Client | None:
        """A client that has come."""
        try:
            fd, _ = self.sock._accept()  # type: ignore[attr-defined]
        except OSError:
            return None
        os.set_blocking(fd, False)
        client = Client(fd)
        if len(self.clients) >= MOST_CLIENTS:
            client.tell(ok=False, text="too many orders at a time; try again")
            client.close()
            return None
        self.clients[fd] = client
        return client

    def read(self, client: Client) -> str | None:
        """The order, when it is complete. An empty one: the client has gone."""
        try:
            data = receive_with(client.fd, LONGEST, client.given)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        client.order += data
        if not data or len(client.order) > LONGEST:
            return ""
        line, end, _ = client.order.partition(b"\n")
        return line.decode(errors="replace") if end else None

    def forget(self, client: Client) -> None:
        """Ends with a client."""
        self.clients.pop(client.fd, None)
        client.close()

    def close(self) -> None:
        """Close the socket, and remove its path."""
        for client in list(self.clients.values()):
            self.forget(client)
        try:
            os.unlink(self.path)
        except OSError:
            pass  # somebody else has
        self.sock.close()


def _make_room(path: str) -> None:
    """The folder, and a socket that a dead server has left."""
    place = os.path.dirname(path)
    try:
        os.makedirs(place, mode=0o700, exist_ok=True)
        if place == folder() and os.lstat(place).st_uid != os.geteuid():
            # Below /tmp anybody may have made it first, and could put a socket of theirs there.
            import errno

            raise PermissionError(errno.EPERM, "it belongs to somebody else")
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise Problem(
            errors.PERMISSION,
            f"the control socket's folder {place} cannot be used: {error.strerror}",
            hint="choose another place with --control PATH, or do without: --control none",
        ) from None
    if not stat.S_ISSOCK(mode):
        raise Problem(errors.ADDRESS, f"--control: {path} exists and is not a socket", hint="choose another path")
    holder = ask_holder(path)
    if holder:
        raise _taken(path, holder)
    os.unlink(path)


def _taken(path: str, holder: int) -> Taken:
    return Taken(
        errors.ADDRESS,
        f"another server (process {holder}) uses the control socket {path}",
        hint="stop it with `forehand stop`, or choose another path with --control",
    )


def ask_holder(path: str) -> int:
    """The process that listens on a unix socket; zero where nobody does. -1: it is not known."""
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    probe.settimeout(1)
    try:
        probe.connect(path)
        if hasattr(socket, "SO_PEERCRED"):
            return int.from_bytes(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 4), "little")
        return -1
    except OSError as error:
        return 0 if isinstance(error, (ConnectionRefusedError, FileNotFoundError)) else -1
    finally:
        probe.close()
