"""PROXY headers in front of TLS: a load balancer passes connections on as they are, and says whose each is."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from drivers import driving
from proxyheaders import CLIENT, SERVER, UNKNOWN, fact, tls, v1, v2
from serving import Serving, read_all, read_reply
from test_haproxy import balanced, needs_haproxy
from tlsfiles import Authority

Serve = Callable[..., Serving]

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
DRIVEN = driving("introduced", unbuffered=False)


@pytest.fixture(scope="module")
def pair(authority: Authority) -> tuple[str, ...]:
    cert, key = authority.issue("localhost", "localhost")
    return ("--tls-cert", cert, "--tls-key", key, "--bind", "https://127.0.0.1:0?proxy=any")


class Within:
    """A client's TLS over a socket on which something is said first, with its first message or byte by byte."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, first: bytes, *, crumbs: bool = False) -> None:
        self.sock, self.first, self.crumbs = sock, first, crumbs
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._go_on(lambda: self.tls.do_handshake() or True)

    def _go_on(self, step: Callable[[], Any]) -> Any:
        while True:
            result = None
            with contextlib.suppress(ssl.SSLWantReadError):
                result = step()
            said, self.first = self.first + self.outgoing.read(), b""
            for at in range(len(said)) if self.crumbs else ():
                self.sock.sendall(said[at : at + 1])
            if not self.crumbs:
                self.sock.sendall(said)
            if result is not None:
                return result
            heard = self.sock.recv(65536)
            if not heard:
                raise ConnectionResetError("the server has closed the connection")
            self.incoming.write(heard)

    def ask(self) -> dict[str, Any]:
        """What the application says of one request."""
        self._go_on(lambda: self.tls.write(REQUEST))
        reply = b""
        while not reply.endswith(b"}}"):
            reply += self._go_on(lambda: self.tls.read(65536))
        assert reply.startswith(b"HTTP/1.1 200 "), reply
        found: dict[str, Any] = json.loads(reply.partition(b"\r\n\r\n")[2])
        return found


def listed(address: tuple[str, int]) -> list[str]:
    return [address[0], str(address[1])]


@pytest.mark.parametrize("driver", DRIVEN)
def test_whom_the_header_names_is_the_client_and_the_rest_is_tls(
    serve: Serve, pair: tuple[str, ...], authority: Authority, driver: tuple[str, ...]
) -> None:
    target, *options = driver
    served = serve(target, *options, *pair, "--access-log", "%h %U")
    for header in (v1, v2):
        for crumbs in (False, True):
            with served.connect() as sock, served.connect() as other:
                first = Within(sock, authority.client(), header(), crumbs=crumbs)
                second = Within(other, authority.client(), header(("203.0.113.9", 1)), crumbs=crumbs)
                for _ in range(3):
                    found = first.ask()
                    assert (found["client"], found["server"]) == (listed(CLIENT), listed(SERVER))
                    assert found["scheme"] == "https"
                    assert second.ask()["client"] == ["203.0.113.9", "1"]
    for address in (CLIENT[0], "203.0.113.9"):
        served.until(lambda address=address: served.log().count(f"{address} /\n") == 12)
    with served.connect() as sock:
        found = Within(sock, authority.client(), UNKNOWN).ask()
        assert (found["client"], found["server"]) == (listed(sock.getsockname()), listed(sock.getpeername()))


def test_what_is_no_header_or_no_handshake_is_refused_and_named(
    serve: Serve, pair: tuple[str, ...], authority: Authority
) -> None:
    served = serve("introduced:application", *pair, "--no-defer-accept")
    with served.connect() as sock, pytest.raises(OSError):
        authority.client().wrap_socket(sock, server_hostname="localhost")
    served.says("expected a PROXY header, got a TLS handshake")
    with served.connect() as sock:
        sock.sendall(v1() + REQUEST)
        reply = read_all(sock)
        assert reply.startswith(b"HTTP/1.1 400 ") and b"https://" in reply
    with served.connect() as sock:
        sock.sendall(v2(local=True))
    served.counts("handshakes_failed", 2)
    with served.connect() as sock:
        assert Within(sock, authority.client(), v2()).ask()["client"] == listed(CLIENT), "nothing else is harmed"
    assert served.counters()["connections_refused"] == 1
    served.until(lambda: served.counters()["connections_closed"] == served.counters()["connections_accepted"])


def test_a_header_has_the_time_of_the_handshake(serve: Serve, pair: tuple[str, ...], authority: Authority) -> None:
    served = serve("introduced:application", *pair, "--no-defer-accept", "--handshake-timeout", "0.3")
    for said in (b"", v2()[:20], v2()):
        with served.connect() as sock:
            sock.sendall(said)
            assert sock.recv(1) == b""
    served.counts("handshake_timeouts", 3)

    def is_through() -> bool:
        with served.connect() as sock, contextlib.suppress(OSError):
            return Within(sock, authority.client(), v2()).ask()["client"] == listed(CLIENT)
        return False

    # On a busy machine a handshake may take longer than there is time.
    served.until(is_through)


def test_nobody_else_may_name_a_client(serve: Serve, pair: tuple[str, ...]) -> None:
    served = serve("introduced:application", *pair, "--proxy-protocol-from", "192.0.2.0/24")
    assert served.raw(v1()) == b""
    served.says("--proxy-protocol-from")
    assert served.counters()["handshakes_failed"] == 0, "nothing of it was read"


@pytest.mark.parametrize("believed", [False, True], ids=["not-believed", "believed"])
def test_of_two_handshakes_it_is_told_which_one_is_the_clients(
    serve: Serve, pair: tuple[str, ...], authority: Authority, believed: bool
) -> None:
    served = serve("introduced:application", *pair, *(("--proxy-protocol-tls",) if believed else ()))
    facts = tls(7, 0, fact(0x21, b"TLSv1.2"), fact(0x22, b"alice"))
    with served.connect() as sock:
        told = Within(sock, authority.client(), v2(CLIENT, SERVER, facts)).ask()["told"]
    if believed:
        assert told == {"SSL_PROTOCOL": "TLSv1.2", "SSL_CLIENT_VERIFY": "SUCCESS", "SSL_CLIENT_S_DN_CN": "alice"}
    else:
        assert (told["SSL_PROTOCOL"], told["SSL_TLS_SNI"]) == ("TLSv1.3", "localhost")
        assert not any(key.startswith("SSL_CLIENT_") for key in told)
    with served.connect() as sock:
        assert Within(sock, authority.client(), v2()).ask()["told"]["SSL_PROTOCOL"] == "TLSv1.3"


@needs_haproxy
def test_behind_haproxy_the_handshake_is_the_clients_own(
    serve: Serve, pair: tuple[str, ...], authority: Authority, tmp_path: Path
) -> None:
    served = serve("introduced:application", *pair)
    served.urls = [served.urls[0].removeprefix("https://")]
    with balanced(served, tmp_path, "send-proxy-v2", mode="tcp") as balancer:
        for _ in range(2):
            with balancer.connect() as plain:
                client = plain.getsockname()
                with authority.client().wrap_socket(plain, server_hostname="localhost") as sock:
                    for _ in range(2):
                        sock.sendall(REQUEST)
                        status, _, body = read_reply(sock, bytearray())
                        found = json.loads(body)
                        assert (status, found["client"], found["scheme"]) == (200, listed(client), "https")
                        assert found["told"]["SSL_TLS_SNI"] == "localhost"
