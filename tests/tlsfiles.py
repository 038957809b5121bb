"""Certificates for tests, made when they are needed with openssl: an authority, and what it has signed."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

KINDS = {
    "ec": ("EC", "-pkeyopt", "ec_paramgen_curve:P-256"),
    "rsa": ("RSA", "-pkeyopt", "rsa_keygen_bits:2048"),
}


def openssl(*words: str | Path, data: str | None = None) -> str:
    """What openssl answers."""
    command = ["openssl", *map(str, words)]
    done = subprocess.run(command, input=data, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def _kind(name: str) -> str:
    """What a certificate calls such a name."""
    if "@" in name:
        return "email"
    return "IP" if name.replace(".", "").isdigit() else "DNS"


class Authority:
    """An authority with a folder of its own, in which there are its certificate and those that it has signed."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder = folder
        self.key, self.file = folder / f"{name}.key", folder / f"{name}.pem"
        self.serial = 1000
        self._make_key(self.key, "ec")
        extensions = (
            "-addext",
            "basicConstraints=critical,CA:TRUE",
            "-addext",
            "keyUsage=critical,keyCertSign,cRLSign",
        )
        openssl("req", "-x509", "-new", "-key", self.key, "-subj", f"/O=Tests/CN={name}", "-days", "30",
                *extensions, "-out", self.file)  # fmt: skip

    def _make_key(self, path: Path, kind: str) -> None:
        openssl("genpkey", "-algorithm", *KINDS[kind], "-out", path)

    def issue(
        self, name: str, *hosts: str, kind: str = "ec", days: int = 10, subject: str = "", usage: str = "serverAuth"
    ) -> tuple[str, str]:
        """A certificate for these hosts and its key, as files with this name. Days below zero: it has expired."""
        key, request, made = (self.folder / f"{name}.{end}" for end in ("key", "csr", "pem"))
        self._make_key(key, kind)
        openssl("req", "-new", "-key", key, "-subj", subject or f"/CN={hosts[0] if hosts else name}", "-out", request)
        names = ",".join(f"{_kind(host)}:{host}" for host in hosts)
        text = f"extendedKeyUsage={usage}\n" + (f"subjectAltName={names}\n" if hosts else "")
        # As RFC 5280 asks, and Python from 3.13 on.
        text += "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\nbasicConstraints=CA:FALSE\n"
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(text)
        self.serial += 1
        openssl("x509", "-req", "-in", request, "-CA", self.file, "-CAkey", self.key, "-days", str(days),
                "-set_serial", str(self.serial), "-extfile", extensions, "-out", made)  # fmt: skip
        return str(made), str(key)

    def client(self, *, alpn: tuple[str, ...] = ("http/1.1",)) -> ssl.SSLContext:
        """A client that believes this authority."""
        context = ssl.create_default_context(cafile=str(self.file))
        context.set_alpn_protocols(list(alpn))
        return context
