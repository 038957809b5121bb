"""Lines between a supervisor and one child: a word, and a text that belongs to it.

Knows: a stream socket and lines, and a descriptor that goes with one. Does not know: what they say. A child's end
blocks, a supervisor's never does: a child that does not listen is told nothing more, and nobody waits for it. Plain
text and not JSON, because the engine writes lines too (`server/request_deadlines.rs`), and because a worker that
imports `json` holds a megabyte more for as long as it lives.
"""

from __future__ import annotations

import _socket as socket
import os
import sys

#: A line that is longer is none of ours; a traceback has some kilobytes.
LONGEST = 1 << 20


def pair() -> tuple[int, int]:
    """Two connected descriptors: the supervisor's, which does not block, and the child's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    ours.setblocking(False)
    return ours.detach(), theirs.detach()


class Channel:
    """One end. `fileno()` can be polled. `takes`: descriptors may come with lines; a supervisor takes none."""

    def __init__(self, fd: int, *, takes: bool = False) -> None:
        self.fd = fd
        self.rest = b""
        self.open = True
        self.takes = takes
        #: Descriptors that have come, in the order of their lines.
        self.given: list[int] = []

    def fileno(self) -> int:
        """The descriptor."""
        return self.fd

    def tell(self, word: str, text: str = "", given: int = -1) -> bool:
        """Send a line, and a descriptor with it. False: the other end is gone, or does not listen."""
        line = f"{word} {text}".replace("\\", "\\\\").replace("\n", "\\n")
        data = line.encode(errors="surrogateescape") + b"\n"
        try:
            return (os.write(self.fd, data) if given < 0 else send_with(self.fd, data, given)) == len(data)
        except OSError:
            return False

    def hear(self) -> list[tuple[str, str]]:
        """The lines that have come. `open` is false once the other end has closed."""
        try:
            data = receive_with(self.fd, 65536, self.given) if self.takes else os.read(self.fd, 65536)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError:
            data = b""
        if not data or len(self.rest) > LONGEST:
            self.open = False
            return []
        *lines, self.rest = (self.rest + data).split(b"\n")
        return [_parsed(line) for line in lines]

    def close(self) -> None:
        """Close this end."""
        self.open = False
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def send_with(fd: int, data: bytes, given: int) -> int:
    """Send bytes over a unix socket, and a descriptor with them; how many were taken. Raises OSError."""
    import array

    sock = socket.socket(fileno=fd)
    try:
        passed = array.array("i", [given]).tobytes()
        return sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)])
    finally:
        sock.detach()


def receive_with(fd: int, most: int, given: list[int]) -> bytes:
    """Bytes of a unix socket; descriptors that come with them are added to a list. Raises OSError."""
    sock = socket.socket(fileno=fd)
    try:
        data, ancillary, _, _ = sock.recvmsg(most, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
    finally:
        sock.detach()
    for _, _, passed in ancillary:
        given += [int.from_bytes(passed[at : at + 4], sys.byteorder) for at in range(0, len(passed) - 3, 4)]
    return data


def _parsed(line: bytes) -> tuple[str, str]:
    text = line.decode(errors="surrogateescape")
    parts = [part.replace("\\n", "\n") for part in text.split("\\\\")]
    word, _, rest = "\\".join(parts).partition(" ")
    return word, rest
