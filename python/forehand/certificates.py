"""Certificates and keys for HTTPS: read from their files, judged, and handed to those who serve.

Knows: which files belong together, and the form in which the engine takes them (server/tls/material.rs). Does not know:
TLS. In the process that may read keys: the supervisor, before any worker has given up rights; a worker has what it was
handed, in memory, and never opens a file of a key.
"""

from __future__ import annotations

import os

from forehand import _core, errors
from forehand.errors import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Part = tuple[str, str, bytes]

#: A name, 16 bytes, and a key, 32 (server/tls/tickets.rs).
TICKET_KEY = 48
#: The name of a part that has one of `tls_ticket_keys`.
KEY_OF_FILE = "ticket-key-file"
#: No certificate or key is longer; a list of revoked ones may be.
LONGEST = 64 << 20


def speaks_https(addresses: list[str]) -> bool:
    """Whether one of them does."""
    return any(address.startswith("https://") for address in addresses)


def packed(parts: list[Part]) -> bytes:
    """Name, label and bytes of each part, in the engine's form."""
    return b"".join(b"%s %d %s\n%s\n" % (name.encode(), len(data), _line(label), data) for name, label, data in parts)


def _line(label: str) -> bytes:
    return label.replace("\n", " ").encode(errors="backslashreplace")


def read(plan: dict[str, Any], made: list[Part] = ()) -> list[Part]:  # type: ignore[assignment]
    """What a plan names, as parts of what is handed over. `made`: the certificate that vouches for itself, where it was
    made before. Raises Problem: a file cannot be read."""
    tls = plan["tls"]
    parts: list[Part] = [("minimum", "tls_min", tls["minimum"].encode())]
    for chain, key in tls["pairs"]:
        # One file may have both.
        parts += [("chain", chain, contents(chain)), ("key", key or chain, contents(key or chain))]
    if tls["strict_sni"]:
        parts.append(("strict-sni", "tls_strict_sni", b"on"))
    if tls["client_ca"]:
        parts.append(("client-verify", "tls_client_verify", tls["client_verify"].encode()))
    parts += [("client-ca", path, contents(path)) for path in tls["client_ca"]]
    parts += [("client-crl", path, contents(path)) for path in tls["client_crl"]]
    parts += [(KEY_OF_FILE, path, contents(path)) for path in tls["ticket_keys"]]
    return [*parts, *made]


def for_tickets(tls: dict[str, Any], made: list[bytes]) -> list[Part]:
    """What makes and opens tickets. `made`: the keys where no file has any, the first for new tickets."""
    lifetime = int(tls["ticket_lifetime"])
    if not lifetime:
        return []
    keys: list[Part] = [] if tls["ticket_keys"] else [("ticket-key", "tickets", key) for key in made]
    return [*keys, ("ticket-lifetime", "tickets", str(lifetime).encode())]


def paths(tls: dict[str, Any]) -> list[str]:
    """All files that are read."""
    named = [path for pair in (*tls["pairs"], tls["client_ca"], tls["client_crl"], tls["ticket_keys"]) for path in pair]
    return list(dict.fromkeys(path for path in named if path))


def contents(path: str) -> bytes:
    """A file. Raises Problem."""
    try:
        with open(path, "rb") as file:
            data = file.read(LONGEST + 1)
    except OSError as error:
        forbidden = isinstance(error, PermissionError)
        status = errors.PERMISSION if forbidden else errors.CONFIG
        whose = "certificates and keys are read by the process that is started, before it becomes --user"
        raise Problem(status, f"{path} cannot be read: {error.strerror}", hint=whose if forbidden else "") from None
    if len(data) > LONGEST:
        raise Problem(errors.CONFIG, f"{path} is longer than any certificate or list of them")
    return data


def judged(parts: list[Part]) -> tuple[bytes, list[str], tuple[int, int]]:
    """What the engine takes, what people should know of it, and when the first certificate expires (in seconds since
    1970) and for how long it was good in all. Raises Problem: it cannot be used."""
    data = packed(parts)
    try:
        warnings, *validity = _core.check_tls(data)
    except ValueError as error:
        raise Problem(errors.CONFIG, str(error)) from None
    return data, warnings, (validity[0], validity[1])


def self_signed(addresses: list[str]) -> tuple[list[Part], str]:
    """A certificate for this machine's names and the addresses' hosts, and its fingerprint."""
    import binascii

    from forehand.listen import split

    hosts = [split(address)[0] for address in addresses if address.startswith("https://") and "unix:" not in address]
    names = dict.fromkeys(["localhost", os.uname().nodename, "127.0.0.1", "::1", *hosts])
    certificate, key, fingerprint = _core.self_signed([name for name in names if name not in ("0.0.0.0", "::")])
    pem = {
        word: b"-----BEGIN %b-----\n%b-----END %b-----\n" % (word, binascii.b2a_base64(der), word)
        for word, der in ((b"CERTIFICATE", certificate), (b"PRIVATE KEY", key))
    }
    label = "--tls-self-signed"
    return [("chain", label, pem[b"CERTIFICATE"]), ("key", label, pem[b"PRIVATE KEY"])], fingerprint


def ticket_key() -> bytes:
    """A new key for session tickets."""
    return os.urandom(TICKET_KEY)


def for_one_process(plan: dict[str, Any]) -> None:
    """Without a supervisor: read what the plan names, once, for the engine of this process. Raises Problem."""
    if plan["tls"] is None or "tls" in plan["engine"]:
        return
    made: list[Part] = []
    if plan["tls"]["self_signed"]:
        made, plan["tls_fingerprint"] = self_signed(plan["addresses"])
    data, warnings, _ = judged([*read(plan, made), *for_tickets(plan["tls"], [ticket_key()])])
    warn(warnings)
    plan["engine"]["tls"] = data


def warn(warnings: list[str]) -> None:
    """Say what was found."""
    from forehand.supervisor import log

    for warning in warnings:
        log.write("warning", warning)
