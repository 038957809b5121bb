"""The machine beside h11: where both read a request, they must read the same one.

Knows: what `drive transcripts` writes, h11's events, and where we are meant to differ. Does not know: how inputs are
made (the driver does). Framing is what matters: two readers that disagree on where a message ends are how requests are
smuggled (RFC 9112 §11.2).

Exit status: 0 no disagreement, 1 a disagreement, 2 the driver is missing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h11
from options import parsed

#: Our reasons for refusing what h11 takes, and why we do.
STRICTER = {
    "bare-lf": "h11 takes LF for CR LF in lines (RFC 9112 §2.2 allows it)",
    "chunk-size": "h11 takes LF and blanks behind a chunk size, and up to 20 digits",
    "chunk-extension": "h11 does not look at extensions",
    "chunk-extensions-too-large": "h11 has no such limit",
    "trailer": "h11 takes names in trailers that would frame or route (RFC 9110 §6.5.1), and LF",
    "trailers-too-large": "h11 has no such limit",
    "too-many-trailers": "h11 has no such limit",
    "obs-fold": "h11 joins folded lines (RFC 9112 §5.2 allows it)",
    "transfer-encoding": "the same, where the first line has no coding",
    "field-value": "h11 takes control characters other than NUL, CR and LF (RFC 9110 §5.5 allows it)",
    "target": "h11 does not look at the form of a target",
    "method-not-allowed": "CONNECT and TRACE are the application's business in h11",
    "not-http-1": "h11 reads any version",
    "prior-knowledge": "h11 reads the beginning of HTTP/2 (RFC 9113 §3.4) as a request of the method PRI",
    "no-host": "h11 asks for Host only where the version is exactly 1.1",
    "two-hosts": "h11 asks for one Host only where the version is exactly 1.1",
    "bad-host": "h11 does not look at the value of Host",
    "two-content-types": "h11 leaves it to the application",
    "two-lengths": "h11 takes equal ones for one (RFC 9112 §6.3 allows it)",
    "length": "h11 takes blanks of any kind around a length",
    "length-and-chunked": "h11 follows Transfer-Encoding (RFC 9112 §6.1 allows it, and asks to close)",
    "chunked-in-1.0": "h11 reads chunked in HTTP/1.0",
    "unknown-expect": "h11 ignores what it does not know",
    "body-too-large": "h11 has no such limit",
    "too-many-headers": "h11 has no such limit",
    "headers-too-large": "h11 has one limit for the whole head",
    "request-line-too-long": "h11 has one limit for the whole head",
}

#: What h11 says when it refuses something that we take, and why we do.
LOOSER = {
    "no request line received": "up to two empty lines may stand before a request line (RFC 9112 §2.2)",
    "illegal request line": "an empty line before a request line, again, where the rest has not come",
    "bad Content-Length": "leading zeros are digits (RFC 9110 §8.6); h11 counts at most 20 of them",
    "illegal chunk header": "a size of leading zeros",
}


@dataclass
class Message:
    """One request as one side read it."""

    method: bytes
    target: bytes
    is_11: bool
    fields: list[tuple[bytes, bytes]]
    body: bytes = b""
    complete: bool = False
    persistent: bool = True


@dataclass
class Reading:
    """All of an input as one side read it. `fault` is its reason for refusing the rest."""

    messages: list[Message] = field(default_factory=list)
    fault: str | None = None


def ours(told: dict[str, Any]) -> Reading:
    """What the driver told."""
    messages = [
        Message(
            method=bytes.fromhex(one["method"]),
            target=bytes.fromhex(one["target"]),
            is_11=one["is_11"],
            fields=[_as_h11(bytes.fromhex(name), bytes.fromhex(value)) for name, value in one["fields"]],
            body=bytes.fromhex(one["body"]),
            complete=one["complete"],
            persistent=one["persistent"],
        )
        for one in told["messages"]
    ]
    return Reading(messages, told["fault"])


def _as_h11(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    """A field as h11 shows it: names in lower case, and codings too."""
    name = name.lower()
    return name, value.lower() if name == b"transfer-encoding" else value


def theirs(sent: bytes) -> Reading:
    """What h11 reads, answering each request so that it reads the next."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    reading = Reading()
    connection.receive_data(sent)
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                # Names with an underscore never leave our machine.
                fields = [(bytes(name), bytes(value)) for name, value in event.headers if b"_" not in name]
                version = bytes(event.http_version)
                reading.messages.append(Message(bytes(event.method), bytes(event.target), version >= b"1.1", fields))
            elif isinstance(event, h11.Data):
                reading.messages[-1].body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                reading.messages[-1].complete = True
                connection.send(h11.Response(status_code=404, headers=[("content-length", "0")]))
                connection.send(h11.EndOfMessage())
                if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                    reading.messages[-1].persistent = False
                    return reading
                connection.start_next_cycle()
            else:
                return reading
    except h11.RemoteProtocolError as error:
        reading.fault = str(error)
    return reading


