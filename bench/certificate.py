"""A certificate for benches over TLS: made anew each time, by openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path


def make(folder: Path) -> None:
    """`cert.pem` and `key.pem` of localhost, ECDSA on P-256, signed by itself, good for two days."""
    made = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", *made],
        check=True, capture_output=True,
    )  # fmt: skip
