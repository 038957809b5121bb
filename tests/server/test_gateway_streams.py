"""Both ways at once by a web server's own protocol: a part of a body is answered before the next one is sent."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Callable

import pytest
from drivers import DRIVERS
from gatewayrequests import (
    END,
    GET_VALUES,
    GET_VALUES_RESULT,
    STDIN,
    STDOUT,
    WRITERS,
    packed,
    parsed,
    place,
    read_record,
    record,
    variables,
)
from serving import PATIENCE, Serving

Serve = Callable[..., Serving]

STREAMING = {
    "asyncio": ("conversing:app", *DRIVERS["asyncio"][1:]),
    "threads": ("conversing:application", *DRIVERS["threads without buffering"][1:]),
}
if "gevent" in DRIVERS:
    STREAMING["gevent"] = ("conversing:application", *DRIVERS["gevent"][1:], "--no-request-buffering")
#: Lines of a body, in the pieces that are sent of them; what follows waits for the answers to what came before.
PARTS = [
    [b"one\n"],
    [b"tw", b"o\n"],
    [b"\n"],
    [b"three\nfour\n\nfive\n"],
    [b"x" * 32_000, b"y" * 32_000, b"z" * 32_000, b"\n"],
    *([b"%d\n" % number] for number in range(50)),
    [b"the last one\n"],
]
LENGTH = sum(len(piece) for part in PARTS for piece in part)


class Conversation:
    """One connection, on which requests and their replies go at the same time."""

    def __init__(self, sock: socket.socket, protocol: str) -> None:
        self.sock, self.in_records, self.held = sock, protocol == "fastcgi", b""

    def say(self, piece: bytes) -> None:
        """A piece of the body."""
        self.sock.sendall(record(STDIN, 1, piece, 3) if self.in_records else piece)

    def until(self, end: bytes) -> bytes:
        """What comes of the reply up to that."""
        while end not in self.held:
            if self.in_records:
                kind, _, part = read_record(self.sock)
                assert kind == STDOUT, (kind, part)
            else:
                part = self.sock.recv(65536)
            assert part, f"it ended behind {self.held!r}"
            self.held += part
        found, _, self.held = self.held.partition(end)
        return found

    def converse(self) -> None:
        """All parts of the body, and their answers."""
        for number, part in enumerate(PARTS):
            for piece in part:
                self.say(piece)
            if number == 0:
                assert parsed(self.until(b"\r\n\r\n") + b"\r\n\r\n")[0] == 200
            for line in b"".join(part).split(b"\n")[:-1]:
                assert self.until(b"\n") == b"%d %s" % (len(line), hashlib.sha256(line).hexdigest().encode())
            if part is not PARTS[-1]:
                assert self.held == b"", "it knows what nobody has said"


@pytest.mark.parametrize("protocol", sorted(WRITERS))
@pytest.mark.parametrize("driver", STREAMING.values(), ids=STREAMING)
def test_each_part_of_a_body_is_answered_before_the_next_one_is_sent(
    serve: Serve, driver: tuple[str, ...], protocol: str
) -> None:
    target, *more = driver
    served = serve(target, *more, f"--bind={protocol}://127.0.0.1:0")
    with socket.create_connection(place(served), PATIENCE) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        talk = Conversation(sock, protocol)
        if protocol == "fastcgi":
            return on_a_kept_connection(talk)
        sock.sendall(WRITERS[protocol](variables("POST", "/", more={"CONTENT_LENGTH": str(LENGTH)})))
        talk.converse()
        assert talk.until(b"the end") == b""
        assert (talk.held, sock.recv(1)) == (b"", b""), "that was all"
    return None


def on_a_kept_connection(talk: Conversation) -> None:
    """One request after the other, whether its length is told or not."""
    asks_for_values = record(GET_VALUES, 0, packed({"FCGI_MPXS_CONNS": ""}))
    for length in (str(LENGTH), "", str(LENGTH)):
        begun = WRITERS["fastcgi"](variables("POST", "/", more={"CONTENT_LENGTH": length}), keep=True)
        end = record(STDIN, 1)
        talk.sock.sendall(begun.removesuffix(end))
        talk.converse()
        # What is about the connection is answered behind it, whoever has its body.
        talk.sock.sendall(asks_for_values + end)
        assert talk.until(b"the end") == b""
        found = [read_record(talk.sock) for _ in range(3)]
        assert (GET_VALUES_RESULT, 0, packed({"FCGI_MPXS_CONNS": "0"})) in found
        assert [one for one in found if one[0] != GET_VALUES_RESULT] == [(STDOUT, 1, b""), (END, 1, bytes(8))]
