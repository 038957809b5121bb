"""The strict reader of replies: each must belong to its request, byte for byte, in order.

Knows: RFC 9112's framing, and what was asked. Does not know: sockets. What a server must never do raises `Wrong`; a
reply that ends early is told by `Replies.unfinished`.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto

from torment.asked import Asked
from torment.pattern import content

#: A head that is longer is none of ours.
LONGEST_HEAD = 16 * 1024
#: A chunk's size in hexadecimal, as long as it may be.
LONGEST_SIZE = 18
BEGINNING = b"HTTP/1.1 "


class Wrong(Exception):
    """What no server may do: another's bytes, bytes out of their order, bytes after the end."""


class Part(Enum):
    """What of a reply comes next.

    HEAD ─► LENGTH ─► over        SIZE ─► CHUNK ─► SIZE … ─► LAST ─► over        CLOSE ─► the connection's end
    """

    LENGTH = auto()
    SIZE = auto()
    CHUNK = auto()
    LAST = auto()
    CLOSE = auto()


@dataclass
class Reply:
    """A reply whose head has come."""

    asked: Asked
    part: Part
    #: Made by the server, not by the application: its content is anything.
    foreign: bool
    #: The application made the whole of it, so that its size is known.
    exact: bool
    #: Bytes that are to come of what was announced: content, or a chunk with the line end behind it.
    left: int = 0
    #: Bytes of content that have come.
    at: int = 0