def disagreement(we: Reading, they: Reading) -> str | None:
    """What one side reads and the other does not, unless we are meant to differ there."""
    for place in range(max(len(we.messages), len(they.messages))):
        if place >= len(we.messages):
            return None if we.fault in STRICTER else f"only h11 reads message {place}; we say {we.fault}"
        if place >= len(they.messages):
            known = they.fault is not None and any(known in they.fault for known in LOOSER)
            return None if known else f"only we read message {place}; h11 says {they.fault}"
        mine, other = we.messages[place], they.messages[place]
        for name in ("method", "target", "is_11", "fields"):
            if getattr(mine, name) != getattr(other, name):
                return f"message {place}: {name}: {getattr(mine, name)!r} here, {getattr(other, name)!r} there"
        if mine.complete and other.complete:
            if mine.body != other.body:
                return f"message {place}: bodies differ: {mine.body!r} here, {other.body!r} there"
            if not (mine.persistent and other.persistent):
                return None
            continue
        return _unfinished(mine, other, we, they, place)
    return None


def _unfinished(mine: Message, other: Message, we: Reading, they: Reading, place: int) -> str | None:
    """A body that one side, or both, did not read to its end: the last message of the comparison."""
    if mine.complete and they.fault is None:
        return f"message {place}: only we see its end"
    if mine.complete:
        known = any(known in (they.fault or "") for known in LOOSER)
        return None if known else f"message {place}: only we see its end; h11 says {they.fault}"
    if other.complete:
        return None if we.fault in STRICTER else f"message {place}: only h11 sees its end; we say {we.fault}"
    if we.fault is None and they.fault is None and mine.body != other.body:
        return f"message {place}: unfinished bodies differ: {mine.body!r} here, {other.body!r} there"
    return None


def transcripts(driver: Path, seconds: int, seed: int | None) -> Iterator[tuple[bytes, Reading]]:
    """Inputs with our readings of them, as fast as they are asked for."""
    command = [str(driver), "transcripts", "--seconds", str(seconds)]
    command += [] if seed is None else ["--seed", str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            told = json.loads(line)
            yield bytes.fromhex(told["sent"]), ours(told)
    if process.returncode != 0:
        raise SystemExit(f"{command} ended with {process.returncode}")


def main() -> int:
    """Compare for a while, report."""
    options = parsed(__doc__)
    compared = agreed = 0
    stricter: Counter[str] = Counter()
    found = 0
    for sent, we in transcripts(options.driver, options.seconds, options.seed):
        they = theirs(sent)
        compared += 1
        agreed += bool(we.messages and they.messages and we.messages[0].complete)
        if we.fault is not None and they.fault is None:
            stricter[we.fault] += 1
        what = disagreement(we, they)
        if what is not None:
            found += 1
            print(f"disagreement: {what}\n  sent: {sent!r}\n  ours: {we}\n  h11: {they}", file=sys.stderr)
            if found == 5:
                return 1
    print(f"against_h11: {compared} inputs, {agreed} with a request that both read, {found} disagreements")
    print("  we alone refused: " + ", ".join(f"{reason} {count}" for reason, count in stricter.most_common()))
    return 1 if found or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
