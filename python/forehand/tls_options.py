"""The options of HTTPS: certificates, keys, versions, clients' certificates.

Knows: names, defaults and reasons, and what a server's process has to know of them. Does not know: files (that is
`certificates.py`). Part of the one table of `forehand.settings`.
"""

from __future__ import annotations

import os

from forehand.certificates import speaks_https

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

GROUP = "Address"


def options(Option: Any) -> Iterator[Any]:
    """All of them, made with the table's class."""
    yield from _own(Option)
    yield from _clients(Option)


def _own(Option: Any) -> Iterator[Any]:
    yield Option(
        "tls_cert", "list", [], GROUP,
        "certificate and those of its issuers, in PEM; may be repeated, and clients get the one with the name that "
        "they ask for, or else the first. With it addresses speak HTTPS that do not say what else",
        metavar="FILE", aliases=("--certfile", "--ssl-certfile", "--ssl-certificate"),
        brief="serve HTTPS with this and --tls-key; repeatable",
    )  # fmt: skip
    yield Option(
        "tls_key", "list", [], GROUP,
        "private key of the certificate at the same place in tls_cert: PKCS#8, PKCS#1 or SEC1, in PEM, without a "
        "password; none: it is in the certificate's file",
        metavar="FILE", aliases=("--keyfile", "--ssl-keyfile"),
    )  # fmt: skip
    yield Option(
        "tls_self_signed", "bool", False, GROUP,
        "for development: make a certificate for localhost and this machine's name; its fingerprint is told at the "
        "start",
    )  # fmt: skip
    yield Option(
        "tls_strict_sni", "bool", False, GROUP,
        "refuse handshakes of clients that ask for a name without a certificate, or for none (unrecognized_name), in "
        "place of showing them the first",
    )  # fmt: skip
    yield Option("tls_min", "choice", "1.2", GROUP, "the least version of TLS that is spoken", choices=("1.2", "1.3"))
    yield Option(
        "tls_ticket_lifetime", "time", 6 * 3600, GROUP,
        "how long clients can come again without a full handshake, by tickets that every worker can open, also after "
        "a reload; as often the keys of tickets change. 0: none are given out",
    )  # fmt: skip
    yield Option(
        "tls_ticket_keys", "list", [], GROUP,
        "keys of tickets for several hosts that serve the same names, of 48 or 80 random bytes each, as in nginx; the "
        "first makes tickets, each opens its own; may be repeated. None: the supervisor makes keys",
        metavar="FILE",
    )  # fmt: skip


def _clients(Option: Any) -> Iterator[Any]:
    yield Option(
        "tls_client_ca", "list", [], GROUP,
        "authorities, in PEM, whose certificates clients have to show; what is known of a client's is in environ and "
        "in ASGI's extension tls; may be repeated",
        metavar="FILE",
    )  # fmt: skip
    yield Option(
        "tls_client_verify", "choice", "required", GROUP,
        "whether clients that show no certificate are served: optional lets them in, and the application decides",
        choices=("required", "optional"),
    )  # fmt: skip
    yield Option(
        "tls_client_crl", "list", [], GROUP,
        "lists of clients' certificates that were revoked, in PEM, one for each authority that has issued some; may be "
        "repeated",
        metavar="FILE",
    )  # fmt: skip


def plan(settings: Mapping[str, Any], addresses: list[str]) -> dict[str, Any] | None:
    """What is to be known for HTTPS; None: no address speaks it."""
    if not speaks_https(addresses):
        return None
    keys = [*settings["tls_key"], *[""] * len(settings["tls_cert"])]
    pairs = zip(settings["tls_cert"], keys, strict=False)
    return {
        # Relative to the folder that is gone to first: a reload reads them from elsewhere.
        "pairs": [[os.path.abspath(cert), key and os.path.abspath(key)] for cert, key in pairs],
        "self_signed": settings["tls_self_signed"],
        "strict_sni": settings["tls_strict_sni"],
        "minimum": settings["tls_min"],
        "client_ca": [os.path.abspath(path) for path in settings["tls_client_ca"]],
        "client_crl": [os.path.abspath(path) for path in settings["tls_client_crl"]],
        "client_verify": settings["tls_client_verify"],
        "ticket_lifetime": settings["tls_ticket_lifetime"],
        "ticket_keys": [os.path.abspath(path) for path in settings["tls_ticket_keys"]],
    }


def contradiction(settings: Any) -> str:
    """The first thing that cannot be meant, in a sentence; empty: all is well."""
    if speaks_https(settings.addresses()) and not settings["tls_cert"] and not settings["tls_self_signed"]:
        return (
            "an address in bind speaks HTTPS, and there is no certificate: name one with tls_cert and its key with "
            "tls_key, or have one made for development with tls_self_signed"
        )
    if settings["tls_cert"] and settings["tls_self_signed"]:
        return "tls_self_signed makes a certificate, and tls_cert names one: leave one of them out"
    if settings["tls_ticket_keys"] and not settings["tls_ticket_lifetime"]:
        return "tls_ticket_keys names keys of tickets, and tls_ticket_lifetime says that none are given out"
    if settings["tls_key"] and not settings["tls_cert"]:
        return "tls_key names a key, and there is no certificate for it: name that with tls_cert"
    if len(settings["tls_key"]) > len(settings["tls_cert"]):
        return "there are more keys in tls_key than certificates in tls_cert: each is for the certificate at its place"
    return ""
