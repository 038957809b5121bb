"""Sockets that systemd has opened for the server (sd_listen_fds(3)).

Knows: their descriptors, and which of them an address means. Does not know: what is spoken there.
"""

from __future__ import annotations

import _socket as socket
import os

from forehand.listen import kind_and_place, split

#: The first descriptor of those; the others follow.
FIRST = 3


def sockets() -> list[str]:
    """Addresses of the sockets that systemd has opened for this process, as `--bind` has them."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return []
    count = os.environ.pop("LISTEN_FDS", "0")
    for name in ("LISTEN_PID", "LISTEN_FDNAMES"):
        os.environ.pop(name, None)
    return [f"fd://{FIRST + index}" for index in range(int(count) if count.isdigit() else 0)]


def taken(addresses: list[str], opened: list[str]) -> tuple[list[str], list[str]]:
    """Addresses, with the sockets that systemd has opened at some of them in their place; and where else it has opened
    one. `bind` of another server's configuration is often what the `.socket` file says. Raises Problem."""
    sockets = {_where(address): address for address in opened}
    found = []
    for address in addresses:
        place = kind_and_place(address)[1]
        found.append(address.replace(place, sockets.pop(_where(place), place)))
    return found, list(sockets)


def _where(place: str) -> str:
    """Where that is, in one spelling for names and descriptors."""
    if place.startswith("fd://"):
        try:
            name = socket.socket(fileno=os.dup(int(place[5:]))).getsockname()
        except (OSError, ValueError):
            return place
        if isinstance(name, tuple):
            return _port_of(name[0], name[1])
        place = f"unix:{os.fsdecode(name).replace(chr(0), '@')}"
    if place.startswith("unix:"):
        return place if place.startswith("unix:@") else f"unix:{os.path.realpath(place[5:])}"
    return _port_of(*split(place))


def _port_of(host: str, port: int) -> str:
    # `ListenStream=8000` is `[::]:8000`, and has the connections of IPv4 as well.
    return f"{'127.0.0.1' if host == 'localhost' else '0.0.0.0' if host == '::' else host}:{port}"
