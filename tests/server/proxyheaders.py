"""PROXY headers, written by the specification (haproxy.org/download/3.0/doc/proxy-protocol.txt)."""

from __future__ import annotations

import ipaddress

#: Whom the headers of these tests name: addresses of documentation (RFC 5737, RFC 3849).
CLIENT, SERVER = ("192.0.2.7", 51234), ("198.51.100.3", 443)
CLIENT6, SERVER6 = ("2001:db8::7", 51234), ("2001:db8:1::3", 443)

Address = tuple[str, int]

UNKNOWN = b"PROXY UNKNOWN\r\n"


def v1(client: Address = CLIENT, server: Address = SERVER) -> bytes:
    """A line of version 1."""
    family = "TCP6" if ":" in client[0] else "TCP4"
    return f"PROXY {family} {client[0]} {server[0]} {client[1]} {server[1]}\r\n".encode()


def fact(kind: int, value: bytes) -> bytes:
    """One TLV."""
    return bytes([kind]) + len(value).to_bytes(2, "big") + value


def tls(flags: int, verify: int, *facts: bytes) -> bytes:
    """PP2_TYPE_SSL."""
    return fact(0x20, bytes([flags]) + verify.to_bytes(4, "big") + b"".join(facts))


def v2(client: Address = CLIENT, server: Address = SERVER, *facts: bytes, local: bool = False) -> bytes:
    """A header of version 2."""
    packed = [ipaddress.ip_address(address).packed for address, _ in (client, server)]
    ports = [port.to_bytes(2, "big") for _, port in (client, server)]
    family = 0 if local else 0x21 if ":" in client[0] else 0x11
    body = b"".join(facts) if local else b"".join([*packed, *ports, *facts])
    first = bytes([0x20 if local else 0x21, family])
    return b"\r\n\r\n\0\r\nQUIT\n" + first + len(body).to_bytes(2, "big") + body
