"""Names that there is no certificate for (`--tls-strict-sni`), and keys of tickets that hosts share."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import PATIENCE, Serving, read_reply
from test_tls_certificates import HTTPS, REQUEST, comes_again, options, refused, serial, shown
from tlsfiles import Authority

Serve = Callable[..., Serving]
Visit = tuple[bool, ssl.SSLSession]

VERSIONS = [pytest.param(ssl.TLSVersion.TLSv1_2, id="1.2"), pytest.param(ssl.TLSVersion.TLSv1_3, id="1.3")]
#: Longer than any test, or the machine, takes.
LONG = ("--tls-ticket-lifetime", "600")


def client(authority: Authority, version: ssl.TLSVersion) -> ssl.SSLContext:
    context = authority.client()
    context.check_hostname = False
    context.minimum_version = context.maximum_version = version
    return context


def is_resumed(served: Serving, context: ssl.SSLContext, session: ssl.SSLSession, name: str = "localhost") -> bool:
    with context.wrap_socket(served.connect(), server_hostname=name, session=session) as sock:
        sock.sendall(REQUEST)
        assert read_reply(sock, bytearray())[0] == 200
        return bool(sock.session_reused)


def visit(served: Serving, url: str, context: ssl.SSLContext, session: ssl.SSLSession | None) -> Visit:
    """The same at one of several addresses, with the session that comes of it."""
    sock = socket.create_connection((served.host, int(url.rpartition(":")[2])), PATIENCE)
    with context.wrap_socket(sock, server_hostname="localhost", session=session) as tls:
        tls.sendall(REQUEST)
        assert read_reply(tls, bytearray())[0] == 200
        assert tls.session is not None
        return bool(tls.session_reused), tls.session


def random_file(path: Path, length: int = 80) -> str:
    path.write_bytes(os.urandom(length))
    return str(path)


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_name_without_a_certificate_is_refused_in_place_of_getting_another(
    serve: Serve, authority: Authority, version: ssl.TLSVersion, workers: str
) -> None:
    known, wild = authority.issue("known", "one.example"), authority.issue("any", "*.wild.example")
    words = (*HTTPS, "--workers", workers, *options(known, wild), "--tls-strict-sni")
    served = serve("secured:application", *words)
    for name, wanted in (("one.example", known), ("ONE.example", known), ("a.wild.example", wild)):
        assert shown(served, authority, name) == serial(wanted[0])
    context = client(authority, version)
    for name in ("two.example", "a.b.wild.example", "wild.example", None):
        with pytest.raises(ssl.SSLError, match="(?i)unrecognized[_ ]name"):
            context.wrap_socket(served.connect(), server_hostname=name)
        served.says(f"there is no certificate for {name}" if name else "it asks for no name")
    if workers == "1":
        served.counts("handshakes_failed", 4)


def test_a_ticket_of_one_name_is_refused_for_a_name_without_a_certificate(serve: Serve, authority: Authority) -> None:
    pair = authority.issue("strict", "localhost")
    served = serve("secured:application", *HTTPS, *options(pair), "--tls-strict-sni")
    context = client(authority, ssl.TLSVersion.TLSv1_3)
    session = comes_again(served, context, None)
    assert is_resumed(served, context, session)
    with pytest.raises(ssl.SSLError, match="(?i)unrecognized[_ ]name"):
        context.wrap_socket(served.connect(), server_hostname="other.example", session=session)


@pytest.mark.parametrize("length", [48, 80])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_ticket_of_one_host_is_good_at_another_that_has_the_same_file(
    serve: Serve, authority: Authority, tmp_path: Path, version: ssl.TLSVersion, length: int
) -> None:
    pair = authority.issue("shared", "localhost")
    shared = ("--tls-ticket-keys", random_file(tmp_path / "shared.key", length))
    other = ("--tls-ticket-keys", random_file(tmp_path / "other.key", length))
    words = ("secured:application", *HTTPS, *options(pair))
    one, two = serve(*words, *shared), serve(*words, *shared, "--workers", "0")
    # The first key makes tickets, all of them open some.
    third, stranger, without = serve(*words, *other, *shared), serve(*words, *other), serve(*words)
    context = client(authority, version)
    session = comes_again(one, context, None)
    assert is_resumed(one, context, session) and is_resumed(two, context, session)
    assert is_resumed(third, context, session)
    assert not is_resumed(stranger, context, session) and not is_resumed(without, context, session)
    assert is_resumed(stranger, context, comes_again(third, context, None))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_ticket_of_one_listener_opens_nothing_at_another_and_everything_at_its_own(
    serve: Serve, authority: Authority, version: ssl.TLSVersion
) -> None:
    pair = authority.issue("listeners", "localhost")
    # One that speaks no TLS stands between them, and is counted nowhere.
    binds = (*HTTPS, "--bind", "http://127.0.0.1:0", *HTTPS)
    served = serve("secured:application", *binds, *options(pair), *LONG, "--workers", "2")
    one, _, two = served.urls
    context = client(authority, version)
    sessions = {url: visit(served, url, context, None)[1] for url in (one, two)}
    for order in ((), ("tls", "reload"), ("reload",), ("upgrade",)):
        if order:
            assert served.order(*order)[0] == 0
        # Whichever worker it is that answers.
        for _ in range(4):
            assert all(visit(served, url, context, sessions[url])[0] for url in (one, two))
            assert not visit(served, two, context, sessions[one])[0]
            assert not visit(served, one, context, sessions[two])[0]


def test_hosts_with_another_certificate_open_no_ticket_and_renewed_ones_do(
    serve: Serve, authority: Authority, tmp_path: Path
) -> None:
    """Who is led to a server that cannot show what its client wants to see gets no further by a ticket."""
    shared = ("--tls-ticket-keys", random_file(tmp_path / "shared.key"))
    first = authority.issue("one", "a.test", "b.test")
    renewed = authority.issue("renewed", "b.test", "a.test", kind="rsa")
    served = serve("secured:application", *HTTPS, *options(first), *shared)
    context = client(authority, ssl.TLSVersion.TLSv1_3)
    session = comes_again(served, context, None)
    other = authority.issue("other", "other.test")
    for pairs, good in (((renewed,), True), ((first, other), True), ((other,), False), ((other, first), False)):
        elsewhere = serve("secured:application", *HTTPS, *options(*pairs), *shared, "--workers", "0")
        assert is_resumed(elsewhere, context, session) == good, pairs


def test_hosts_that_ask_their_clients_for_something_else_open_no_ticket(
    serve: Serve, authority: Authority, tmp_path: Path
) -> None:
    """CVE-2025-23419: who is known to one need not be known to the other."""
    pair = authority.issue("asking", "localhost")
    others = Authority(tmp_path, "others")
    words = ("secured:application", *HTTPS, *options(pair), "--tls-ticket-keys", random_file(tmp_path / "shared.key"))
    optional = ("--tls-client-verify", "optional")
    free = serve(*words)
    asking = serve(*words, "--tls-client-ca", str(authority.file), *optional)
    elsewhere = serve(*words, "--tls-client-ca", str(others.file), *optional)
    required = serve(*words, "--tls-client-ca", str(authority.file))
    certified, bare = (client(authority, ssl.TLSVersion.TLSv1_3) for _ in range(2))
    certified.load_cert_chain(*authority.issue("somebody", subject="/CN=somebody", usage="clientAuth"))
    of_free, of_asking = comes_again(free, certified, None), comes_again(asking, certified, None)
    assert is_resumed(free, certified, of_free) and is_resumed(asking, certified, of_asking)
    for session in (of_free, of_asking):
        assert not is_resumed(required, certified, session)
    assert not is_resumed(asking, certified, of_free) and not is_resumed(free, certified, of_asking)
    # The authorities are others there.
    of_asking = comes_again(asking, bare, None)
    assert is_resumed(asking, bare, of_asking) and not is_resumed(elsewhere, bare, of_asking)


def test_keys_are_changed_by_another_file_in_the_place_of_theirs(
    serve: Serve, authority: Authority, tmp_path: Path
) -> None:
    pair = authority.issue("replaced", "localhost")
    file, kept, next_one = tmp_path / "key", tmp_path / "kept", tmp_path / "next"
    random_file(file)
    kept.write_bytes(file.read_bytes())
    words = ("secured:application", *HTTPS, *options(pair), *LONG)
    served = serve(*words, "--workers", "2", "--tls-ticket-keys", str(file))
    former = serve(*words, "--tls-ticket-keys", str(kept))
    context = client(authority, ssl.TLSVersion.TLSv1_2)
    first = comes_again(served, context, None)
    assert is_resumed(former, context, first)
    # Half a file changes nothing, and is named.
    next_one.write_bytes(b"half")
    next_one.rename(file)
    status, said = served.order("tls", "reload")
    assert status == 3 and f"{file}: a key for tickets has 48 or 80 bytes, and this file has 4" in said
    assert is_resumed(served, context, first)
    random_file(next_one)
    next_one.rename(file)
    # It is seen without a word, and who comes by the former key is known as long as a ticket is good.
    served.until(lambda: not is_resumed(former, context, comes_again(served, context, None)))
    for order in ((), ("reload",), ("upgrade",)):
        if order:
            assert served.order(*order)[0] == 0
        assert all(is_resumed(served, context, first) for _ in range(4))
    second = comes_again(served, context, None)
    random_file(file)
    assert served.order("tls", "reload")[0] == 0
    assert all(is_resumed(served, context, one) for one in (first, second))


def test_what_is_no_key_is_named_before_the_start(authority: Authority, tmp_path: Path) -> None:
    pair = options(authority.issue("keyless", "localhost"))
    wrong = random_file(tmp_path / "wrong.key", 79)
    for words, said in (
        (("--tls-ticket-keys", wrong), f"`openssl rand 80 > {wrong}` makes one"),
        (("--tls-ticket-keys", str(tmp_path / "none")), "cannot be read: No such file"),
        (("--tls-ticket-keys", wrong, "--tls-ticket-lifetime", "0"), "none are given out"),
    ):
        for workers in ("0", "1"):
            assert said in refused(*HTTPS, "--workers", workers, *pair, *words)
    assert "https://" in refused("--bind", "http://127.0.0.1:0", "--tls-strict-sni")
    assert "https://" in refused("--bind", "http://127.0.0.1:0", "--tls-ticket-keys", wrong)