@dataclass
class Replies:
    """What comes on one connection."""

    #: The only parent that those who answer may have.
    supervisor: int
    asked: deque[Asked] = field(default_factory=deque)
    #: Replies of the application that came whole.
    answered: int = 0
    #: Replies of the server itself that came whole.
    refused: int = 0
    #: The client itself was late, so that the server may have lost its patience.
    excused: bool = False
    #: The last head said that the connection ends.
    closing: bool = False
    #: Who has answered last.
    worker: int = 0
    _buffer: bytearray = field(default_factory=bytearray)
    _reply: Reply | None = None

    def feed(self, data: bytes) -> None:
        """Reads more. Raises `Wrong`."""
        self._buffer += data
        while self._buffer and self._step():
            pass

    @property
    def whole(self) -> int:
        """Replies that have come to their end."""
        return self.answered + self.refused

    @property
    def idle(self) -> bool:
        """Nothing is owed."""
        return not self.asked and self._reply is None

    def unfinished(self) -> str:
        """After the connection's end: how the reply under way was cut; empty where none was. Raises `Wrong`."""
        reply = self._reply
        if reply is None:
            return f"{len(self._buffer)} bytes of a head" if self._buffer else ""
        if reply.part is not Part.CLOSE:
            return f"{reply.asked.name}: {reply.at} bytes of its content, before the end that was announced"
        if reply.exact and reply.at != reply.asked.size:
            return f"{reply.asked.name}: {reply.at} of {reply.asked.size} bytes, and nothing that shows it"
        self._finish(reply)
        return ""

    def _step(self) -> bool:
        """One step; False: more bytes are needed."""
        reply = self._reply
        if reply is None:
            return self._head()
        if reply.part is Part.CLOSE:
            return self._content(reply, len(self._buffer))
        if reply.part is Part.LENGTH:
            self._content(reply, min(reply.left, len(self._buffer)))
            if not reply.left:
                self._finish(reply)
            return True
        if reply.part is Part.SIZE:
            return self._size(reply)
        if reply.part is Part.CHUNK and reply.left > 2:
            return self._content(reply, min(reply.left - 2, len(self._buffer)))
        return self._line_end(reply)

    def _head(self) -> bool:
        if self.closing or not self.asked:
            raise Wrong(f"bytes that nobody has asked for: {bytes(self._buffer[:300])!r}")
        end = self._buffer.find(b"\r\n\r\n")
        begins = bytes(self._buffer[: len(BEGINNING)])
        if not BEGINNING.startswith(begins) or (end < 0 and len(self._buffer) > LONGEST_HEAD):
            raise Wrong(f"no reply to {self.asked[0].name} begins like this: {bytes(self._buffer[:300])!r}")
        if end < 0:
            return False
        head = self._buffer[:end].decode("latin-1")
        del self._buffer[: end + 4]
        lines = head.split("\r\n")
        found = re.fullmatch(r"HTTP/1\.1 (\d{3}) [ -~]*", lines[0])
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        if not found or len(fields) != len(lines) - 1:
            raise Wrong(f"no head, or a field twice: {head!r}")
        if found[1] != "100":
            self._begin(int(found[1]), fields, head)
        elif not self.asked[0].expects:
            raise Wrong(f"100 Continue where {self.asked[0].name} is due, which expects none")
        return True

    def _begin(self, status: int, fields: dict[str, str], head: str) -> None:
        """The reply that a head begins. Raises `Wrong` where it is not the one that is due."""
        asked = self.asked.popleft()
        self.closing = "close" in fields.get("connection", "").lower()
        foreign = "x-id" not in fields
        if foreign and status not in asked.statuses and not (self.excused and status == 408):
            raise Wrong(f"a reply without an id where {asked.name} is due: {head!r}")
        if not foreign:
            self._own(asked, status, fields, head)
        reply = Reply(asked, Part.CLOSE, foreign, exact=not foreign and not asked.may_be_cut)
        length = fields.get("content-length")
        chunked = fields.get("transfer-encoding") == "chunked"
        if chunked and length is not None:
            raise Wrong(f"two framings: {head!r}")
        if reply.exact and length is not None and int(length) != asked.size:
            raise Wrong(f"{length} bytes are announced for {asked.name}, which asked for {asked.size}: {head!r}")
        # Of a request whose head is torn, or was too long on its way, nobody knows the method.
        if asked.method == "HEAD" and not asked.torn and not (foreign and status == 408):
            reply.exact = False
            self._finish(reply)
            return
        if length is not None:
            reply.part, reply.left = Part.LENGTH, int(length)
        elif chunked:
            reply.part = Part.SIZE
        elif not self.closing:
            raise Wrong(f"no framing, and no end of the connection: {head!r}")
        if reply.part is Part.LENGTH and not reply.left:
            self._finish(reply)
        else:
            self._reply = reply

    def _own(self, asked: Asked, status: int, fields: dict[str, str], head: str) -> None:
        """What the application says of itself."""
        if fields["x-id"] != asked.name or status != 200:
            raise Wrong(f"a reply to {fields['x-id']} where {asked.name} is due: {head!r}")
        took = asked.taken()
        if took is not None and fields.get("x-took") != took:
            raise Wrong(f"of the body of {asked.name} arrived {fields.get('x-took')} and not {took}")
        worker, _, parent = fields.get("x-process", "0 0").partition(" ")
        if int(parent) != self.supervisor:
            raise Wrong(f"process {worker} below {parent} has answered {asked.name}: it is no worker")
        self.worker = int(worker)

    def _content(self, reply: Reply, count: int) -> bool:
        got = bytes(self._buffer[:count])
        del self._buffer[:count]
        due = got if reply.foreign else content(reply.asked.name, reply.at, reply.at + count)
        if got != due:
            where = next(place for place in range(count) if got[place] != due[place])
            raise Wrong(
                f"another's bytes in the reply to {reply.asked.name}, from {reply.at + where}: "
                f"{got[max(0, where - 40) : where + 200]!r}"
            )
        reply.at += count
        reply.left -= count
        if reply.exact and reply.at > reply.asked.size:
            raise Wrong(f"{reply.at} bytes for {reply.asked.name}, which asked for {reply.asked.size}")
        return count > 0

    def _size(self, reply: Reply) -> bool:
        end = self._buffer.find(b"\r\n")
        if end < 0 and len(self._buffer) < LONGEST_SIZE:
            return False
        if not re.fullmatch(rb"[0-9a-fA-F]{1,16}", self._buffer[: max(end, 0)]):
            raise Wrong(f"no chunk of {reply.asked.name} after {reply.at}: {bytes(self._buffer[:200])!r}")
        size = int(self._buffer[:end], 16)
        del self._buffer[: end + 2]
        reply.part, reply.left = (Part.CHUNK if size else Part.LAST), size + 2
        return True

    def _line_end(self, reply: Reply) -> bool:
        """Behind a chunk, or behind the last one, as our applications send no trailers."""
        if len(self._buffer) < 2:
            return False
        if self._buffer[:2] != b"\r\n":
            raise Wrong(f"no end of a chunk of {reply.asked.name} at {reply.at}: {bytes(self._buffer[:200])!r}")
        del self._buffer[:2]
        if reply.part is Part.LAST:
            self._finish(reply)
        else:
            reply.part = Part.SIZE
        return True

    def _finish(self, reply: Reply) -> None:
        if reply.exact and reply.at != reply.asked.size:
            raise Wrong(f"{reply.at} bytes for {reply.asked.name}, which asked for {reply.asked.size}")
        self._reply = None
        if reply.foreign:
            self.refused += 1
        else:
            self.answered += 1
