"""The machines of HTTP/2 beside Python's `hpack` and `h2`: where both read a block or a frame, it says the same.

Knows: what `drive blocks` and `drive frames` answer, the libraries' events, and where we are meant to differ. Does not
know: how either side reads. Inputs are made here, by the library's own encoder, and then damaged.

Exit status: 0 no disagreement, 1 a disagreement, 2 the driver is missing.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import hpack
from options import parsed

#: Our reasons for refusing a block that hpack decodes, and why we do.
STRICTER_BLOCKS = {
    "Number": "hpack has no bound on the bytes of a number (RFC 7541 §5.1 asks for one)",
    "TableSize": "hpack takes any number of changes of the size at the beginning of a block (§4.2 needs two)",
}

#: Our reasons for refusing a frame that h2 takes, and why we do.
STRICTER = {
    "no-host": "h2 asks for no authority",
    "bad-host": "h2 does not look at an authority",
    "two-hosts": "h2 leaves it to the application",
    "length": "h2 takes what Python's int() takes",
    "two-lengths": "h2 looks at the last one",
    "method-not-allowed": "CONNECT and TRACE are the application's business in h2",
    "unknown-method": "h2 knows no protocols",
    "two-content-types": "h2 leaves it to the application",
    "unknown-expect": "h2 leaves it to the application",
    "headers-too-large": "we count as RFC 9113 §6.5.2 does, with another limit",
    "too-many-headers": "h2 has no such limit",
    "glitches": "h2 counts no floods",
    "pseudo-value": "h2 looks at no path but that there is one, and at no scheme",
    "field": "h2 takes control characters other than NUL, CR and LF (RFC 9113 §8.2.1 allows it)",
    "trailers": "h2 takes any name behind the content, also those that frame or route a message (RFC 9110 §6.5.1)",
    "stream-number": "we know it from the frame's head; h2 waits for the rest",
    "frame-size": "the same",
    "frame-stream": "the same",
    "idle-stream": "the same",
    "push": "the same",
    "body-length": "h2 does not compare where no content follows at all",
    "pseudo-field": "h2 moves cookies behind all others before it looks at the order",
    "stream-closed": "h2 resets a stream that was ended, where RFC 9113 §5.1 asks for the connection's end",
}

#: What h2 says when it refuses something that we take, and why we do.
LOOSER = {
    "StreamClosedError": "h2 forgets streams that are over; we pass over what was under way",
    "NoSuchStreamError": "the same",
    "TooManyStreamsError": "h2 has another limit",
    "DenialOfServiceError": "h2 has another limit of fields",
    "an empty cookie": "h2 puts cookies together before it looks whether a value ends with a blank",
    "Received frame with non-compliant data": "a window that grows by nothing, on a stream that is over",
}


class StreamError(Exception):
    """h2 has reset a stream by itself, which it tells as an event."""


class Driver:
    """The driver: a line in, a line of JSON out."""

    def __init__(self, path: Path, verb: str) -> None:
        self.process = subprocess.Popen([path, verb], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)

    def ask(self, parts: list[bytes]) -> list[Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(" ".join(part.hex() for part in parts) + "\n")
        self.process.stdin.flush()
        told: list[Any] = json.loads(self.process.stdout.readline())
        return told


NAMES = [":method", ":path", ":authority", "accept", "cookie", "user-agent", "x-own", "x", "content-length", "te"]
VALUES = ["", "GET", "/", "a", "gzip, deflate", "Mozilla/5.0 (X11; Linux x86_64)", "\xff\x00", "~" * 30, "0", "5"]


def damage(chance: random.Random, part: bytes) -> bytes:
    """One byte more, less or another."""
    at = chance.randrange(len(part) + 1)
    other = bytes([chance.randrange(256)])
    return chance.choice(
        [part[:at] + other + part[at + 1 :], part[:at] + other + part[at:], part[:at] + part[at + 1 :]]
    )


def blocks(chance: random.Random) -> list[bytes]:
    """The blocks of one connection."""
    encoder = hpack.Encoder()
    made = []
    for _ in range(chance.randint(1, 6)):
        if chance.random() < 0.2:
            encoder.header_table_size = chance.choice([0, 50, 100, 1000, 4096])
        fields = [
            hpack.HeaderTuple(
                chance.choice(NAMES).encode(), chance.choice(VALUES).encode("latin-1") * chance.randint(0, 3)
            )
            for _ in range(chance.randint(0, 6))
        ]
        block = encoder.encode(fields, huffman=chance.random() < 0.5)
        if chance.random() < 0.15:
            block = damage(chance, block)
        made.append(chance.randbytes(chance.randint(0, 12)) if chance.random() < 0.03 else block)
    # A block that is empty has no word of its own.
    return [block for block in made if block]


def compare_blocks(driver: Driver, chance: random.Random, seen: Counter[str]) -> str | None:
    """One connection's blocks."""
    sent = blocks(chance)
    we = driver.ask(sent)
    decoder = hpack.Decoder(max_header_list_size=1 << 20)
    for place, block in enumerate(sent):
        if place >= len(we):
            return None
        ours = we[place]
        try:
            they = [[bytes(name).hex(), bytes(value).hex()] for name, value in decoder.decode(block, raw=True)]
        except hpack.HPACKError as error:
            seen["both refuse"] += 1
            return (
                None if isinstance(ours, str) else f"only we decode {block.hex()}; hpack says {error!r}: {we}, {sent}"
            )
        if isinstance(ours, str):
            seen[ours] += 1
            return None if ours in STRICTER_BLOCKS else f"only hpack decodes {block.hex()}; we say {ours}: {sent}"
        seen["decoded"] += 1
        if ours != they:
            return f"{block.hex()}: {ours} here, {they} there: {sent}"
    return None


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def head(chance: random.Random, encoder: hpack.Encoder) -> bytes:
    """A block of a request that is mostly well formed."""
    fields = [
        (":method", chance.choice(["GET", "POST", "POST", "POST", "PUT", "OPTIONS"])),
        (":scheme", chance.choice(["http", "https"])),
        (":path", chance.choice(["/", "/", "/a?b=c", "/c", "/%20"])),
        (":authority", "a"),
    ]
    good = [("accept", "*/*"), ("cookie", "a=b"), ("cookie", "c=d"), ("te", "trailers"), ("x-a", "b c"), ("host", "a")]
    good += [("x", "a\tb"), ("x-empty", ""), ("priority", "u=1"), ("x-b", "\xff"), ("content-type", "text/plain")]
    bad = [("te", "gzip"), ("X-Upper", "a"), ("connection", "close"), ("upgrade", "h2c"), ("host", "c"), (":path", "/")]
    bad += [("x", " a"), ("x", "a\nb"), ("", "a"), ("x y", "a"), ("transfer-encoding", "chunked"), (":status", "200")]
    bad += [("content-length", str(chance.randrange(4))), ("x", "a\0"), ("keep-alive", "5"), (":new", "a")]
    fields += chance.sample(good, chance.choice([0, 0, 1, 1, 2, 3]))
    if chance.random() < 0.1:
        fields.append(chance.choice(bad))
    if chance.random() < 0.05:
        place = chance.randrange(4)
        fields[place] = (fields[place][0], chance.choice(["", "CONNECT", "*", "ftp", "a b", "/a b", "a:80", "u@a"]))
    if chance.random() < 0.05:
        fields.pop(chance.randrange(len(fields)))
    if chance.random() < 0.05:
        chance.shuffle(fields)
    encoded: bytes = encoder.encode(fields, huffman=chance.random() < 0.5)
    return encoded


