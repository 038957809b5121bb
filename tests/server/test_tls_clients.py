"""Clients' certificates: who has to show one, what the application is told, and what one opens for nobody else."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from drivers import driving
from serving import Serving, read_reply
from tlsfiles import Authority, openssl

Serve = Callable[..., Serving]

HTTPS = ("--bind", "https://127.0.0.1:0")
DRIVEN = driving("secured", unbuffered=False)
SUBJECT = "/C=DE/O=Tests, Inc./OU=One/CN=Alice/emailAddress=alice@a.example"


@pytest.fixture(scope="module")
def own(authority: Authority) -> tuple[str, ...]:
    cert, key = authority.issue("server", "localhost", "other.example")
    return ("--tls-cert", cert, "--tls-key", key, "--tls-client-ca", str(authority.file))


@pytest.fixture(scope="module")
def alice(authority: Authority) -> tuple[str, str]:
    return authority.issue("alice", subject=SUBJECT, usage="clientAuth")


def context(authority: Authority, pair: tuple[str, str] | None = None, version: Any = None) -> ssl.SSLContext:
    made = authority.client()
    if pair:
        made.load_cert_chain(*pair)
    if version:
        made.maximum_version = version
    return made


def ask(served: Serving, client: ssl.SSLContext, host: str = "localhost", **more: Any) -> tuple[int, dict[str, Any]]:
    """The status, and what the application tells; none where it was not asked."""
    with client.wrap_socket(served.connect(), server_hostname="localhost", **more) as sock:
        sock.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        status, _, body = read_reply(sock, bytearray())
        return status, json.loads(body) if status == 200 else {}


def refused(served: Serving, client: ssl.SSLContext) -> None:
    # In TLS 1.3 a client is done before it hears what the server thinks of it.
    with pytest.raises((ssl.SSLError, ConnectionError, IndexError, AssertionError)):
        ask(served, client)


VERSIONS = [pytest.param(ssl.TLSVersion.TLSv1_2, id="1.2"), pytest.param(ssl.TLSVersion.TLSv1_3, id="1.3")]


@pytest.mark.parametrize("driver", DRIVEN)
def test_an_application_is_told_who_the_client_is(
    serve: Serve, authority: Authority, own: tuple[str, ...], alice: tuple[str, str], driver: tuple[str, ...]
) -> None:
    target, *options = driver
    served = serve(target, *options, *HTTPS, *own)
    status, told = ask(served, context(authority, alice))
    assert status == 200
    if "tls" in told:
        tls = told["tls"]
        assert tls["client_cert_name"] == "emailAddress=alice@a.example,CN=Alice,OU=One,O=Tests\\, Inc.,C=DE"
        assert tls["client_cert_chain"][0] == Path(alice[0]).read_text()
        assert tls["server_cert"] == Path(own[1]).read_text()
        assert (tls["client_cert_error"], tls["tls_version"], tls["cipher_suite"]) == (None, 0x0304, 0x1302)
        return
    serial = openssl("x509", "-in", alice[0], "-noout", "-serial").strip().partition("=")[2]
    dates = openssl("x509", "-in", alice[0], "-noout", "-dates").splitlines()
    # Of ten days a second may be over.
    assert told.pop("SSL_CLIENT_V_REMAIN") in ("9", "10")
    assert told == {
        "scheme": "https", "HTTPS": "on", "SERVER_PORT": str(served.port),
        "SSL_PROTOCOL": "TLSv1.3", "SSL_CIPHER": "TLS_AES_256_GCM_SHA384", "SSL_TLS_SNI": "localhost",
        "SSL_SESSION_RESUMED": "Initial", "SSL_CLIENT_VERIFY": "SUCCESS",
        "SSL_CLIENT_S_DN": "emailAddress=alice@a.example,CN=Alice,OU=One,O=Tests\\, Inc.,C=DE",
        "SSL_CLIENT_S_DN_C": "DE", "SSL_CLIENT_S_DN_O": "Tests, Inc.", "SSL_CLIENT_S_DN_OU": "One",
        "SSL_CLIENT_S_DN_CN": "Alice", "SSL_CLIENT_S_DN_Email": "alice@a.example",
        "SSL_CLIENT_I_DN": "CN=authority,O=Tests", "SSL_CLIENT_I_DN_O": "Tests", "SSL_CLIENT_I_DN_CN": "authority",
        "SSL_CLIENT_M_SERIAL": serial, "SSL_CLIENT_V_START": dates[0].partition("=")[2],
        "SSL_CLIENT_V_END": dates[1].partition("=")[2], "SSL_CLIENT_CERT": Path(alice[0]).read_text(),
        # OpenSSL sends the issuers that it knows along.
        "SSL_CLIENT_M_VERSION": "3",
        "SSL_CLIENT_CERT_CHAIN_0": authority.file.read_text(),
    }  # fmt: skip


def test_every_name_of_a_client_and_its_issuers_are_told(
    serve: Serve, authority: Authority, own: tuple[str, ...], tmp_path: Path
) -> None:
    names = ("one.example", "alice@a.example", "two.example", "192.0.2.1", "a@b.example")
    cert, key = authority.issue("named", *names, subject="/CN=named", usage="clientAuth")
    chain = tmp_path / "chain.pem"
    chain.write_text(Path(cert).read_text() + authority.file.read_text())
    told = ask(serve("secured:application", *HTTPS, *own), context(authority, (str(chain), key)))[1]
    assert {name: value for name, value in told.items() if "_SAN_" in name or "_CHAIN_" in name} == {
        "SSL_CLIENT_SAN_DNS_0": "one.example", "SSL_CLIENT_SAN_DNS_1": "two.example",
        "SSL_CLIENT_SAN_Email_0": "alice@a.example", "SSL_CLIENT_SAN_Email_1": "a@b.example",
        "SSL_CLIENT_CERT_CHAIN_0": authority.file.read_text(),
    }  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_who_shows_none_or_one_that_is_not_believed_is_refused(
    serve: Serve, authority: Authority, own: tuple[str, ...], alice: tuple[str, str], tmp_path: Path, version: Any
) -> None:
    strangers = Authority(tmp_path, "strangers")
    served = serve("secured:application", *HTTPS, *own)
    refused(served, context(authority, None, version))
    refused(served, context(authority, strangers.issue("mallory", subject="/CN=Alice", usage="clientAuth"), version))
    refused(served, context(authority, authority.issue("late", subject="/CN=x", usage="clientAuth", days=-1), version))
    refused(served, context(authority, authority.issue("wrong", subject="/CN=x", usage="serverAuth"), version))
    assert served.counters()["requests_total"] == 0
    assert ask(served, context(authority, alice, version))[0] == 200
    served.counts("handshakes_failed", 4)


@pytest.mark.parametrize("version", VERSIONS)
def test_where_it_is_optional_the_application_decides(
    serve: Serve, authority: Authority, own: tuple[str, ...], alice: tuple[str, str], tmp_path: Path, version: Any
) -> None:
    served = serve("secured:application", *HTTPS, *own, "--tls-client-verify", "optional")
    status, told = ask(served, context(authority, None, version))
    assert (status, told["SSL_CLIENT_VERIFY"]) == (200, "NONE") and "SSL_CLIENT_S_DN" not in told
    assert ask(served, context(authority, alice, version))[1]["SSL_CLIENT_S_DN_CN"] == "Alice"
    # One that is shown has to be believed all the same.
    strangers = Authority(tmp_path, "strangers")
    refused(served, context(authority, strangers.issue("mallory", subject="/CN=Alice", usage="clientAuth"), version))


def test_one_that_was_revoked_is_refused_and_the_list_changes_without_a_restart(
    serve: Serve, authority: Authority, own: tuple[str, ...], alice: tuple[str, str], tmp_path: Path
) -> None:
    bob = authority.issue("bob", subject="/CN=Bob", usage="clientAuth")
    database, config, crl, number = (tmp_path / name for name in ("index.txt", "ca.cnf", "crl.pem", "number"))
    database.touch()
    number.write_text("01\n")
    config.write_text(
        f"[ca]\ndefault_ca=x\n[x]\ndatabase={database}\ncrlnumber={number}\ndefault_md=sha256\ndefault_crl_days=5\n"
        "crl_extensions=e\n[e]\nauthorityKeyIdentifier=keyid:always\n"
    )
    ca = ("ca", "-config", config, "-keyfile", authority.key, "-cert", authority.file)
    openssl(*ca, "-gencrl", "-out", crl)
    served = serve("secured:application", *HTTPS, *own, "--tls-client-crl", str(crl))
    assert ask(served, context(authority, bob))[0] == 200
    openssl(*ca, "-revoke", bob[0])
    openssl(*ca, "-gencrl", "-out", crl)
    assert served.order("tls", "reload")[0] == 0

    def is_revoked() -> bool:
        try:
            return ask(served, context(authority, bob))[0] != 200
        except (ssl.SSLError, ConnectionError):
            return True

    served.until(is_revoked)
    assert ask(served, context(authority, alice))[0] == 200


def test_another_host_than_that_of_the_handshake_is_misdirected(
    serve: Serve, authority: Authority, own: tuple[str, ...], alice: tuple[str, str]
) -> None:
    served = serve("secured:application", *HTTPS, *own)
    for host, status in (
        ("localhost", 200), ("LOCALHOST", 200), ("localhost:8443", 200), ("other.example", 421),
        ("localhost.example", 421), ("127.0.0.1", 421),
    ):  # fmt: skip
        assert ask(served, context(authority, alice), host)[0] == status, host
    # Without clients' certificates a connection may serve several hosts, as browsers want.
    served = serve("secured:application", *HTTPS, *own[:4])
    assert ask(served, authority.client(), "other.example")[0] == 200


@pytest.mark.parametrize("version", VERSIONS)
def test_a_ticket_opens_nothing_where_certificates_are_required(
    serve: Serve, authority: Authority, own: tuple[str, ...], alice: tuple[str, str], version: Any
) -> None:
    client = context(authority, alice, version)
    served = serve("secured:application", *HTTPS, *own)
    with client.wrap_socket(served.connect(), server_hostname="localhost") as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert read_reply(sock, bytearray())[0] == 200
        assert not (sock.session and sock.session.has_ticket), "none was given out"


@pytest.mark.parametrize("version", VERSIONS)
def test_who_comes_again_is_known_again_where_it_is_optional(
    serve: Serve, authority: Authority, own: tuple[str, ...], alice: tuple[str, str], version: Any
) -> None:
    served = serve("secured:application", *HTTPS, *own, "--tls-client-verify", "optional")
    client = context(authority, alice, version)
    with client.wrap_socket(served.connect(), server_hostname="localhost") as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        first = json.loads(read_reply(sock, bytearray())[2])
        session = sock.session
    told = ask(served, client, session=session)[1]
    assert (first["SSL_SESSION_RESUMED"], told["SSL_SESSION_RESUMED"]) == ("Initial", "Resumed")
    assert told["SSL_CLIENT_S_DN_CN"] == "Alice"


def test_a_client_cannot_say_who_it_is_by_headers(serve: Serve, authority: Authority, own: tuple[str, ...]) -> None:
    served = serve("secured:application", *HTTPS, *own, "--tls-client-verify", "optional")
    with authority.client().wrap_socket(served.connect(), server_hostname="localhost") as sock:
        sock.sendall(
            b"GET / HTTP/1.1\r\nHost: localhost\r\nSSL-Client-Verify: SUCCESS\r\nSsl-Client-S-Dn: CN=Alice\r\n\r\n"
        )
        told = json.loads(read_reply(sock, bytearray())[2])
    assert told["SSL_CLIENT_VERIFY"] == "NONE" and "SSL_CLIENT_S_DN" not in told


def test_a_list_without_an_authority_is_refused_at_the_start(authority: Authority, own: tuple[str, ...]) -> None:
    from test_tls_certificates import refused as said

    for wanted in ("optional", "required"):
        assert "tls_client_ca" in said(*HTTPS, *own[:4], "--tls-client-verify", wanted)
    assert "tls_client_ca" in said(*HTTPS, *own[:4], "--tls-client-crl", str(authority.file))
    assert "no certificate in it" in said(*HTTPS, *own[:4], "--tls-client-ca", own[3])
