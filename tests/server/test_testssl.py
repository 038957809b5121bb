"""What testssl.sh finds at an address that speaks HTTPS: it tries what is known of broken servers, with own records."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import Serving
from tlsfiles import Authority

Serve = Callable[..., Serving]
#: As Debian's package calls it, and as its makers do.
TESTSSL = shutil.which("testssl") or shutil.which("testssl.sh")
#: Versions, kinds of suites, forward secrecy, preferences, what a handshake tells, and all vulnerabilities with a name.
CHECKS = ("-p", "-s", "-f", "-P", "-S", "-U")
PATIENCE = 900
GOOD = ("OK", "INFO")
#: What it does not call good, and why it is so (docs/tls.md).
EXPLAINED = {
    "engine_problem": "about the openssl that it runs with",
    "cipher_order": "clients choose, among suites of which each is strong",
    # Of the tests' own certificate.
    "cert_revocation": "an authority says where its lists are",
    "cert_expirationStatus": "it is good for ten days",
    "cert_notAfter": "it is good for ten days",
    "cert_serialNumberLen": "authorities of tests count from a thousand",
}
#: What it could not find out, and why: tests of our own do (test_tls.py).
GAVE_UP = {
    "sessionresumption_ticket": "its openssl says nothing and leaves, on a busy machine before the ticket comes",
}
COULD_NOT = "check failed because of connect problem"
#: Some that have to be among what was looked for, and how what was found of them begins: else nothing was looked for.
LOOKED_FOR = {
    "SSLv3": "not offered", "TLS1": "not offered", "TLS1_1": "not offered", "TLS1_2": "offered",
    "TLS1_3": "offered with final", "ALPN_HTTP2": "h2", "cipherlist_3DES_IDEA": "not offered", "PFS": "offered",
    "cert_trust": "Ok via SAN", "cert_chain_of_trust": "passed", "heartbleed": "not vulnerable",
    "CCS": "not vulnerable", "ticketbleed": "not vulnerable", "ROBOT": "not vulnerable",
    "secure_client_renego": "not vulnerable", "CRIME_TLS": "not vulnerable", "LUCKY13": "not vulnerable",
}  # fmt: skip


@pytest.mark.skipif(TESTSSL is None, reason="no testssl.sh here")
def test_testssl_finds_nothing_that_is_not_explained(serve: Serve, authority: Authority, tmp_path: Path) -> None:
    pairs: list[str] = []
    for kind in ("ec", "rsa"):
        cert, key = authority.issue(f"looked-at-{kind}", "localhost", kind=kind)
        pairs += ["--tls-cert", cert, "--tls-key", key]
    served = serve("secured:application", "--bind", "https://127.0.0.1:0", *pairs)
    told = tmp_path / "told.json"
    options = ("--warnings", "batch", "--color", "0", "--quiet", "--nodns", "none", "--ip", "127.0.0.1")
    command = [str(TESTSSL), *options, "--add-ca", str(authority.file), "--jsonfile", str(told), *CHECKS]
    done = subprocess.run(
        [*command, f"https://localhost:{served.port}"],
        cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    # Behind a name stands which certificate it is about.
    found = [(row["id"].split()[0], row["severity"], row["finding"]) for row in json.loads(told.read_text())]
    found = [row for row in found if not (row[0] in GAVE_UP and row[2] == COULD_NOT)]
    assert [row for row in found if row[1] not in GOOD and row[0] not in EXPLAINED] == [], done.stdout
    for name, wanted in LOOKED_FOR.items():
        told_of = [text for known, _, text in found if known == name]
        assert told_of and all(text.startswith(wanted) for text in told_of), f"{name}: {told_of}"
    assert served.counters()["handshakes_failed"] > 0, "it has tried what is refused"
