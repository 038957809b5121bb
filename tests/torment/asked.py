"""One request as bytes, and what may come back for it.

Knows: what `tests/apps/tormented*.py` do with a query. Does not know: sockets, or when it is sent.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from random import Random
from typing import Literal

from torment.pattern import content

#: How the application replies. `lent`: another thread or task goes on writing after the application has returned.
Way = Literal["whole", "parts", "unsized", "write", "lent", "file", "named", "raise", "raise-late"]
#: How much of the body it takes. `lent`: another thread or task reads while the reply is made.
Reading = Literal["all", "some", "none", "lent"]
#: What it makes of a fork, if it forks: what the child does then.
Fork = Literal["", "gone", "exit", "raise", "return", "linger", "spawn"]
Framing = Literal["none", "length", "chunks"]


@dataclass(frozen=True)
class Asked:
    """A request, and how its reply is known."""

    name: str
    way: Way = "whole"
    #: Bytes of the reply's content.
    size: int = 0
    reading: Reading = "all"
    #: Bytes of the request's body.
    body: int = 0
    framing: Framing = "none"
    #: Sizes of chunks are drawn from one to this.
    chunk: int = 4096
    pause_ms: int = 0
    burn_ms: int = 0
    fork: Fork = ""
    method: str = "GET"
    version: str = "1.1"
    close: bool = False
    expects: bool = False
    #: Nothing that a parser takes: it is refused, and the connection ends.
    garbage: bytes = b""
    #: Its last bytes never come.
    torn: bool = False

    @property
    def may_be_cut(self) -> bool:
        """The application itself does what leaves a reply without its end."""
        return self.way in ("lent", "raise-late")

    @property
    def unread(self) -> bool:
        """The application leaves some of the body to the server, which may then end the connection."""
        return self.body > 0 and self.reading != "all"

    @property
    def statuses(self) -> tuple[int, ...]:
        """What the server may answer in its own name: 503 where it is too busy, 500 where the application raises."""
        if self.garbage:
            return (400, 408, 431)
        raises = (500,) if self.way in ("raise", "raise-late") else ()
        return (503, *raises, 400, 408) if self.torn else (503, *raises)

    def head(self) -> bytes:
        """The request line and the fields."""
        target = (
            f"/?i={self.name}&w={self.way}&n={self.size}&r={self.reading}"
            f"&p={self.pause_ms}&b={self.burn_ms}&f={self.fork}"
        )
        lines = [f"{self.method} {target} HTTP/{self.version}", "Host: torment"]
        if self.framing == "length":
            lines.append(f"Content-Length: {self.body}")
        elif self.framing == "chunks":
            lines.append("Transfer-Encoding: chunked")
        if self.expects:
            lines.append("Expect: 100-continue")
        if self.close:
            lines.append("Connection: close")
        return "\r\n".join([*lines, "", ""]).encode()

    def wire(self) -> bytes:
        """All of the request."""
        if self.garbage:
            return self.garbage
        sent = content(self.name, 0, self.body)
        if self.framing != "chunks":
            return self.head() + sent
        dice = Random(self.name)
        parts = [self.head()]
        at = 0
        while at < len(sent):
            size = dice.randint(1, self.chunk)
            part = sent[at : at + size]
            parts += [b"%x\r\n" % len(part), part, b"\r\n"]
            at += size
        return b"".join([*parts, b"0\r\n\r\n"])

    def taken(self) -> str | None:
        """What the application must tell of the body that it has read; None where that is its own secret."""
        if self.reading == "lent":
            return None
        count = {"all": self.body, "some": min(self.body, SOME), "none": 0}[self.reading]
        return f"{count}:{zlib.crc32(content(self.name, 0, count))}"


#: So many bytes does an application take that takes some.
SOME = 1000
