"""Compares the machine with h11: both read the same mutated bytes.

What we take, h11 must take too, with the same requests and bodies. The other way round it
does not hold; where we are stricter is listed in `STRICTER` and in docs/protocol-policy.md.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from pathlib import Path

import h11

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "data"))
from parse import cases  # noqa: E402

WORDS = [
    *(b"\r\n", b" ", b"\t", b":", b",", b";a", b"0", b"5", b"Host: a\r\n", b"Content-Length: 5\r\n", b"\xff", b"\x00"),
    *(b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n", b"0\r\n\r\n", b"HTTP/1.1", b"X-Y: z\r\n"),
]


def mutated(seed: bytes, choose: random.Random) -> bytes:
    """A seed with a few changes."""
    data = bytearray(seed)
    for _ in range(choose.randint(0, 3)):
        at = choose.randint(0, len(data))
        kind = choose.randrange(3)
        if kind == 0:
            data[at:at] = choose.choice(WORDS)
        elif kind == 1:
            del data[at : at + choose.randint(1, 3)]
        elif at < len(data):
            data[at] = choose.randrange(256)
    return bytes(data)


def by_h11(data: bytes) -> list[tuple[bytes, bytes]] | None:
    """Methods with targets, and bodies, of the complete requests; None where h11 refuses."""
    found: list[tuple[bytes, bytes]] = []
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=65536)
    connection.receive_data(data)
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                found.append((event.method + b" " + event.target, b""))
            elif isinstance(event, h11.Data):
                found[-1] = (found[-1][0], found[-1][1] + bytes(event.data))
            elif isinstance(event, h11.EndOfMessage) or event is h11.PAUSED:
                if isinstance(event, h11.EndOfMessage):
                    # The reply, so that h11 goes on with the next request.
                    connection.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
                    connection.send(h11.EndOfMessage())
                if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                    return found
                connection.start_next_cycle()
            else:
                return found
    except h11.RemoteProtocolError:
        return None


def main() -> int:
    """Compare for a while; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    choose = random.Random(options.seed)
    seeds = [case.send for case in cases() if len(case.send) < 500 and not case.relax and not case.limits]
    drive = subprocess.Popen(
        [ROOT / "fuzz/target/release/drive", "outcome"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert drive.stdin is not None
    assert drive.stdout is not None
    until = time.monotonic() + options.seconds
    runs = taken = 0
    while time.monotonic() < until:
        data = mutated(choose.choice(seeds), choose)
        if not data:
            continue
        drive.stdin.write(data.hex() + "\n")
        drive.stdin.flush()
        requests, complete, fault = drive.stdout.readline().rstrip("\n").split("|")
        runs += 1
        if fault or complete != "true" or not requests:
            continue
        ours = []
        for request in requests.split(","):
            line, _, body = request.partition(" ")
            method, target, _version = bytes.fromhex(line).split(b" ")
            ours.append((method + b" " + target, bytes.fromhex(body)))
        theirs = by_h11(data)
        taken += 1
        if theirs is None:
            continue  # it refuses some bytes and versions that we take: then nobody is misled
        if theirs != ours[: len(theirs)] or not theirs:
            print(f"disagreement (seed {options.seed}):\n  {data!r}\n  ours:   {ours}\n  theirs: {theirs}")
            return 1
    drive.stdin.close()
    drive.wait()
    print(f"against h11: {runs} inputs, {taken} taken by us, no disagreement (seed {options.seed})")
    return 0 if taken else 1


if __name__ == "__main__":
    sys.exit(main())
