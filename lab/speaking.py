"""How a server is spoken to: in the clear, within TLS, or with HTTP/2 by prior knowledge. Knows no server.

A certificate is made at each start of a server that needs one, by the load engine, and is believed for itself alone.
That of a server that runs already is judged once, as other clients do it, and is believed for itself from then on.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from forehand_lab import engine
from forehand_lab.problem import SYSTEM, Problem

# How a server is started: as `serves.scheme` of a contestant, and as a scenario's load wants it.
SCHEMES = {"http": "HTTP in the clear", "https": "HTTPS", "h2c": "HTTP/2 in the clear"}
VERSIONS = ("1.0", "1.1", "2")
# In place of a certificate: whatever is shown is believed.
ANYBODY = "anybody"
# RFC 9113 section 3.4: what a client begins HTTP/2 with, and settings of which there are none.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
FRAME_HEAD, SETTINGS = 9, 4
CERTIFICATE_SECONDS = 10.0


class At(NamedTuple):
    """Where a server is, and how it is spoken to."""

    host: str
    port: int
    scheme: str = "http"
    # In PEM, or ANYBODY, where the scheme is https.
    certificate: str = ""

    @property
    def door(self) -> tuple[str, int]:
        """Host and port."""
        return self.host, self.port

    def connected(self, seconds: float, protocols: Sequence[str] = ("http/1.1",)) -> socket.socket:
        """A connection, with TLS agreed on where the server has it; OSError where there is none."""
        sock = socket.create_connection(self.door, seconds)
        if self.scheme != "https":
            return sock
        try:
            return context(self.certificate, protocols).wrap_socket(sock, server_hostname=self.host)
        except OSError:
            sock.close()
            raise


def context(certificate: str, protocols: Sequence[str]) -> ssl.SSLContext:
    """TLS that believes this certificate and no other, whoever has issued it."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if certificate == ANYBODY:
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    else:
        made.load_verify_locations(cadata=certificate)
        made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    made.set_alpn_protocols(list(protocols))
    return made


def vouched_for(door: tuple[str, int], authorities: str, seconds: float) -> str:
    """The certificate of a server, in PEM, which one of these authorities (a file) has issued, or of those that this
    machine believes. Raises OSError where that is not so, or nobody answers."""
    believing = ssl.create_default_context(cafile=authorities or None)
    with socket.create_connection(door, seconds) as sock:
        with believing.wrap_socket(sock, server_hostname=door[0]) as secure:
            return ssl.DER_cert_to_PEM_cert(secure.getpeercert(binary_form=True) or b"")


def speaks_http2(at: At, seconds: float) -> bool:
    """Whether HTTP/2 is agreed on within TLS, or begun in the clear by who knows it beforehand."""
    with contextlib.suppress(OSError), at.connected(seconds, ("h2",)) as sock:
        if isinstance(sock, ssl.SSLSocket) and sock.selected_alpn_protocol() != "h2":
            return False
        sock.settimeout(seconds)
        sock.sendall(PREFACE)
        with sock.makefile("rb") as stream:
            head = stream.read(FRAME_HEAD)
        return len(head) == FRAME_HEAD and head[3] == SETTINGS
    return False


def wanted(load: Mapping[str, Any]) -> str:
    """The scheme that a scenario's load speaks. Pure."""
    if load.get("tls"):
        return "https"
    return "h2c" if load.get("http") == "2" else "http"


def said(load: Mapping[str, Any]) -> str:
    """What a load speaks, in words. Pure."""
    words = f"HTTP/{load.get('http', '1.1')}"
    words += " within TLS" if load.get("tls") else " in the clear"
    if load.get("streams", 1) > 1:
        words += f", {load['streams']} streams on each connection"
    if load.get("tls"):
        words += ", handshakes resumed with tickets" if load.get("resume") else ", every handshake a full one"
    return words


def certified(folder: Path, host: str) -> None:
    """Makes cert.pem and key.pem in a folder, for this machine's loopback and `host`. Raises Problem."""
    words = [engine.found(), "--certificate", str(folder), host]
    told = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=CERTIFICATE_SECONDS, check=False,
    )  # fmt: skip
    if told.returncode:
        why = (told.stderr.strip().splitlines() or [f"status {told.returncode}"])[-1]
        raise Problem(SYSTEM, f"no certificate could be made: {why}", "`make load` builds an engine that can")
