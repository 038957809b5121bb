"""Lines between a supervisor and one child: a word, and a text that belongs to it.

Knows: a stream socket and lines. Does not know: what they say. A child's end blocks, a
supervisor's never does: a child that does not listen is told nothing more, and nobody waits
for it. Plain text and not JSON, because the engine writes lines too (`server/request_deadlines.rs`),
and because a worker that imports `json` holds a megabyte more for as long as it lives.
"""

from __future__ import annotations

import _socket as socket
import os

#: A line that is longer is none of ours; a traceback has some kilobytes.
LONGEST = 1 << 20


def pair() -> tuple[int, int]:
    """Two connected descriptors: the supervisor's, which does not block, and the child's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    ours.setblocking(False)
    return ours.detach(), theirs.detach()


class Channel:
    """One end. `fileno()` can be polled."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.rest = b""
        self.open = True

    def fileno(self) -> int:
        """The descriptor."""
        return self.fd

    def tell(self, word: str, text: str = "") -> bool:
        """Send a line. False: the other end is gone, or does not listen."""
        line = f"{word} {text}".replace("\\", "\\\\").replace("\n", "\\n")
        data = line.encode(errors="surrogateescape") + b"\n"
        try:
            return os.write(self.fd, data) == len(data)
        except OSError:
            return False

    def hear(self) -> list[tuple[str, str]]:
        """The lines that have come. `open` is false once the other end has closed."""
        try:
            data = os.read(self.fd, 65536)
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


def _parsed(line: bytes) -> tuple[str, str]:
    text = line.decode(errors="surrogateescape")
    parts = [part.replace("\\n", "\n") for part in text.split("\\\\")]
    word, _, rest = "\\".join(parts).partition(" ")
    return word, rest