def frames(chance: random.Random) -> list[bytes]:
    """The frames of one connection behind its greeting; those of one block are one part."""
    encoder = hpack.Encoder()
    made, last = [], -1
    for _ in range(chance.randint(1, 10)):
        known = max(1, last - 2 * chance.choice([0, 0, 0, 1, 2]))
        kind = chance.randrange(16)
        if kind < 6 or last < 0:
            last += 2 if chance.random() < 0.97 else 4
            block, end = head(chance, encoder), chance.randrange(2)
            if chance.random() < 0.3:
                cut = chance.randrange(len(block) + 1)
                part = frame(1, end, last, block[:cut]) + frame(9, 4, last, block[cut:])
            else:
                part = frame(1, 4 | end, last, block)
        elif kind < 11:
            content = bytes(chance.randrange(256) for _ in range(chance.randrange(6)))
            flags = chance.choice([0, 1])
            if chance.random() < 0.3:
                flags, content = flags | 8, b"\2" + content + b"\0\0"
            part = frame(0, flags, known, content)
        elif kind == 11:
            part = frame(1, 4 | chance.randrange(2), known, encoder.encode([("x-trailer", "a")]))
        elif kind == 12:
            part = frame(3, 0, known, chance.randrange(14).to_bytes(4, "big"))
        elif kind == 13:
            increment = chance.choice([0, 1, 1000, 2**31 - 1, 2**31 - 65536])
            part = frame(8, 0, chance.choice([0, known]), increment.to_bytes(4, "big"))
        elif kind == 14:
            name, value = chance.choice(
                [(4, 0), (4, 100), (4, 2**31), (5, 16384), (5, 100), (2, 0), (2, 2), (3, 5), (99, 1)]
            )
            part = frame(4, 0, 0, name.to_bytes(2, "big") + value.to_bytes(4, "big"))
        else:
            part = chance.choice(
                [frame(6, 0, 0, b"12345678"), frame(2, 0, known, b"\0\0\0\0\1"), frame(99, 1, 5, b"x")]
            )
        if chance.random() < 0.03 and int.from_bytes(part[:3], "big") == len(part) - 9:
            # Its length stays right: a frame that is cut elsewhere is what the driver's own target looks at.
            body = damage(chance, part[3:]).ljust(6, b"\0")
            part = (len(body) - 6).to_bytes(3, "big") + body
        made.append(part)
    return made


