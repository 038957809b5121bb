"""Certificates: which one a client is shown, what is wrong with one, and that they change while the server runs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import forehand
import pytest
import serving
from serving import PYTHON, Serving, read_reply
from tlsfiles import Authority, openssl

Serve = Callable[..., Serving]

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
HTTPS = ("--bind", "https://127.0.0.1:0")


def options(*pairs: tuple[str, str]) -> list[str]:
    return [word for cert, key in pairs for word in ("--tls-cert", cert, "--tls-key", key)]


def shown(served: Serving, authority: Authority, name: str | None, *, ciphers: str = "") -> str:
    """The serial number of the certificate that a client of this name is shown."""
    context = authority.client()
    context.check_hostname = False
    if ciphers:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(ciphers)
    with context.wrap_socket(served.connect(), server_hostname=name) as sock:
        found = sock.getpeercert()
        assert found is not None
        return str(found["serialNumber"])


def serial(cert: str) -> str:
    return openssl("x509", "-in", cert, "-noout", "-serial").strip().partition("=")[2]


def refused(*words: str) -> str:
    """What is said by a command that does not start."""
    command = [PYTHON, "-m", "forehand", "secured:application", *words]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[1] / "apps", capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode in (2, 3, 6), done
    return done.stderr


def test_clients_are_shown_the_certificate_of_the_name_that_they_ask_for(serve: Serve, authority: Authority) -> None:
    first = authority.issue("first", "one.example", "two.example")
    wild = authority.issue("wild", "*.wild.example")
    exact = authority.issue("exact", "exact.wild.example")
    served = serve("secured:application", *HTTPS, *options(first, wild, exact))
    for name, wanted in (
        ("one.example", first), ("TWO.example", first), ("a.wild.example", wild), ("exact.wild.example", exact),
        ("a.b.wild.example", first), ("wild.example", first), ("unknown.example", first), (None, first),
    ):  # fmt: skip
        assert shown(served, authority, name) == serial(wanted[0]), name


def test_two_kinds_of_keys_stand_side_by_side(serve: Serve, authority: Authority) -> None:
    rsa = authority.issue("rsa", "both.example", kind="rsa")
    ec = authority.issue("ec", "both.example")
    served = serve("secured:application", *HTTPS, *options(rsa, ec))
    for name in ("both.example", None):
        assert shown(served, authority, name) == serial(ec[0]), "what costs less comes first"
        assert shown(served, authority, name, ciphers="ECDHE-RSA-AES128-GCM-SHA256") == serial(rsa[0])
        assert shown(served, authority, name, ciphers="ECDHE-ECDSA-AES128-GCM-SHA256") == serial(ec[0])


def test_keys_in_all_their_forms_are_read(serve: Serve, authority: Authority, tmp_path: Path) -> None:
    ec, rsa = authority.issue("forms-ec", "a.example"), authority.issue("forms-rsa", "b.example", kind="rsa")
    sec1, pkcs1, both = tmp_path / "sec1.key", tmp_path / "pkcs1.key", tmp_path / "both.pem"
    openssl("ec", "-in", ec[1], "-out", sec1)
    openssl("rsa", "-in", rsa[1], "-traditional", "-out", pkcs1)
    assert "BEGIN EC PRIVATE KEY" in sec1.read_text() and "BEGIN RSA PRIVATE KEY" in pkcs1.read_text()
    both.write_text(Path(ec[0]).read_text() + Path(ec[1]).read_text())
    served = serve("secured:application", *HTTPS, *options((ec[0], str(sec1)), (rsa[0], str(pkcs1))))
    assert shown(served, authority, "a.example") == serial(ec[0])
    assert shown(served, authority, "b.example") == serial(rsa[0])
    served = serve("secured:application", *HTTPS, "--tls-cert", str(both))
    assert shown(served, authority, "a.example") == serial(ec[0]), "one file may have both"


def test_the_names_that_other_servers_give_the_options_are_understood(serve: Serve, authority: Authority) -> None:
    cert, key = authority.issue("aliases", "localhost")
    for words in (
        ("--certfile", cert, "--keyfile", key),
        ("--ssl-certfile", cert, "--ssl-keyfile", key),
        ("--ssl-certificate", cert, "--ssl-keyfile", key),
    ):
        # As there, an address speaks HTTPS then that does not say what else.
        served = serve("secured:application", "--bind", "127.0.0.1:0", *words)
        assert served.url.startswith("https://") and shown(served, authority, "localhost") == serial(cert)


def test_what_cannot_be_used_is_named_before_the_start(authority: Authority, tmp_path: Path) -> None:
    good, other = authority.issue("good", "localhost"), authority.issue("other", "localhost")
    empty, encrypted, chain = tmp_path / "empty.pem", tmp_path / "encrypted.key", tmp_path / "chain.pem"
    empty.write_text("nothing here\n")
    openssl("pkey", "-in", good[1], "-aes128", "-passout", "pass:secret", "-out", encrypted)
    chain.write_text(authority.file.read_text() + Path(good[0]).read_text())
    broken = tmp_path / "broken.pem"
    broken.write_text(Path(good[0]).read_text()[:-30])
    old = tmp_path / "old.pem"
    request = authority.folder / "good.csr"
    openssl("x509", "-req", "-in", request, "-signkey", good[1], "-days", "2", "-out", old)
    for words, said in (
        (options((str(old), good[1])), f"{old}: the certificate is of version 1"),
        (("--tls-cert", good[0]), f"{good[0]}: there is a certificate in it and no private key: name the file"),
        (options((good[1], good[0])), f"{good[1]}: there is no certificate in it: it has a private key"),
        (options((good[0], other[1])), f"{other[1]}: this private key does not belong to the certificate in {good[0]}"),
        (options((str(empty), good[1])), f"{empty}: there is no certificate in it"),
        (options((good[0], str(empty))), f"{empty}: there is no private key in it"),
        (options((good[0], str(encrypted))), f"openssl pkey -in {encrypted}"),
        (options((str(chain), good[1])), "has to come first"),
        (options((str(broken), good[1])), str(broken)),
        (options((str(tmp_path / "none.pem"), good[1])), f"{tmp_path / 'none.pem'} cannot be read: No such file"),
        ((), "there is no certificate"),
        ((*options(good), "--tls-self-signed"), "leave one of them out"),
        (("--tls-key", good[1], "--tls-self-signed"), "there is no certificate for it"),
    ):
        for workers in ("0", "1"):
            assert said in refused(*HTTPS, "--workers", workers, *words)
    assert "https://" in refused("--bind", "http://127.0.0.1:0", *options(good))


def test_one_that_has_expired_is_served_and_named(serve: Serve, authority: Authority) -> None:
    cert, key = authority.issue("expired", "localhost", days=-1)
    served = serve("secured:application", *HTTPS, *options((cert, key)))
    served.says(f"{cert}: the certificate has expired")
    said = json.loads(served.order("status", "--json")[1])["situation"]
    assert len(said) == 1 and said[0].startswith("the certificate has expired ("), said


def test_one_that_ends_soon_or_cannot_be_renewed_is_told_by_the_status(serve: Serve, authority: Authority) -> None:
    cert, key = authority.issue("soon", "localhost", days=90)
    served = serve("secured:application", *HTTPS, *options((cert, key)))

    def said() -> list[str]:
        found: list[str] = json.loads(served.order("status", "--json")[1])["situation"]
        return found

    assert said() == []
    good = Path(key).read_bytes()
    Path(key).write_text("no key\n")
    assert served.order("tls", "reload")[0] != 0
    assert [line.startswith("the certificates stay as they were: ") for line in said()] == [True], said()
    Path(key).write_bytes(good)
    assert served.order("tls", "reload")[0] == 0
    assert said() == []
    # Of ninety days; one of ten would be in the last quarter of its time after seven and a half.
    authority.issue("soon", "localhost", days=10)
    assert served.order("tls", "reload")[0] == 0 and said() == []


class Linked:
    """A certificate and its key behind links, as certbot and Kubernetes have them."""

    def __init__(self, folder: Path, pair: tuple[str, str]) -> None:
        self.folder = folder
        self.cert, self.key = folder / "tls.crt", folder / "tls.key"
        self.versions = 0
        self.swap(pair)
        self.cert.symlink_to("current/tls.crt")
        self.key.symlink_to("current/tls.key")

    def swap(self, pair: tuple[str, str]) -> None:
        """Others, in one moment."""
        self.versions += 1
        version = self.folder / f"version-{self.versions}"
        version.mkdir()
        shutil.copy(pair[0], version / "tls.crt")
        shutil.copy(pair[1], version / "tls.key")
        made = self.folder / "made"
        made.symlink_to(version.name)
        made.rename(self.folder / "current")


def test_certificates_change_at_a_signal_by_an_order_and_by_themselves(
    serve: Serve, authority: Authority, tmp_path: Path
) -> None:
    pairs = [authority.issue(f"changes-{number}", "localhost") for number in range(4)]
    linked = Linked(tmp_path, pairs[0])
    served = serve(
        "secured:application", *HTTPS, "--workers", "2", "--tls-cert", str(linked.cert), "--tls-key", str(linked.key)
    )
    context = authority.client()
    with context.wrap_socket(served.connect(), server_hostname="localhost") as kept:

        def is_shown(pair: tuple[str, str]) -> bool:
            kept.sendall(REQUEST)
            assert read_reply(kept, bytearray())[0] == 200, "who is connected notices nothing"
            return all(shown(served, authority, "localhost") == serial(pair[0]) for _ in range(4))

        assert is_shown(pairs[0])
        linked.swap(pairs[1])
        status, said = served.order("tls", "reload")
        assert status == 0 and "read again" in said
        served.until(lambda: is_shown(pairs[1]))
        linked.swap(pairs[2])
        served.until(lambda: is_shown(pairs[2]), 11)
    linked.swap(pairs[3])
    os.kill(served.pid, signal.SIGHUP)
    served.until(lambda: all(shown(served, authority, "localhost") == serial(pairs[3][0]) for _ in range(4)))


def test_a_pair_that_cannot_be_used_changes_nothing_and_is_named(
    serve: Serve, authority: Authority, tmp_path: Path
) -> None:
    good, other = authority.issue("kept", "localhost"), authority.issue("half", "localhost")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    shutil.copy(good[0], cert)
    shutil.copy(good[1], key)
    served = serve("secured:application", *HTTPS, "--workers", "2", "--tls-cert", str(cert), "--tls-key", str(key))
    # Half of the new pair is there.
    shutil.copy(other[0], cert)
    status, said = served.order("tls", "reload")
    assert status == 3 and "does not belong to the certificate" in said
    cert.write_text(Path(other[0]).read_text()[:200])
    assert served.order("tls", "reload")[0] == 3
    cert.unlink()
    assert "cannot be read" in served.order("tls", "reload")[1]
    assert shown(served, authority, "localhost") == serial(good[0])
    # Who asks by a signal has only the log.
    told = "the certificates stay as they were: "
    said = served.log().count(told)
    os.kill(served.pid, signal.SIGHUP)
    served.until(lambda: served.log().count(told) == said + 1)
    served.until(lambda: served.log().count("generation 2 serves") == 1)
    # A reload has new workers all the same, with the certificates that could be used last.
    before = served.status()["workers"]
    status, said = served.order("reload")
    assert status == 0 and "warning: the certificates stay as they were" in said
    served.until(lambda: {one["pid"] for one in before}.isdisjoint(one["pid"] for one in served.status()["workers"]))
    assert shown(served, authority, "localhost") == serial(good[0])
    shutil.copy(other[0], cert)
    shutil.copy(other[1], key)
    assert served.order("tls", "reload")[0] == 0
    served.until(lambda: shown(served, authority, "localhost") == serial(other[0]))


def comes_again(served: Serving, context: ssl.SSLContext, session: ssl.SSLSession | None) -> ssl.SSLSession:
    """One connection, which has to be a resumed one if there is a session; the session that came with it."""
    with context.wrap_socket(served.connect(), server_hostname="localhost", session=session) as sock:
        sock.sendall(REQUEST)
        assert read_reply(sock, bytearray())[0] == 200
        assert sock.session_reused == (session is not None)
        found = sock.session
        assert found is not None and found.has_ticket
        return found


@pytest.mark.parametrize(
    ("version", "preload"),
    [
        pytest.param(ssl.TLSVersion.TLSv1_2, False, id="1.2"),
        pytest.param(ssl.TLSVersion.TLSv1_3, True, id="1.3, preload"),
    ],
)
def test_clients_come_again_at_every_worker_over_reloads_and_upgrades(
    serve: Serve, authority: Authority, version: ssl.TLSVersion, preload: bool
) -> None:
    pair = authority.issue("resumed", "localhost")
    served = serve("secured:application", *HTTPS, "--workers", "3", *options(pair), *(["--preload"] if preload else []))
    context = authority.client()
    context.maximum_version = version
    session = comes_again(served, context, None)
    for order in ("", "reload", "upgrade", "reload"):
        if order:
            status, said = served.order(order)
            assert status == 0, said
        for _ in range(6):
            comes_again(served, context, session)

    def is_counted() -> bool:
        # A worker that has left takes its numbers along.
        comes_again(served, context, session)
        return served.counters()["handshakes_resumed"] > 0

    served.until(is_counted)


def test_keys_of_tickets_change_and_old_tickets_are_good_for_one_time_more(serve: Serve, authority: Authority) -> None:
    pair = authority.issue("rotated", "localhost")
    served = serve("secured:application", *HTTPS, "--workers", "2", *options(pair), "--tls-ticket-lifetime", "2")
    context = authority.client()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    first = comes_again(served, context, None)

    def is_forgotten() -> bool:
        with context.wrap_socket(served.connect(), server_hostname="localhost", session=first) as sock:
            return not sock.session_reused

    comes_again(served, context, first)
    served.until(is_forgotten, 15)
    comes_again(served, context, comes_again(served, context, None))


@pytest.mark.parametrize("workers", ["0", "1"])
def test_without_a_lifetime_there_are_no_tickets(serve: Serve, authority: Authority, workers: str) -> None:
    pair = authority.issue("ticketless", "localhost")
    words = ("--workers", workers, "--tls-ticket-lifetime", "0")
    served = serve("secured:application", *HTTPS, *options(pair), *words)
    context = authority.client()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with context.wrap_socket(served.connect(), server_hostname="localhost") as sock:
        sock.sendall(REQUEST)
        assert read_reply(sock, bytearray())[0] == 200
        assert not (sock.session and sock.session.has_ticket)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("workers", ["0", "1"])
def test_workers_that_are_another_user_never_open_a_key(
    serve: Serve, authority: Authority, workers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = authority.issue("private", "localhost")
    os.chmod(key, 0o600)
    # The interpreter of these tests may be root's own, in a folder that nobody else can enter.
    system = Path(f"/usr/bin/python3.{sys.version_info.minor}")
    if not system.exists():
        pytest.skip(f"there is no {system}, which other users can run")
    with tempfile.TemporaryDirectory() as site:
        os.chmod(site, 0o755)
        shutil.copytree(Path(forehand.__file__).parent, f"{site}/forehand")
        shutil.copy(Path(__file__).parents[1] / "apps/secured.py", site)
        monkeypatch.setattr(serving, "PYTHON", str(system))
        monkeypatch.setenv("PYTHONPATH", site)
        words = (*HTTPS, "--workers", workers, *options((cert, key)), "--user", "nobody")
        served = serve("secured:application", *words, cwd=site)
        serves_its_key(served, authority, cert, workers)
        served.kill()


def serves_its_key(served: Serving, authority: Authority, cert: str, workers: str) -> None:
    assert shown(served, authority, "localhost") == serial(cert)
    if workers == "1":
        assert served.order("tls", "reload")[0] == 0
        assert served.order("reload")[0] == 0
        assert shown(served, authority, "localhost") == serial(cert)
