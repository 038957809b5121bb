"""Addresses into listening sockets, and what to say where that fails.

Knows: `HOST:PORT`, `[V6]:PORT`, `:PORT`, `unix:PATH`, `fd://N`, the word before them, which says what is spoken there
(`http://`, `https://`, `h2c://`, `fastcgi:`), and `?proxy=` behind them. Does not know: who accepts.
The sockets stay Python's: the engine borrows their descriptors.
"""

from __future__ import annotations

import _socket as socket  # without the enumerations that `socket` makes of its numbers
import os
import stat

from forehand import errors
from forehand.digits import is_whole
from forehand.errors import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    # Descriptor, URL and kind.
    Lent = tuple[int, str, str]


# What can be spoken on a listener, and which PROXY headers may come before it: as in the engine (`Kind::named`).
GATEWAYS = ("uwsgi", "scgi", "fastcgi")
KINDS = ("http", "https", "h2c", *GATEWAYS)
PROXY = ("v1", "v2", "any")
HIGHEST_PORT = 65535


class Listener:
    """One listening socket, its URL, the path that is to be removed at the end, and what is spoken there."""

    __slots__ = ("file", "kind", "path", "socket", "url")

    def __init__(self, sock: socket.socket, url: str, path: str = "", kind: str = "http") -> None:
        self.socket = sock
        self.url = url
        self.path = path
        self.file = _file(path) if path else None
        self.kind = kind

    def lent(self) -> Lent:
        """What the engine is told of it, which borrows the descriptor."""
        place = self.url.removeprefix(f"{self.kind.partition('?')[0]}:")
        # A path may be any bytes, and what the engine makes of it is text.
        place = place.encode(errors="backslashreplace").decode()
        # Where it is, as a listener for HTTP would say it.
        return self.socket.fileno(), f"http:{place}" if place.startswith("//") else place, self.kind

    def close(self) -> None:
        """Close the socket; remove a unix socket's path if it is still this socket's: another server may have taken its
        place there while this one finished what ran."""
        try:
            if self.file is not None and _file(self.path) == self.file:
                os.unlink(self.path)
        except OSError:
            pass  # somebody else has removed it, or may not be disturbed
        self.socket.close()


def _file(path: str) -> tuple[int, ...] | None:
    """Which socket a path stands for: its number may be given again, but not with the time at which it was made."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns) if stat.S_ISSOCK(found.st_mode) else None


def listen(plan: dict[str, Any], option: str = "--bind") -> list[Listener]:
    """A listener for each of the plan's addresses, which `option` names. Raises Problem, and then none is left open."""
    if not plan["addresses"]:
        raise Problem(errors.USAGE, "there is no address to listen on", hint="such as --bind 127.0.0.1:8000")
    listeners: list[Listener] = []
    try:
        for address in plan["addresses"]:
            listeners += _open(address, plan)
    except BaseException as error:
        for listener in listeners:
            listener.close()
        if isinstance(error, Problem):
            error.hint = error.hint.replace("--bind", option)
        raise
    return listeners


def kind_and_place(address: str) -> tuple[str, str]:
    """What is spoken at an address, and where it is: HTTP, unless its scheme says something else, behind a PROXY header
    where `?proxy=` is at its end (`http?proxy=v2`). Raises Problem."""
    bare, proxy, versions = address.rpartition("?proxy=")
    if proxy:
        if versions not in PROXY:
            raise Problem(
                errors.USAGE,
                f"'{address}': there is no PROXY header of version '{versions}'",
                hint="?proxy=v1, ?proxy=v2 or ?proxy=any, as the load balancer sends it",
            )
        kind, place = kind_and_place(bare)
        if "?" in kind:
            raise _bad(address)
        return f"{kind}?proxy={versions}", place
    if address.startswith(("unix:", "fd://")):
        return "http", address
    word, colon, place = address.partition(":")
    if colon and word in GATEWAYS:
        # As web servers' own settings write it, and as a URL.
        place = place.removeprefix("//")
        if not place or "://" in place and not place.startswith("fd://"):
            raise _bad(address)
        return word, place
    if colon and word in KINDS and not place.startswith("//") and place and not is_whole(place):
        raise Problem(errors.USAGE, f"'{address}' is not an address", hint=f"write {word}://{place}")
    scheme, colon, place = address.partition("://")
    if not colon:
        return "http", address
    if scheme not in KINDS:
        known = ", ".join(f"{kind}://" for kind in KINDS)
        raise Problem(
            errors.USAGE,
            f"'{address}': nothing here speaks '{scheme}'",
            hint=f"what there is: {known}, which may be left out, before HOST:PORT, [V6]:PORT, :PORT, unix:PATH or fd://N",
        )
    if not place:
        raise _bad(address)
    return scheme, place


def secured(address: str) -> str:
    """The same place for HTTPS, unless the address says what is spoken there: where certificates are named, HOST:PORT
    means HTTPS, as with other servers."""
    word, _, place = address.partition(":")
    says = "://" in address or word in ("unix", *GATEWAYS) or word in KINDS and not is_whole(place)
    return address if says else f"https://{address}"


