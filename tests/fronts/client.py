"""A client that sends what it is told, byte for byte, and says how a reply has ended."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from webservers import HOST, PATIENCE

#: Where these clients come from: an address of their own.
CLIENT = "127.0.0.77"
NONE: Mapping[str, str] = {}


class Reply(NamedTuple):
    """`complete`: the body has ended as its head said it would."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    complete: bool

    def header(self, name: str) -> list[str]:
        return [value for known, value in self.headers if known.lower() == name]


class Client:
    """One connection."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection((HOST, port), PATIENCE, source_address=(CLIENT, 0))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.held = b""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def begin(self, method: str, target: str, headers: Mapping[str, str] = NONE) -> None:
        """Send a head."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.sock.sendall(f"{method} {target} HTTP/1.1\r\nHost: shop.example\r\n{lines}\r\n".encode("latin-1"))

    def chunk(self, part: bytes) -> None:
        """Send a part of a body that has no length; an empty one ends it."""
        self.sock.sendall(b"%x\r\n%s\r\n" % (len(part), part))

    def more(self) -> bool:
        """Read what there is; false at the end."""
        try:
            part = self.sock.recv(65536)
        except ConnectionResetError:
            return False
        self.held += part
        return bool(part)

    def until(self, text: bytes) -> None:
        """Read until that has come; EOFError where it does not."""
        while text not in self.held:
            if not self.more():
                raise EOFError(self.held)

    def head(self) -> tuple[int, list[tuple[str, str]]]:
        """Read the head of a reply; interim ones are passed over."""
        while True:
            self.until(b"\r\n\r\n")
            raw, _, self.held = self.held.partition(b"\r\n\r\n")
            first, *lines = raw.decode("latin-1").split("\r\n")
            status = int(first.split()[1])
            if status >= 200:
                return status, [(name, value) for name, _, value in (line.partition(": ") for line in lines)]

    def reply(self, *, head: bool = False) -> Reply:
        """Read a reply."""
        status, headers = self.head()
        found = {name.lower(): value for name, value in headers}
        if head or status in (204, 304):
            return Reply(status, headers, b"", True)
        if "content-length" in found:
            length = int(found["content-length"])
            while len(self.held) < length and self.more():
                pass
            body, self.held = self.held[:length], self.held[length:]
            return Reply(status, headers, body, len(body) == length)
        if found.get("transfer-encoding") == "chunked":
            return Reply(status, headers, *self._chunks())
        while self.more():
            pass
        return Reply(status, headers, self.held, True)

    def _chunks(self) -> tuple[bytes, bool]:
        body = b""
        while True:
            while b"\r\n" not in self.held:
                if not self.more():
                    return body, False
            line, _, self.held = self.held.partition(b"\r\n")
            size = int(line.partition(b";")[0], 16)
            while len(self.held) < size + 2:
                if not self.more():
                    return body + self.held, False
            body += self.held[:size]
            self.held = self.held[size + 2 :]
            if not size:
                return body, True


def ask(
    port: int,
    target: str,
    method: str = "GET",
    headers: Mapping[str, str] = NONE,
    body: bytes = b"",
) -> Reply:
    """One request over a connection of its own."""
    with Client(port) as client:
        length = {"Content-Length": str(len(body))} if body else {}
        client.begin(method, target, {**headers, **length})
        # Who answers early may close before all of a body is sent: what it has said is there to be read.
        with contextlib.suppress(BrokenPipeError):
            client.sock.sendall(body)
        return client.reply(head=method == "HEAD")


def told(reply: Reply) -> dict[str, Any]:
    """What the application was asked with."""
    assert (reply.status, reply.complete) == (200, True), reply
    found: dict[str, Any] = json.loads(reply.body)
    return found


def place(found: dict[str, Any]) -> tuple[str, str]:
    """Where the application is, and the path below it, of what either kind of application tells."""
    if "root_path" in found:
        assert found["path"].startswith(found["root_path"]), found
        return found["root_path"], found["path"][len(found["root_path"]) :]
    return found["SCRIPT_NAME"], found["PATH_INFO"].encode("latin-1").decode()


def until(what: Callable[[], bool]) -> None:
    """Wait for something that shows."""
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.01)
