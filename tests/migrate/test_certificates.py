"""Other servers' words for TLS: the same certificates are shown, and the same clients are let in."""

from __future__ import annotations

from pathlib import Path

import pytest
from forehand.migrate import recognised
from forehand.migrate.outcome import NOT_NEEDED, UNSUPPORTED, Outcome
from test_pages import loads

PAIR = {"tls_cert": ["c.pem"], "tls_key": ["k.pem"]}
ASKS = {**PAIR, "tls_client_ca": ["ca.pem"], "tls_client_verify": "optional"}


def told(line: str, folder: str = ".") -> tuple[dict[str, object], Outcome]:
    """The settings that have to do with it, and all."""
    outcome = recognised(line, folder, {})
    return {name: value for name, value in outcome.settings.items() if name.startswith("tls_")}, outcome


@pytest.mark.parametrize(
    ("line", "settings"),
    [
        ("gunicorn --certfile c.pem --keyfile k.pem a:b", PAIR),
        ("gunicorn --certfile c.pem --keyfile k.pem --ca-certs ca.pem --cert-reqs 1 a:b", ASKS),
        ("gunicorn --certfile c.pem --keyfile k.pem --ca-certs ca.pem --cert-reqs 2 a:b",
         {**ASKS, "tls_client_verify": "required"}),
        ("gunicorn --certfile c.pem --keyfile k.pem --ca-certs ca.pem a:b", PAIR),
        ("uvicorn --ssl-certfile c.pem --ssl-keyfile k.pem --ssl-ca-certs ca.pem --ssl-cert-reqs 1 a:b", ASKS),
        ("hypercorn --certfile c.pem --keyfile k.pem --ca-certs ca.pem --verify-mode CERT_OPTIONAL a:b", ASKS),
        ("granian --interface asgi --ssl-certificate c.pem --ssl-keyfile k.pem a:b", {**PAIR, "tls_min": "1.3"}),
        ("granian --interface asgi --ssl-certificate c.pem --ssl-keyfile k.pem --ssl-protocol-min tls1.2 "
         "--ssl-ca ca.pem --ssl-crl crl.pem --ssl-client-verify a:b",
         {**ASKS, "tls_min": "1.2", "tls_client_crl": ["crl.pem"], "tls_client_verify": "required"}),
        ("uvicorn --ssl-keyfile k.pem a:b", {}),
    ],
)  # fmt: skip
def test_certificates_and_who_has_to_show_one_are_taken_over(line: str, settings: dict[str, object]) -> None:
    assert told(line)[0] == settings


def test_what_cannot_be_said_here_is_told_of() -> None:
    _, outcome = told(
        "uvicorn --ssl-certfile c --ssl-keyfile k --ssl-keyfile-password hunter2 --ssl-ciphers x --ssl-version 3 "
        "--ssl-cert-reqs 2 a:b"
    )
    for option in ("--ssl-keyfile-password", "--ssl-ciphers", "--ssl-version", "--ssl-cert-reqs"):
        assert [remark.kind for remark in outcome.about(option)] == [UNSUPPORTED], option
    assert "openssl pkey" in outcome.about("--ssl-keyfile-password")[0].reason
    assert "hunter2" not in str(outcome.remarks)
    assert "tls_client_ca" in outcome.about("--ssl-cert-reqs")[0].reason
    for line, option, kind in (
        ("uvicorn --ssl-keyfile k a:b", "--ssl-keyfile", UNSUPPORTED),
        ("uvicorn --ssl-ciphers x a:b", "--ssl-ciphers", NOT_NEEDED),
        ("uvicorn --ssl-certfile c --ssl-version 17 a:b", "--ssl-version", NOT_NEEDED),
        ("uvicorn --ssl-certfile c --ssl-ca-certs ca a:b", "--ssl-ca-certs", NOT_NEEDED),
        ("uvicorn --ssl-certfile c --ssl-cert-reqs x a:b", "--ssl-cert-reqs", UNSUPPORTED),
    ):
        assert [remark.kind for remark in told(line)[1].about(option)] == [kind], line


def test_addresses_speak_it_that_did_and_no_others(tmp_path: Path) -> None:
    pair = "--certfile c.pem --keyfile k.pem"
    for line, bound in (
        (f"gunicorn {pair} -b :443 -b unix:/run/x a:b", [":443", "https://unix:/run/x"]),
        ("uvicorn --ssl-certfile c --uds /run/x a:b", ["https://unix:/run/x"]),
        ("uvicorn --ssl-certfile c --fd 3 a:b", ["https://fd://3"]),
        (f"hypercorn {pair} -b :443 --insecure-bind :80 a:b", [":443", "http://:80"]),
        ("hypercorn -b :443 --insecure-bind :80 a:b", [":443"]),
    ):
        assert told(line)[1].settings["bind"] == bound, line
    (tmp_path / "hypercorn.toml").write_text(
        'bind = [":443"]\ninsecure_bind = [":80", ":81"]\ncertfile = "c.pem"\nkeyfile = "k.pem"\n'
        'ca_certs = "ca.pem"\nverify_mode = "CERT_OPTIONAL"\n'
    )
    settings, outcome = told("hypercorn -c hypercorn.toml a:b", str(tmp_path))
    assert (settings, outcome.settings["bind"]) == (ASKS, [":443", "http://:80", "http://:81"])


def test_a_file_of_gunicorns_may_have_the_values_of_pythons_ssl(tmp_path: Path) -> None:
    (tmp_path / "gunicorn.conf.py").write_text(
        "import ssl\ncertfile, keyfile = 'c.pem', 'k.pem'\nca_certs = 'ca.pem'\ncert_reqs = ssl.CERT_OPTIONAL\n"
        "def ssl_context(config, default):\n    return default()\n"
    )
    settings, outcome = told("gunicorn.conf.py", str(tmp_path))
    assert settings == ASKS
    assert [remark.kind for remark in outcome.about("ssl_context")] == [UNSUPPORTED]


def test_a_page_with_them_loads(tmp_path: Path) -> None:
    from forehand.migrate import page

    line = "gunicorn --certfile $CERTS/c.pem --keyfile k.pem -b :443 a:b"
    text = page(line, str(tmp_path), {})
    assert '--tls-cert "$CERTS/c.pem" --tls-key k.pem' in text, "both in one place"
    assert "tls_key" not in loads(text, tmp_path)
