"""The key exchange that holds against a quantum computer, too (X25519MLKEM768), as browsers offer it first.

Libraries of clients here need not know it, so that a client's first message is written by hand.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

import pytest
from serving import Serving

Serve = Callable[..., Serving]

X25519, P256, HYBRID = 0x001D, 0x0017, 0x11EC
#: A key of ML-KEM-768 whose numbers are all zero is one, and so is X25519's base point.
SHARES = {HYBRID: bytes(1184) + b"\x09" + bytes(31), X25519: b"\x09" + bytes(31)}
#: What the server answers with: a ciphertext in front of its own X25519 key.
ANSWERS = {HYBRID: 1088 + 32, X25519: 32}
KEY_SHARE = 51


def sized(data: bytes, bytes_of_length: int = 2) -> bytes:
    """Bytes behind their length."""
    return len(data).to_bytes(bytes_of_length, "big") + data


def number(value: int) -> bytes:
    return value.to_bytes(2, "big")


def hello(*groups: int) -> bytes:
    """A client of TLS 1.3 that has brought a key of each group (RFC 8446 §4.1.2)."""
    extensions = {
        43: sized(number(0x0304), 1),
        10: sized(b"".join(number(group) for group in groups)),
        13: sized(number(0x0403) + number(0x0804)),
        KEY_SHARE: sized(b"".join(number(group) + sized(SHARES[group]) for group in groups)),
    }
    said = b"".join(number(kind) + sized(value) for kind, value in extensions.items())
    body = number(0x0303) + os.urandom(32) + sized(os.urandom(32), 1) + sized(number(0x1301)) + b"\x01\x00"
    return b"\x16\x03\x01" + sized(b"\x01" + sized(body + sized(said), 3))


def key_of(answer: bytes) -> tuple[int, bytes]:
    """The group of the server's first message, and its key."""
    assert answer[0] == 0x16 and answer[5] == 2, answer[:10]
    at = 5 + 4 + 2 + 32
    at += 1 + answer[at] + 2 + 1
    end = at + 2 + int.from_bytes(answer[at : at + 2], "big")
    at += 2
    while at < end:
        kind, length = (int.from_bytes(answer[at + part : at + part + 2], "big") for part in (0, 2))
        if kind == KEY_SHARE:
            return int.from_bytes(answer[at + 4 : at + 6], "big"), answer[at + 8 : at + 4 + length]
        at += 4 + length
    raise AssertionError("it has sent no key")


def answered(sock: socket.socket) -> bytes:
    """The first record."""
    said = b""
    while len(said) < 5 or len(said) < 5 + int.from_bytes(said[3:5], "big"):
        part = sock.recv(65536)
        assert part, said
        said += part
    return said


@pytest.mark.parametrize(
    ("groups", "taken"), [((HYBRID, X25519), HYBRID), ((X25519, HYBRID), X25519), ((X25519,), X25519)]
)
def test_a_client_that_asks_for_the_hybrid_exchange_first_has_it(
    serve: Serve, pair: tuple[str, ...], groups: tuple[int, ...], taken: int
) -> None:
    served = serve("secured:application", *pair, "--bind", "https://127.0.0.1:0")
    with served.connect() as sock:
        sock.sendall(hello(*groups))
        group, key = key_of(answered(sock))
    assert (group, len(key)) == (taken, ANSWERS[taken])