#: What one part means: a request with its fields, content, an end, a reset by the peer.
Meaning = list[tuple[object, ...]]


class Server:
    """h2 as a server that answers at once, as the driver does."""

    def __init__(self) -> None:
        config = h2.config.H2Configuration(client_side=False, header_encoding=None)
        self.connection = h2.connection.H2Connection(config)
        self.connection.local_settings = h2.settings.Settings(
            client=False, initial_values={h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL: 1}
        )
        self.connection.initiate_connection()
        self.connection.receive_data(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(4, 1, 0, b""))

    def hear(self, part: bytes) -> Meaning:
        """One part, or what h2 raises."""
        meaning: Meaning = []
        for event in self.connection.receive_data(part):
            if isinstance(event, h2.events.RequestReceived):
                meaning.append(("request", event.stream_id, *_as_ours(event.headers or [])))
                if event.stream_ended is not None:
                    self.answer(event.stream_id)
            elif isinstance(event, h2.events.DataReceived) and event.data:
                meaning.append(("data", event.stream_id, event.data.hex()))
            elif isinstance(event, h2.events.StreamEnded) and ("request", event.stream_id) not in [
                one[:2] for one in meaning
            ]:
                meaning.append(("end", event.stream_id))
                self.answer(event.stream_id)
            elif isinstance(event, h2.events.StreamReset) and not event.remote_reset:
                raise StreamError(event.error_code)
            elif isinstance(event, h2.events.StreamReset):
                meaning.append(("reset", event.stream_id))
        return meaning

    def answer(self, stream: int | None) -> None:
        assert stream is not None
        try:
            self.connection.send_headers(stream, [(":status", "200")])
            part = b"0123456789"[: max(0, self.connection.local_flow_control_window(stream))]
            if part:
                self.connection.send_data(stream, part, end_stream=len(part) == 10)
        except h2.exceptions.ProtocolError:
            pass  # It was reset meanwhile.


