"""A real browser that shows a certificate: it has an authority and a certificate as users have them (NSS), and a word
of its administrator (AutoSelectCertificateForUrls) in place of somebody who picks one."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import Serving
from tlsfiles import Authority, openssl

Serve = Callable[..., Serving]
CHROMIUM = shutil.which("chromium")
#: Debian's chromium reads the administrator's word here.
POLICIES = Path("/etc/chromium")
#: Several processes start on a busy machine.
PATIENCE = 120
#: The browser sees another folder there, and nobody else does.
BEHIND = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'

pytestmark = [
    pytest.mark.skipif(not CHROMIUM or not POLICIES.is_dir(), reason="no chromium here"),
    pytest.mark.skipif(not shutil.which("certutil"), reason="no certutil here (libnss3-tools)"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can lay a folder over another"),
]


class Browser:
    """One with a home of its own."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        self.folder = folder
        self.database = f"sql:{folder}/.pki/nssdb"
        (folder / ".pki/nssdb").mkdir(parents=True)
        self._certutil("-N", "--empty-password")
        self._certutil("-A", "-n", "authority", "-t", "C,,", "-i", str(authority.file))

    def _certutil(self, *words: str) -> None:
        subprocess.run(["certutil", "-d", self.database, *words], check=True, capture_output=True, timeout=PATIENCE)

    def takes(self, cert: str, key: str) -> None:
        """From now on it has this certificate."""
        bundle = self.folder / "own.p12"
        openssl("pkcs12", "-export", "-in", cert, "-inkey", key, "-name", "own", "-passout", "pass:", "-out", bundle)
        command = ["pk12util", "-d", self.database, "-i", str(bundle), "-W", ""]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)

    def page(self, url: str) -> str:
        """What it shows."""
        policies = self.folder / "etc"
        (policies / "policies/managed").mkdir(parents=True, exist_ok=True)
        word = {"AutoSelectCertificateForUrls": [json.dumps({"pattern": url.rstrip("/"), "filter": {}})]}
        (policies / "policies/managed/tests.json").write_text(json.dumps(word))
        own = [f"--user-data-dir={self.folder}/profile", "--headless=new", "--no-sandbox", "--disable-gpu"]
        command = ["unshare", "--mount", "sh", "-c", BEHIND, "sh", str(policies), str(POLICIES)]
        done = subprocess.run(
            [*command, str(CHROMIUM), *own, "--dump-dom", url],
            env={**os.environ, "HOME": str(self.folder)}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=PATIENCE, check=False,
        )  # fmt: skip
        return html.unescape(re.sub(r"<[^>]*>", "", done.stdout)) or done.stderr


def test_a_browser_shows_a_certificate_and_the_application_knows_whose(
    serve: Serve, authority: Authority, pair: tuple[str, ...], tmp_path: Path
) -> None:
    alice = authority.issue("alice-browses", subject="/CN=Alice", usage="clientAuth")
    served = serve(
        "secured:application", *pair, "--bind", "https://127.0.0.1:0", "--tls-client-ca", str(authority.file)
    )
    browser = Browser(tmp_path, authority)
    assert "Page load failed" in browser.page(f"https://localhost:{served.port}/")
    served.says("peer sent no certificates")
    browser.takes(*alice)
    told = json.loads(browser.page(f"https://localhost:{served.port}/"))
    assert (told["SSL_CLIENT_VERIFY"], told["SSL_CLIENT_S_DN_CN"]) == ("SUCCESS", "Alice")
    assert (told["SSL_TLS_SNI"], told["SSL_PROTOCOL"]) == ("localhost", "TLSv1.3")
