"""Handshakes of TLS are bounded: how many are under way, for how long, and what one that fails costs others."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import ssl
import time
from collections.abc import Callable

import pytest
from serving import Serving, read_all
from test_tls import REQUEST, ask, begun, connect  # type: ignore[import-not-found]
from tlsfiles import Authority

Serve = Callable[..., Serving]


def test_as_many_handshakes_as_the_limit_are_under_way_and_others_wait(
    serve: Serve, pair: tuple[str, ...], authority: Authority
) -> None:
    served = serve(
        "secured:application", *pair, "--bind", "https://127.0.0.1:0", "--bind", "http://127.0.0.1:0",
        "--no-defer-accept", "--limit-handshakes", "3", "--handshake-timeout", "60",
    )  # fmt: skip
    silent = [served.connect() for _ in range(2)]
    with connect(served, authority.client()) as sock:
        assert ask(sock)["scheme"] == "https", "one less than the limit"
    assert served.counters()["handshake_waits"] == 0
    silent.append(served.connect())
    waiting = served.connect()
    served.until(lambda: served.counters()["handshake_waits"] > 0)
    with socket.create_connection((served.host, int(served.urls[1].rpartition(":")[2])), 20) as plain:
        assert ask(plain)["scheme"] == "http", "who needs no handshake waits for none"
    silent.pop().close()
    with authority.client().wrap_socket(waiting, server_hostname="localhost") as sock:
        assert ask(sock)["scheme"] == "https", "there is room again"
    for one in silent:
        one.close()


def test_who_is_slow_keeps_no_place_for_which_others_wait(
    serve: Serve, pair: tuple[str, ...], authority: Authority
) -> None:
    served = serve(
        "secured:application", *pair, "--bind", "https://127.0.0.1:0", "--no-defer-accept", "--limit-handshakes", "8",
        "--handshake-timeout", "600", "--handshake-hold", "0.2",
    )  # fmt: skip
    # Some say nothing, some begin, and some have got an answer and say no more.
    slow = [served.connect() for _ in range(8)]
    hello = begun(authority.client())[0]
    for number, sock in enumerate(slow):
        sock.sendall((b"", hello[:50], hello)[number % 3])
    served.until(lambda: served.counters()["connections_accepted"] == 8)
    for number in range(3):
        with connect(served, authority.client()) as sock:
            assert ask(sock)["scheme"] == "https"
        # Its place is taken by one more of them.
        slow.append(served.connect())
        served.counts("connections_accepted", 10 + 2 * number)
    counted = served.counters()
    assert counted["handshakes"] == 3 and counted["handshakes_displaced"] >= 3, counted
    assert counted["handshake_timeouts"] == counted["handshakes_failed"] == 0, counted
    for sock in slow:
        sock.close()


def test_who_is_slow_keeps_its_place_while_nobody_waits_for_one(
    serve: Serve, pair: tuple[str, ...], authority: Authority
) -> None:
    served = serve(
        "secured:application", *pair, "--bind", "https://127.0.0.1:0", "--no-defer-accept", "--limit-handshakes", "2",
        "--handshake-hold", "0.01",
    )  # fmt: skip
    hello, tls, incoming, outgoing = begun(authority.client())
    with served.connect() as sock:
        sock.sendall(hello[:50])
        for _ in range(3):
            with connect(served, authority.client()) as other:
                assert ask(other)["scheme"] == "https", "there is a place for one more"
        sock.sendall(hello[50:])
        while tls.version() is None or outgoing.pending == 0:
            incoming.write(sock.recv(65536))
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
        sock.sendall(outgoing.read())
        served.counts("handshakes", 4)
    assert served.counters()["handshakes_displaced"] == 0


def test_a_handshake_has_its_time_and_no_byte_extends_it(
    serve: Serve, pair: tuple[str, ...], authority: Authority
) -> None:
    served = serve(
        "secured:application", *pair, "--bind", "https://127.0.0.1:0", "--no-defer-accept", "--handshake-timeout", "1"
    )
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
    with served.connect() as sock:
        sock.settimeout(0.05)
        for at in range(400):
            try:
                sock.sendall(hello[at : at + 1] or b"\0")
                if sock.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            pytest.fail("bytes have extended it")
    served.counts("handshake_timeouts", 1)

    def is_through() -> bool:
        with contextlib.suppress(OSError), connect(served, authority.client()) as sock:
            return bool(ask(sock)["scheme"] == "https")
        return False

    # On a busy machine a handshake may take longer than there is time.
    served.until(is_through)
    assert served.counters()["handshakes"] == 1


def _came_in_time(served: Serving, authority: Authority) -> bool:
    """Whether somebody is served who says the rest while the server is stopped, until long after its time."""
    hello, tls, incoming, outgoing = begun(authority.client())
    with served.connect() as sock:
        sock.sendall(hello[:100])
        # Its time has begun when somebody who came behind it is through.
        with connect(served, authority.client()) as other:
            assert ask(other)["scheme"] == "https"
        os.kill(served.pid, signal.SIGSTOP)
        try:
            sock.sendall(hello[100:])
            time.sleep(1.5)
        except OSError:
            return False
        finally:
            os.kill(served.pid, signal.SIGCONT)
        found, asked = b"", False
        while b"https" not in found:
            try:
                said = sock.recv(65536)
            except OSError:
                said = b""
            if not said:
                return False
            incoming.write(said)
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
            if outgoing.pending and not asked:
                asked = True
                tls.write(REQUEST)
                sock.sendall(outgoing.read())
            if asked:
                with contextlib.suppress(ssl.SSLWantReadError):
                    found += tls.read(65536)
        assert found.startswith(b"HTTP/1.1 200 ")
        return True


def test_what_came_in_time_and_was_not_read_is_not_late(
    serve: Serve, pair: tuple[str, ...], authority: Authority
) -> None:
    served = serve(
        "secured:application", *pair, "--bind", "https://127.0.0.1:0", "--no-defer-accept", "--handshake-timeout", "1",
        "--workers", "0",
    )  # fmt: skip
    # On a busy machine the one who came behind it, or a part of the handshake, may take longer than there is time.
    assert any(_came_in_time(served, authority) for _ in range(5))
    hello = begun(authority.client())[0]
    with served.connect() as sock:
        sock.sendall(hello[:100])
        assert sock.recv(1) == b"", "who says nothing is not waited for"


def test_handshakes_that_fail_are_counted_and_hold_up_nobody(
    serve: Serve, pair: tuple[str, ...], authority: Authority
) -> None:
    served = serve("secured:application", *pair, "--bind", "https://127.0.0.1:0", "--no-defer-accept")
    with connect(served, authority.client()) as sock:
        for number in range(3):
            with served.connect() as bad:
                bad.sendall(b"\x16\x03\x01\x00\x05hello")
                read_all(bad)
            # A client that does not believe the certificate says so and leaves.
            with pytest.raises(ssl.SSLCertVerificationError):
                connect(served, ssl.create_default_context())
            served.counts("handshakes_failed", 2 * number + 2)
            assert ask(sock)["scheme"] == "https"
    served.until(lambda: served.counters()["connections_closed"] == served.counters()["connections_accepted"])
