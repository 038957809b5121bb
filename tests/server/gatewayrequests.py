"""One request in the protocols of web servers, written by their specifications, and their replies read."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Mapping

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


#: Kinds of records (FastCGI 1.0, §8).
BEGIN, ABORT, END, PARAMS, STDIN, STDOUT, GET_VALUES, GET_VALUES_RESULT, UNKNOWN_TYPE = 1, 2, 3, 4, 5, 6, 9, 10, 11


def record(kind: int, number: int, content: bytes = b"", padding: int = 0) -> bytes:
    """One record of FastCGI."""
    return struct.pack("!BBHHBx", 1, kind, number, len(content), padding) + content + b"\xff" * padding


def packed(pairs: Mapping[str, str] | list[tuple[str, str]]) -> bytes:
    """Names and values as FastCGI has them."""

    def length(text: bytes) -> bytes:
        return bytes([len(text)]) if len(text) < 128 else struct.pack("!I", len(text) | 1 << 31)

    items = [
        (name.encode("latin-1"), value.encode("latin-1"))
        for name, value in (pairs.items() if isinstance(pairs, Mapping) else pairs)
    ]
    return b"".join(length(name) + length(value) + name + value for name, value in items)


def fastcgi(
    pairs: Mapping[str, str] | list[tuple[str, str]], body: bytes = b"", *, keep: bool = False, number: int = 1
) -> bytes:
    """A responder's request, padded as some web servers do it; `keep`: the connection goes on after it."""
    begin = record(BEGIN, number, struct.pack("!HB5x", 1, keep))
    params = packed(pairs)
    parts = [record(PARAMS, number, params[at : at + 65_528], 5) for at in range(0, len(params), 65_528)]
    content = [record(STDIN, number, body[at : at + 32_000], 3) for at in range(0, len(body), 32_000)]
    return begin + b"".join(parts) + record(PARAMS, number) + b"".join(content) + record(STDIN, number)


def read_record(sock: socket.socket) -> tuple[int, int, bytes]:
    """Kind, number and content of the next record; kind 0, where the connection has ended instead."""
    head = read_exactly(sock, 8)
    if not head:
        return 0, 0, b""
    version, kind, number, length, padding = struct.unpack("!BBHHBx", head)
    assert version == 1, head
    return kind, number, read_exactly(sock, length + padding)[:length]


def read_exactly(sock: socket.socket, size: int) -> bytes:
    """So many bytes; none, where the connection has ended before the first of them."""
    found = b""
    while len(found) < size:
        part = sock.recv(size - len(found))
        if not part:
            assert not found, found
            break
        found += part
    return found


def read_reply(sock: socket.socket, number: int = 1) -> bytes:
    """What a request is answered with, until its end."""
    found: list[bytes] = []
    while True:
        kind, about, content = read_record(sock)
        assert (kind, about) in [(STDOUT, number), (END, number)], (kind, about, content)
        if kind == END:
            assert content == bytes(8)
            assert found and found.pop() == b"", "its stream was not ended"
            assert all(found), "it ended before"
            return b"".join(found)
        found.append(content)


def unframed(reply: bytes) -> bytes:
    """A reply that may be in records, without them."""
    if not reply.startswith(b"\1"):
        return reply
    ours, theirs = socket.socketpair()
    with ours, theirs:

        def write() -> None:
            theirs.sendall(reply)
            theirs.close()

        writer = threading.Thread(target=write)
        writer.start()
        found = read_reply(ours)
        assert read_record(ours)[0] == 0, "more than one reply"
        writer.join()
        return found


WRITERS: dict[str, Callable[..., bytes]] = {"fastcgi": fastcgi, "scgi": scgi, "uwsgi": uwsgi}


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
    head, end, body = unframed(reply).partition(b"\r\n\r\n")
    assert end, reply
    lines = head.decode("latin-1").split("\r\n")
    word, _, status = lines[0].partition(" ")
    if word in ("HTTP/1.1", "Status:"):
        del lines[0]
    else:
        # What CGI does not say (RFC 3875, section 6.3.3).
        status = "200"
    return int(status[:3]), {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}, body


#: Requests that mean the same through every door: method, target, headers, body.
SAME = [
    ("GET", "/", {}, b""),
    ("GET", "/a%20b/%C3%A9?q=%20x&y", {"Accept-Language": "de, en", "Cookie": "a=b; c=d"}, b""),
    ("POST", "/shop/cart", {"Content-Type": "text/plain", "X-Two-Words": "1"}, b"hello"),
    ("PUT", "/large", {}, b"x" * 300_000),
    ("DELETE", "/a//b/./c;p=1", {"Authorization": "Basic eA=="}, b""),
]
