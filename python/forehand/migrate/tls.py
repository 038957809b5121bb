"""What other servers' commands say of TLS, read together: a certificate, its key, clients' certificates.

Knows: what such options mean in Python's ssl, which most servers hand them to. Does not know: how a server calls them;
its own table notes each under one of `ROLES`.
"""

from __future__ import annotations

from forehand.migrate.outcome import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forehand.migrate.outcome import Rule

#: In the order in which they are spoken of.
ROLES = ("certificate", "key", "password", "authorities", "verify", "revoked", "ciphers", "version", "minimum", "plain")

#: `ssl.VerifyMode` by number and by name, and switches: what a client that shows no certificate gets.
NOT_ASKED, OPTIONAL, REQUIRED = "", "optional", "required"
VERIFY = {
    "0": NOT_ASKED, "cert_none": NOT_ASKED, "false": NOT_ASKED, "1": OPTIONAL, "cert_optional": OPTIONAL,
    "2": REQUIRED, "cert_required": REQUIRED, "true": REQUIRED,
}  # fmt: skip
#: `ssl._SSLMethod` of versions that are not spoken here, by number and by name.
OLD = ("1", "3", "4", "sslv3", "tlsv1", "tlsv1_1")

PASSWORD = "a key with a password is not read: `openssl pkey -in KEY -out PLAIN` takes it off; let only root read PLAIN"
CIPHERS = "suites cannot be chosen: they are those of TLS 1.3, and of 1.2 those with ECDHE and AES-GCM or ChaCha20"
VERSIONS = "TLS 1.2 and 1.3 are spoken; with tls_min = 1.3 the latter alone"
WITHOUT = "it has no effect without a certificate"
NOT_ASKED_FOR = "clients are not asked for a certificate; tls_client_ca asks them"


def note(role: str) -> Rule:
    """A rule: it is about TLS, and `translate` reads it with the others."""

    def rule(outcome: Outcome, origin: str, value: Any) -> None:
        if value not in (None, ""):
            outcome.tls.setdefault(role, []).append((origin, value))

    return rule


def translate(outcome: Outcome, *, minimum: str = "") -> None:
    """What becomes of all that was noted. `minimum`: the least version where the server is not told which."""
    noted = outcome.tls
    if not noted.get("certificate"):
        for role in ROLES:
            for origin, value in noted.get(role, []):
                if role == "key":
                    outcome.unsupported(origin, value, "a key without a certificate is not used: name it in tls_cert")
                else:
                    outcome.not_needed(origin, value, WITHOUT)
        return
    for role, name in (("certificate", "tls_cert"), ("key", "tls_key")):
        for origin, value in noted.get(role, []):
            outcome.put(name, str(value), origin)
    for origin, _ in noted.get("password", []):
        outcome.unsupported(origin, "...", PASSWORD)
    for origin, value in noted.get("ciphers", []):
        outcome.unsupported(origin, value, CIPHERS)
    for origin, value in noted.get("version", []):
        told = outcome.unsupported if _word(value) in OLD else outcome.not_needed
        told(origin, value, VERSIONS)
    for origin, value in noted.get("minimum", []) or [("", minimum)] * bool(minimum):
        outcome.put("tls_min", _word(value).removeprefix("tls"), origin or "the server's own default")
    _clients(outcome)
    _addresses(outcome)


def _clients(outcome: Outcome) -> None:
    verify, how = NOT_ASKED, []
    for origin, value in outcome.tls.get("verify", []):
        if _word(value) not in VERIFY:
            outcome.unsupported(
                origin, value, "this value is not known here; tls_client_verify is required or optional"
            )
            continue
        verify = VERIFY[_word(value)]
        how.append((origin, value))
    authorities = outcome.tls.get("authorities", [])
    if verify and not authorities:
        for origin, value in how:
            outcome.unsupported(origin, value, "name the authorities whose certificates are believed in tls_client_ca")
        return
    for name, given in (("tls_client_ca", authorities), ("tls_client_crl", outcome.tls.get("revoked", []))):
        for origin, value in given:
            if verify:
                for one in value if isinstance(value, list | tuple) else [str(value)]:
                    outcome.put(name, str(one), origin)
            else:
                outcome.not_needed(origin, value, NOT_ASKED_FOR)
    for origin, value in how:
        if verify:
            outcome.put("tls_client_verify", verify, origin)
        else:
            outcome.not_needed(origin, value, NOT_ASKED_FOR)


def _addresses(outcome: Outcome) -> None:
    """Those with a port speak HTTPS where there is a certificate; others have to say so. Some are to stay without."""
    bound = outcome.settings.get("bind", [])
    outcome.settings["bind"] = [f"https://{one}" if one.startswith(("unix:", "fd://")) else one for one in bound]
    if not bound:
        del outcome.settings["bind"]
    for origin, value in outcome.tls.get("plain", []):
        for one in value if isinstance(value, list | tuple) else [value]:
            outcome.put("bind", [f"http://{one}"], origin)


def _word(value: Any) -> str:
    """A value as it stands in a table; of a number that has a name, the number."""
    number = isinstance(value, int) and not isinstance(value, bool)
    return str(int(value) if number else value).strip().lower()
