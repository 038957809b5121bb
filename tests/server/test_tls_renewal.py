"""Certificates that change while handshakes and requests are under way: nobody notices but by the new certificate."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from pathlib import Path

from h2client import Client
from serving import Serving, read_reply
from test_tls_certificates import HTTPS, REQUEST, Linked, serial
from tlsfiles import Authority

Serve = Callable[..., Serving]

CHANGES = 12
#: Clients that come, ask and go, one after the other, each kind in threads of its own.
STRANGERS, COMING_AGAIN, STAYING = 2, 2, 2


class Crowd:
    """Clients in threads, until they are to stop: what they have seen, and what went wrong."""

    def __init__(self, served: Serving, authority: Authority) -> None:
        self.served, self.authority = served, authority
        self.over = threading.Event()
        self.wrong: list[str] = []
        self.seen: set[str] = set()
        self.handshakes = self.resumed = self.asked = 0
        kinds = [self.comes] * STRANGERS + [self.comes_again] * COMING_AGAIN + [self.stays] * STAYING + [self.streams]
        self.threads = [threading.Thread(target=self._until_the_end, args=(kind,)) for kind in kinds]

    def __enter__(self) -> Crowd:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()

    def _until_the_end(self, kind: Callable[[], None]) -> None:
        try:
            kind()
        except Exception as error:
            self.wrong.append(f"{kind.__name__}: {error!r}")

    def _ask(self, sock: ssl.SSLSocket) -> None:
        sock.sendall(REQUEST)
        status, fields, _ = read_reply(sock, bytearray())
        assert (status, fields.get("connection")) == (200, None), fields
        self.asked += 1

    def _visit(self, context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> ssl.SSLSession | None:
        with context.wrap_socket(self.served.connect(), server_hostname="localhost", session=session) as sock:
            self._ask(sock)
            self.handshakes += 1
            self.resumed += bool(sock.session_reused)
            if not sock.session_reused:
                self.seen.add(str((sock.getpeercert() or {}).get("serialNumber")))
            assert session is None or sock.session_reused, "a ticket outlives a certificate of the same names"
            return sock.session

    def comes(self) -> None:
        """Whole handshakes."""
        context = self.authority.client()
        while not self.over.is_set():
            self._visit(context)

    def comes_again(self) -> None:
        """With the ticket of the visit before."""
        context, session = self.authority.client(), None
        while not self.over.is_set():
            session = self._visit(context, session)

    def stays(self) -> None:
        """On one connection all the time."""
        with self.authority.client().wrap_socket(self.served.connect(), server_hostname="localhost") as sock:
            while not self.over.is_set():
                self._ask(sock)

    def streams(self) -> None:
        """On one of HTTP/2."""
        context = self.authority.client(alpn=("h2",))
        with Client(0, sock=context.wrap_socket(self.served.connect(), server_hostname="localhost")) as client:
            while not self.over.is_set():
                assert client.get("/") and not client.farewells
                self.asked += 1


def test_no_handshake_fails_and_no_connection_is_closed_while_certificates_change(
    serve: Serve, authority: Authority, tmp_path: Path
) -> None:
    pairs = [authority.issue(f"renewed-{number}", "localhost") for number in range(2)]
    linked = Linked(tmp_path, pairs[0])
    certificate = ("--tls-cert", str(linked.cert), "--tls-key", str(linked.key))
    # Of several, one that a busy machine keeps from its work would send clients to another.
    served = serve("secured:application", *HTTPS, *certificate, "--workers", "1")
    with Crowd(served, authority) as crowd:
        for number in range(1, CHANGES + 1):
            before, wanted = crowd.handshakes, serial(pairs[number % 2][0])
            linked.swap(pairs[number % 2])
            assert served.order("tls", "reload")[0] == 0
            crowd.seen = set()
            served.until(lambda wanted=wanted: crowd.wrong or wanted in crowd.seen)
            served.until(lambda before=before: crowd.wrong or crowd.handshakes >= before + 10)
    assert crowd.wrong == []
    assert crowd.resumed and crowd.handshakes > crowd.resumed
    counted = served.counters()
    for name in ("handshakes_failed", "handshake_timeouts", "handshakes_displaced", "requests_incomplete"):
        assert counted[name] == 0, counted