def _open(address: str, plan: dict[str, Any]) -> list[Listener]:
    kind, place = kind_and_place(address)
    listeners = _open_place(place, address, plan)
    for listener in listeners:
        listener.kind = kind
        word = kind.partition("?")[0]
        if word != "http":
            listener.url = f"{word}:{listener.url.removeprefix('http:')}"
    return listeners


def _open_place(place: str, address: str, plan: dict[str, Any]) -> list[Listener]:
    backlog, defer = plan["backlog"], plan["defer_accept"]
    if place.startswith("unix:"):
        from forehand import unix_socket

        path = place[5:]
        if not path:
            raise _bad(address)
        sock = unix_socket.listen(path, backlog, plan["socket_access"])
        return [Listener(sock, f"unix:{path}", "" if path.startswith("@") else os.path.abspath(path))]
    if place.startswith("fd://"):
        return [_inherited(place, backlog)]
    host, port = split(address)
    if host == "localhost":
        return _localhost(port, backlog, defer)
    return [_inet(host, port, backlog, defer)]


def split(address: str) -> tuple[str, int]:
    """Host and port of an address; the port defaults to 8000. Raises Problem."""
    text = kind_and_place(address)[1].rstrip("/")
    if is_whole(text):
        return "127.0.0.1", _port(text, address)
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise _bad(address)
        return host, _port(rest[1:] or "8000", address)
    host, colon, port = text.rpartition(":")
    if not colon:
        return text, 8000
    if ":" in host and "." not in host:
        raise Problem(
            errors.USAGE, f"the address '{address}' is ambiguous", hint=f"write an IPv6 address as [{host}]:{port}"
        )
    if ":" in host:
        raise _bad(address)
    return host or "0.0.0.0", _port(port, address)


def _port(text: str, address: str) -> int:
    if not is_whole(text):
        raise _bad(address)
    if int(text) > HIGHEST_PORT:
        hint = f"ports end at {HIGHEST_PORT}; 0 is any that is free"
        raise Problem(errors.USAGE, f"'{address}' is not an address: there is no port {text}", hint=hint)
    return int(text)


def check_port(value: float) -> None:
    """ValueError: there is no such port."""
    if value > HIGHEST_PORT:
        raise ValueError(f"there is no port {value}: ports end at {HIGHEST_PORT}")


def judge(address: str) -> None:
    """Whether an address can be understood; nothing is opened or looked up. Raises Problem."""
    place = kind_and_place(address)[1]
    if place.startswith("unix:"):
        if place == "unix:":
            raise _bad(address)
    elif place.startswith("fd://"):
        if not is_whole(place[5:]):
            raise _bad(address)
    else:
        split(address)


def _bad(address: str) -> Problem:
    return Problem(
        errors.USAGE,
        f"'{address}' is not an address",
        hint="an address is HOST:PORT, [V6]:PORT, :PORT, unix:PATH or fd://N, also behind http://, https://, h2c://, "
        "fastcgi:, uwsgi: or scgi:",
    )


def _localhost(port: int, backlog: int, defer: bool) -> list[Listener]:
    """Both loopback addresses, as browsers try both; one port for both."""
    first = _inet("127.0.0.1", port, backlog, defer)
    try:
        return [first, _inet("::1", first.socket.getsockname()[1], backlog, defer)]
    except Problem:
        return [first]  # there is no IPv6 here


def _inet(host: str, port: int, backlog: int, defer: bool) -> Listener:
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        # As bytes where that is the same: text would bring the whole of IDNA, a megabyte.
        wanted = host.encode() if host.isascii() else host
        found = socket.getaddrinfo(wanted, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise Problem(errors.ADDRESS, f"the host of '{where}' is not known: {error.strerror or error}") from None
    family, kind, protocol, _, name = found[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted connections inherit it: replies are written whole, and nothing is to wait.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if defer and hasattr(socket, "TCP_DEFER_ACCEPT"):
            # One wake-up for a connection and its request instead of two (docs/performance.md).
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(name)
        sock.listen(backlog)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        # Not before it is needed: a supervisor holds what it imports for months.
        from forehand import address_errors

        raise address_errors.refused(where, family, name, error) from None
    bound = sock.getsockname()
    shown = f"[{bound[0]}]" if family == socket.AF_INET6 else bound[0]
    return Listener(sock, f"http://{shown}:{bound[1]}")


def _inherited(address: str, backlog: int) -> Listener:
    number = address[5:]
    if not is_whole(number):
        raise _bad(address)
    try:
        sock = socket.socket(fileno=int(number))
        sock.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE)
        sock.listen(backlog)
        sock.setblocking(False)
    except OSError as error:
        raise Problem(
            errors.ADDRESS, f"{address} is not a listening socket: {error.strerror}", hint="systemd starts at fd://3"
        ) from None
    name = sock.getsockname()
    if sock.family == socket.AF_UNIX:
        return Listener(sock, f"unix:{name if isinstance(name, str) else name.decode(errors='replace')}")
    shown = f"[{name[0]}]" if sock.family == socket.AF_INET6 else name[0]
    return Listener(sock, f"http://{shown}:{name[1]}")
