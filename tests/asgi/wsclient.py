"""A WebSocket client that does exactly what a test says, right or wrong."""

from __future__ import annotations

import itertools
import socket
from typing import NamedTuple

from serving import Serving, read_reply

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
LINES = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {KEY}"]
MASK = b"\x11\x22\x33\x44"
NUMBERS = itertools.count(1)


class Frame(NamedTuple):
    first: int
    data: bytes

    @property
    def code(self) -> int:
        """The code of a close frame."""
        assert self.first == 0x88, self
        return int.from_bytes(self.data[:2], "big")


def frame(first: int, data: bytes, *, mask: bool = True) -> bytes:
    """A frame's bytes; `first` is the whole first byte."""
    size = len(data)
    form = (
        (size, b"")
        if size < 126
        else (126, size.to_bytes(2, "big"))
        if size < 65536
        else (127, size.to_bytes(8, "big"))
    )
    head = bytes([first, form[0] | (0x80 if mask else 0)]) + form[1]
    if not mask:
        return head + data
    whole = int.from_bytes(data, "big") ^ int.from_bytes((MASK * (size // 4 + 1))[:size], "big") if size else 0
    return head + MASK + whole.to_bytes(size, "big")


class Client:
    """One connection, from its handshake on. `name` is its own: what the application notes of it stands under it."""

    def __init__(
        self,
        server: Serving,
        path: str,
        *lines: str,
        method: str = "GET",
        behind: bytes = b"",
        standard: list[str] | None = None,
    ):
        self.name = f"socket {next(NUMBERS)}"
        self.sock: socket.socket = server.connect()
        self.buffer = bytearray()
        shake = LINES if standard is None else standard
        head = [f"{method} {path} HTTP/1.1", "Host: a", f"X-Client: {self.name}", *shake, *lines]
        self.sock.sendall("\r\n".join([*head, "", ""]).encode("latin-1") + behind)
        self.status, self.fields, self.body = self._answer()

    def _answer(self) -> tuple[int, dict[str, str], bytes]:
        while b"\r\n\r\n" not in self.buffer:
            self._more()
        if self.buffer.startswith(b"HTTP/1.1 101"):
            raw, _, rest = bytes(self.buffer).partition(b"\r\n\r\n")
            self.buffer[:] = rest
            fields = dict(line.split(": ", 1) for line in raw.decode().split("\r\n")[1:])
            return 101, {name.lower(): value for name, value in fields.items()}, b""
        return read_reply(self.sock, self.buffer)

    def _more(self) -> None:
        part = self.sock.recv(65536)
        if not part:
            raise EOFError(f"the server closed after {bytes(self.buffer)!r}")
        self.buffer += part

    def send(self, *frames: bytes) -> None:
        self.sock.sendall(b"".join(frames))

    def text(self, text: str) -> None:
        self.send(frame(0x81, text.encode()))

    def receive(self) -> Frame:
        """The next frame; EOFError where there is none."""
        while len(self.buffer) < 2:
            self._more()
        size = self.buffer[1]
        assert size < 128, "a server's frames are not masked"
        more = {126: 2, 127: 8}.get(size, 0)
        while len(self.buffer) < 2 + more:
            self._more()
        size = int.from_bytes(self.buffer[2 : 2 + more], "big") if more else size
        while len(self.buffer) < 2 + more + size:
            self._more()
        taken = Frame(self.buffer[0], bytes(self.buffer[2 + more : 2 + more + size]))
        del self.buffer[: 2 + more + size]
        return taken

    def ends(self) -> bool:
        """True once the server closes, with nothing more to say."""
        try:
            return not self.sock.recv(65536) and not self.buffer
        except ConnectionResetError:
            return False

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
