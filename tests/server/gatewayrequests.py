"""One request in the protocols of web servers, written by their specifications, and their replies read."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from serving import PATIENCE, Serving, read_all

#: Whom the variables of these tests name: an address of documentation (RFC 5737).
CLIENT = ("192.0.2.7", "51234")


def variables(
    method: str = "GET", target: str = "/", body: bytes = b"", more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """What nginx sends of a request, with `uwsgi_params`; `more` adds to it or replaces."""
    path, _, query = target.partition("?")
    return {
        "CONTENT_LENGTH": str(len(body)) if body else "", "QUERY_STRING": query, "REQUEST_METHOD": method,
        "CONTENT_TYPE": "", "REQUEST_URI": target, "PATH_INFO": path, "DOCUMENT_ROOT": "/usr/share/nginx/html",
        "SERVER_PROTOCOL": "HTTP/1.1", "REQUEST_SCHEME": "http", "REMOTE_ADDR": CLIENT[0], "REMOTE_PORT": CLIENT[1],
        "SERVER_PORT": "80", "SERVER_NAME": "shop.example", "HTTP_HOST": "shop.example", **(more or {}),
    }  # fmt: skip


def uwsgi(pairs: Mapping[str, str] | list[tuple[str, str]], body: bytes = b"") -> bytes:
    """A packet with modifiers 0 and 0."""
    items = pairs.items() if isinstance(pairs, Mapping) else pairs

    def text(value: str) -> bytes:
        raw = value.encode("latin-1")
        return len(raw).to_bytes(2, "little") + raw

    packed = b"".join(text(name) + text(value) for name, value in items)
    return b"\0" + len(packed).to_bytes(2, "little") + b"\0" + packed + body


def scgi(pairs: Mapping[str, str] | list[tuple[str, str]], body: bytes = b"") -> bytes:
    """A netstring of variables, CONTENT_LENGTH first, then the body."""
    items = list(pairs.items() if isinstance(pairs, Mapping) else pairs)
    first = [(name, value or "0") for name, value in items if name == "CONTENT_LENGTH"]
    rest = [(name, value) for name, value in items if name != "CONTENT_LENGTH"]
    packed = b"".join(part.encode("latin-1") + b"\0" for pair in [*first, ("SCGI", "1"), *rest] for part in pair)
    return b"%d:%s," % (len(packed), packed) + body


WRITERS = {"scgi": scgi, "uwsgi": uwsgi}


def place(served: Serving, number: int = 0) -> tuple[str, int]:
    """Where an address of a server is, whatever is spoken there."""
    host, _, port = served.urls[number].rpartition("://")[2].rpartition(":")
    return host, int(port)


def exchange(served: Serving, request: bytes, number: int = 0) -> bytes:
    """All bytes of the reply to a request, until the connection ends."""
    with socket.create_connection(place(served, number), PATIENCE) as sock:
        sock.sendall(request)
        return read_all(sock)


def parsed(reply: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers in small letters, and what follows them."""
    head, end, body = reply.partition(b"\r\n\r\n")
    assert end, reply
    first, *lines = head.decode("latin-1").split("\r\n")
    word, status = first.split(" ")[:2]
    assert word in ("HTTP/1.1", "Status:"), first
    return int(status), {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}, body