def _as_ours(headers: list[tuple[bytes, bytes]]) -> tuple[str, list[str]]:
    """A request line, and fields in an order of their own."""
    pseudo = {bytes(name): bytes(value) for name, value in headers if name[:1] == b":"}
    fields = [(bytes(name), bytes(value)) for name, value in headers if name[:1] != b":" and name != b"host"]
    host = pseudo.get(b":authority") or dict(headers).get(b"host", b"")
    cookies = [value for name, value in fields if name == b"cookie" and value]
    fields = [(b"host", host), *((name, value) for name, value in fields if name != b"cookie" and b"_" not in name)]
    if cookies:
        fields.append((b"cookie", b"; ".join(cookies)))
    line = pseudo.get(b":method", b"") + b" " + pseudo.get(b":path", b"") + b" HTTP/2.0"
    return line.hex(), sorted(f"{name.hex()}={value.hex()}" for name, value in fields)


def ours(told: list[str]) -> tuple[Meaning, str | None]:
    """What the driver told of a part, and our reason, if we refuse something."""
    meaning: Meaning = []
    for text in told:
        word, *rest = text.split(" ")
        if word == "request":
            meaning.append((word, int(rest[0]), rest[1], sorted(rest[2:])))
        elif word == "data":
            meaning.append((word, int(rest[0]), rest[1]))
        elif word in ("end", "reset"):
            meaning.append((word, int(rest[0])))
        elif word in ("refused", "error", "fault"):
            return meaning, rest[-1]
    return meaning, None


def compare_frames(driver: Driver, chance: random.Random, seen: Counter[str]) -> str | None:
    """One connection's frames, until one side refuses one."""
    sent = frames(chance)
    told = driver.ask(sent)
    server = Server()
    for place, part in enumerate(sent):
        mine, reason = ours(told[place])
        where = f"part {place} of {[one.hex() for one in sent]}: {told[place]}"
        try:
            they = server.hear(part)
        except (h2.exceptions.H2Error, StreamError) as error:
            name = type(error).__name__
            if name == "ProtocolError" and str(error) in LOOSER:
                name = str(error)
            elif "surrounded by whitespace" in str(error) and str(error).endswith("; '"):
                name = "an empty cookie"
            seen["both refuse" if reason else f"h2 alone: {name}"] += 1
            # Of frames that mean nothing here h2 knows some, and how they have to look.
            known = part[3] < 10 or part[3] == 16
            return None if reason or name in LOOSER or not known else f"only we take {where}; h2 says {error!r}"
        if reason is not None:
            seen[f"we alone: {reason}"] += 1
            return None if reason in STRICTER else f"only h2 takes {where}: {they}"
        if mine != they:
            return f"{mine} here, {they} there: {where}"
        seen["same"] += 1
    return None


def main() -> int:
    """Compare for a while, report."""
    options = parsed(__doc__)
    seed = int(time.time()) if options.seed is None else options.seed
    found = 0
    for verb, compare in (("blocks", compare_blocks), ("frames", compare_frames)):
        seen: Counter[str] = Counter()
        end = time.monotonic() + options.seconds / 2
        with Driver(options.driver, verb) as driver:
            count = 0
            while time.monotonic() < end and found < 5:
                what = compare(driver, random.Random(f"{verb} {seed} {count}"), seen)
                count += 1
                if what is not None:
                    found += 1
                    print(f"disagreement (seed {seed}, {verb} {count - 1}): {what}", file=sys.stderr)
        print(f"against_h2: {count} connections of {verb}, seed {seed}: {dict(seen.most_common())}")
        if not seen["decoded"] + seen["same"]:
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
