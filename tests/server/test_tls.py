"""HTTPS: requests within TLS under every driver, and replies that never look complete when they are not."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from drivers import driving
from h2client import Client
from serving import Serving, read_all, read_reply
from tlsfiles import Authority, openssl

Serve = Callable[..., Serving]

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE = bytes(range(256)) * (5_000_000 // 256) + bytes(5_000_000 % 256)
DRIVEN = driving("secured")


def connect(served: Serving, context: ssl.SSLContext, name: str | None = "localhost") -> ssl.SSLSocket:
    return context.wrap_socket(served.connect(), server_hostname=name)


def ask(sock: socket.socket, path: str = "/", buffer: bytearray | None = None) -> Any:
    sock.sendall(REQUEST.replace(b" / ", f" {path} ".encode()))
    status, _, body = read_reply(sock, bytearray() if buffer is None else buffer)
    assert status == 200, body
    return json.loads(body) if path == "/" else body


def test_requests_are_answered_and_know_that_they_came_by_https(driven: Serving, authority: Authority) -> None:
    assert driven.url.startswith("https://127.0.0.1:")
    with connect(driven, authority.client()) as sock:
        assert (sock.version(), sock.selected_alpn_protocol()) == ("TLSv1.3", "http/1.1")
        for _ in range(3):
            told = ask(sock)
            assert (told["scheme"], told["SERVER_PORT"]) == ("https", str(driven.port))
            assert told.get("HTTPS", "on") == "on"


def begun(client: ssl.SSLContext) -> tuple[bytes, ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
    """A client's first message, and what is needed to go on with it by hand."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read(), tls, incoming, outgoing


@pytest.mark.parametrize("driver", DRIVEN)
def test_a_request_is_the_same_within_tls_but_for_what_is_said_of_it(
    serve: Serve, pair: tuple[str, ...], authority: Authority, driver: tuple[str, ...]
) -> None:
    target, *options = driver
    served = serve(target, *options, *pair, "--bind", "https://127.0.0.1:0", "--bind", "http://127.0.0.1:0")
    request = b"GET /all?a=%20b HTTP/1.1\r\nHost: a.example:1\r\nCookie: c=d\r\nSSL-Cipher: none\r\n\r\n"

    def told(sock: socket.socket) -> dict[str, Any]:
        sock.sendall(request)
        status, _, body = read_reply(sock, bytearray())
        assert status == 200, body
        found: dict[str, Any] = json.loads(body)
        return found

    # Several times, as what is remembered of one must not be found by the other.
    plain_port = int(served.urls[1].rpartition(":")[2])
    for _ in range(3):
        with connect(served, authority.client()) as sock:
            within = told(sock)
        with socket.create_connection((served.host, plain_port), 20) as sock:
            without = told(sock)
    differs = {key for key in within.keys() | without.keys() if within.get(key) != without.get(key)}
    if "extensions" in within:
        assert differs == {"scheme", "server", "client", "extensions"}
        assert within["extensions"].keys() - without["extensions"].keys() == {"tls"}
        return
    said = {"HTTPS", "SSL_PROTOCOL", "SSL_CIPHER", "SSL_SESSION_RESUMED", "SSL_TLS_SNI"}
    assert differs == {"wsgi.url_scheme", "SERVER_PORT", "REMOTE_PORT", *said}
    assert not said & without.keys()


def test_both_versions_are_spoken_and_older_ones_are_not(driven: Serving, authority: Authority) -> None:
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = authority.client()
        context.minimum_version = context.maximum_version = version
        with connect(driven, context) as sock:
            assert ask(sock)["scheme"] == "https"
    done = subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{driven.port}", "-tls1_1"],
        input=b"", capture_output=True, timeout=20, check=False,
    )  # fmt: skip
    assert done.returncode != 0 and b"Cipher is (NONE)" in done.stdout


def test_large_replies_and_bodies_arrive_whole(driven: Serving, authority: Authority) -> None:
    with connect(driven, authority.client()) as sock:
        buffer = bytearray()
        assert ask(sock, "/large", buffer) == LARGE
        assert len(ask(sock, "/parts", buffer)) == 2_000_000
        for size in (1, 16_384, 16_385, 3_000_000):
            head = f"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n".encode()
            sock.sendall(head + b"a" * (size - 1) + b"z")
            first = "z" if size == 1 else "a"
            assert read_reply(sock, buffer)[2] == f"{size} {first}z".encode()
        assert ask(sock, "/", buffer)["scheme"] == "https"


def test_a_body_in_crumbs_arrives_whole(driven: Serving, authority: Authority) -> None:
    # Less is taken apart at once then than one record has.
    crumbs = b"1\r\na\r\n" * 20_000 + b"1\r\nz\r\n0\r\n\r\n"
    with connect(driven, authority.client()) as sock:
        for _ in range(3):
            sock.sendall(b"POST /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + crumbs)
            assert read_reply(sock, bytearray())[2] == b"20001 az"


def test_a_pipeline_is_answered_in_order(driven: Serving, authority: Authority) -> None:
    with connect(driven, authority.client()) as sock:
        paths = ["/", "/large", "/", "/parts", "/"]
        sock.sendall(b"".join(REQUEST.replace(b" / ", f" {path} ".encode()) for path in paths))
        buffer = bytearray()
        lengths = [len(read_reply(sock, buffer)[2]) for _ in paths]
        assert lengths[1] == 5_000_000 and lengths[3] == 2_000_000
        assert lengths[0] == lengths[2] == lengths[4] < 1000


def test_a_handshake_and_a_request_may_come_byte_by_byte(driven: Serving, authority: Authority) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = authority.client().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with driven.connect() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def go_on(step: Callable[[], Any]) -> Any:
            while True:
                try:
                    result = step()
                except ssl.SSLWantReadError:
                    result = None
                for byte in outgoing.read():
                    sock.sendall(bytes([byte]))
                if result is not None:
                    return result
                incoming.write(sock.recv(65536))

        go_on(lambda: tls.do_handshake() or True)
        go_on(lambda: tls.write(REQUEST))
        found = b""
        while b"https" not in found:
            found += go_on(lambda: tls.read(65536))
        assert found.startswith(b"HTTP/1.1 200 ")


def test_a_reply_that_ends_with_the_connection_is_told_to_be_complete(driven: Serving, authority: Authority) -> None:
    with connect(driven, authority.client()) as sock:
        sock.suppress_ragged_eofs = False
        sock.sendall(b"GET /parts HTTP/1.0\r\nHost: a\r\n\r\n")
        found = read_all(sock)  # an end without the word would be an error
        assert len(found.partition(b"\r\n\r\n")[2]) == 2_000_000


def test_a_reply_that_is_cut_never_looks_complete(driven: Serving, authority: Authority) -> None:
    with connect(driven, authority.client()) as sock:
        sock.suppress_ragged_eofs = False
        sock.sendall(b"GET /cut HTTP/1.0\r\nHost: a\r\n\r\n")
        with pytest.raises((ssl.SSLEOFError, ConnectionResetError)):
            while sock.recv(65536):
                pass
    with connect(driven, authority.client()) as sock:
        sock.sendall(b"GET /cut HTTP/1.1\r\nHost: a\r\n\r\n")
        found = read_all(sock)
        assert b"the first part" in found and b"\r\n0\r\n" not in found, "the last chunk says that it is complete"


def test_an_idle_connection_that_the_client_ends_is_ended_in_order(driven: Serving, authority: Authority) -> None:
    sock = connect(driven, authority.client())
    ask(sock)
    with sock.unwrap() as plain:
        # The word was answered, then came the end.
        assert plain.recv(1) == b""


def test_plain_http_is_told_that_https_is_spoken_here(driven: Serving, authority: Authority) -> None:
    for sent in (REQUEST, b"G", b"POST / HTTP/1.1\r\n" + b"x" * 30_000):
        with driven.connect() as sock:
            sock.sendall(sent)
            reply = read_all(sock)
        assert reply.startswith(b"HTTP/1.1 400 ") and b"https://" in reply, reply
    with driven.connect() as sock:
        sock.sendall(b"\x80\x81\x82")
        assert read_all(sock) == b""
    driven.says("expected a TLS handshake, got something unknown")
    with connect(driven, authority.client()) as sock:
        assert ask(sock)["scheme"] == "https", "nothing else is harmed"


def test_tls_on_a_plain_port_is_named_in_the_log(serve: Serve, authority: Authority) -> None:
    served = serve("secured:application")
    with pytest.raises(ssl.SSLError):
        connect(served, authority.client())
    served.says("what arrived is a TLS handshake, and this address speaks plain HTTP")


def test_a_client_that_speaks_something_else_within_tls_is_told_so(driven: Serving, authority: Authority) -> None:
    with pytest.raises(ssl.SSLError, match="NO_APPLICATION_PROTOCOL|no application protocol"):
        connect(driven, authority.client(alpn=("spdy/1",)))
    with connect(driven, authority.client(alpn=("h2", "http/1.1"))) as sock:
        assert sock.selected_alpn_protocol() == "h2"
        with Client(0, sock=sock) as client:
            assert client.get("/")
            assert client.heads[1][":status"] == "200"


def test_a_client_that_comes_again_brings_a_ticket(driven: Serving, authority: Authority) -> None:
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = authority.client()
        context.maximum_version = version
        with connect(driven, context) as sock:
            ask(sock)  # in TLS 1.3 the ticket comes with the first reply
            session = sock.session
        with context.wrap_socket(driven.connect(), server_hostname="localhost", session=session) as sock:
            assert sock.session_reused and ask(sock)["scheme"] == "https"


def test_curl_and_httpx_are_served(driven: Serving, authority: Authority) -> None:
    url = f"https://localhost:{driven.port}/"
    for options in ([], ["--http2"], ["--tls-max", "1.2"]):
        told = subprocess.run(
            ["curl", "-sS", "--cacert", authority.file, *options, "--ipv4", url],
            capture_output=True, timeout=20, check=True,
        ).stdout  # fmt: skip
        assert json.loads(told)["scheme"] == "https"
    with httpx.Client(verify=authority.client()) as client:
        for _ in range(3):
            assert client.get(f"https://127.0.0.1:{driven.port}/").json()["scheme"] == "https"


def test_a_websocket_goes_through(serve: Serve, pair: tuple[str, ...], authority: Authority) -> None:
    # A client of one thread: of two that read and write in one session of ssl, one can lose what it sends.
    from websockets.asyncio.client import connect as dial

    served = serve("secured:app", *pair, "--bind", "https://127.0.0.1:0", "--interface", "asgi")

    async def talk() -> None:
        async with dial(f"wss://localhost:{served.port}/", ssl=authority.client(), sock=served.connect()) as sock:
            for text in ("first", "x" * 200_000):
                await sock.send(text)
                assert await asyncio.wait_for(sock.recv(), 20) == f"wss {text}"

    asyncio.run(talk())


def test_an_application_hears_that_its_client_has_gone(
    serve: Serve, pair: tuple[str, ...], authority: Authority
) -> None:
    served = serve("secured:app", *pair, "--bind", "https://127.0.0.1:0", "--interface", "asgi")
    sock = connect(served, authority.client())
    sock.sendall(b"GET /gone HTTP/1.1\r\nHost: a\r\n\r\n")
    served.counts("requests_total", 1)
    # In order: the word comes within TLS, then the end of the connection.
    sock.settimeout(0)
    with contextlib.suppress(ssl.SSLWantReadError):  # it may have been answered already
        sock.unwrap()
    served.says("the client has gone")
    sock.close()


def test_a_slow_reader_gets_everything(driven: Serving, authority: Authority) -> None:
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.settimeout(20)
    plain.connect((driven.host, driven.port))
    with authority.client().wrap_socket(plain, server_hostname="localhost") as sock:
        sock.sendall(REQUEST.replace(b" / ", b" /large ") + REQUEST)
        buffer = bytearray()
        assert read_reply(sock, buffer)[2] == LARGE
        assert json.loads(read_reply(sock, buffer)[2])["scheme"] == "https"


def test_a_request_that_takes_too_long_is_answered_in_its_threads_place(
    serve: Serve, pair: tuple[str, ...], authority: Authority
) -> None:
    served = serve("secured:application", *pair, "--bind", "https://127.0.0.1:0", "--request-timeout", "0.5")
    with connect(served, authority.client()) as sock:
        sock.suppress_ragged_eofs = False
        sock.sendall(REQUEST.replace(b" / ", b" /sleep "))
        assert read_all(sock).startswith(b"HTTP/1.1 504 "), "all of it, and the end in order"


def test_files_are_sent_whole(serve: Serve, pair: tuple[str, ...], authority: Authority, tmp_path: Path) -> None:
    for name, size in (("small", 100), ("large", 3_000_000)):
        (tmp_path / name).write_bytes(LARGE[:size])
    served = serve("secured:application", *pair, "--bind", "https://127.0.0.1:0", "--static", f"/static={tmp_path}")
    with connect(served, authority.client()) as sock:
        buffer = bytearray()
        for name, size in (("small", 100), ("large", 3_000_000), ("small", 100)):
            assert ask(sock, f"/static/{name}", buffer) == LARGE[:size]


def test_a_name_that_is_said_twice_is_never_that_of_another_client(
    serve: Serve, pair: tuple[str, ...], authority: Authority
) -> None:
    served = serve("secured:application", *pair, "--bind", "https://127.0.0.1:0", "--no-defer-accept")
    hello, tls, incoming, outgoing = begun(authority.client())
    with served.connect() as sock:
        sock.sendall(hello[:20])
        # One that brings no key of a kind that is taken here has to say all of it once more.
        groups = ("-groups", "P-521:X25519", "-servername", "other.localhost")
        said = openssl("s_client", "-connect", f"127.0.0.1:{served.port}", *groups, "-msg", data="")
        assert said.count(", ClientHello") == 2, said
        sock.sendall(hello[20:40])
        served.counts("handshakes", 1)
        with connect(served, authority.client()) as other:
            assert ask(other).get("SSL_TLS_SNI") == "localhost"
        sock.sendall(hello[40:])
        while tls.version() is None or outgoing.pending == 0:
            incoming.write(sock.recv(65536))
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
        tls.write(REQUEST)
        sock.sendall(outgoing.read())
        found = b""
        while b"SSL_TLS_SNI" not in found:
            incoming.write(sock.recv(65536))
            with contextlib.suppress(ssl.SSLWantReadError):
                found += tls.read(65536)
    assert b'"SSL_TLS_SNI": "localhost"' in found, found


def test_records_that_were_changed_end_the_connection(driven: Serving, authority: Authority) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = authority.client().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with driven.connect() as sock:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                sock.sendall(outgoing.read())
                incoming.write(sock.recv(65536))
        sock.sendall(outgoing.read())
        tls.write(REQUEST)
        record = bytearray(outgoing.read())
        record[-1] ^= 1
        sock.sendall(record)
        while data := sock.recv(65536):
            incoming.write(data)
        with pytest.raises(ssl.SSLError, match="(?i)bad.record.mac"):
            while True:
                tls.read(65536)


def test_an_idle_connection_costs_less_than_four_kibibytes(
    serve: Serve, pair: tuple[str, ...], authority: Authority
) -> None:
    served = serve("secured:application", *pair, "--bind", "https://127.0.0.1:0", "--workers", "0")
    context = authority.client()

    def held() -> int:
        """What the allocator has given out: pages that it keeps beside that say nothing of a connection."""
        with connect(served, context) as sock:
            return int(ask(sock, "/allocated"))

    def crowd(count: int) -> list[ssl.SSLSocket]:
        socks = []
        for _ in range(count):
            socks.append(connect(served, context))
            ask(socks[-1])
        return socks

    # Between two of the steps in which the table of connections grows, at 512 and 1,024.
    first = crowd(600)
    before = held()
    second = crowd(300)
    grown = held() - before
    assert grown < 4 * 1024 * 300, f"{grown / 300:.0f} bytes each"
    for sock in first + second:
        sock.close()


def test_without_an_address_for_it_nothing_of_tls_is_there(serve: Serve) -> None:
    served = serve("secured:application", "--workers", "0")
    served.raw(REQUEST + b"", end=True)
    threads = [path.read_text().strip() for path in Path(f"/proc/{served.pid}/task").glob("*/comm")]
    assert threads and "forehand-tls" not in threads


def test_a_stop_does_not_wait_for_those_who_say_nothing(
    serve: Serve, pair: tuple[str, ...], authority: Authority
) -> None:
    served = serve("secured:application", *pair, "--bind", "https://127.0.0.1:0", "--no-defer-accept")
    with served.connect(), connect(served, authority.client()) as idle:
        ask(idle)
        served.until(lambda: served.counters()["connections_accepted"] == 2)
        idle.suppress_ragged_eofs = False
        assert served.stop() == 0
        assert idle.recv(1) == b"", "the end is told in order"


def test_linger_is_reset_when_told(authority: Authority, driven: Serving) -> None:
    # A client that resets in the midst of a large reply harms nobody.
    plain = driven.connect()
    sock = authority.client().wrap_socket(plain, server_hostname="localhost")
    sock.sendall(REQUEST.replace(b" / ", b" /large "))
    sock.recv(1000)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
    with connect(driven, authority.client()) as other:
        assert ask(other)["scheme"] == "https"


def test_a_fingerprint_is_told_of_a_certificate_that_was_made(serve: Serve, tmp_path: Path) -> None:
    served = serve("secured:application", "--tls-self-signed", "--bind", "https://localhost:0")
    served.says("certificate  self-signed, SHA-256 ")
    shown = served.log().partition("SHA-256 ")[2].split()[0]
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with connect(served, context) as sock:
        der = sock.getpeercert(binary_form=True)
        assert der is not None
    file = tmp_path / "made.pem"
    file.write_text(ssl.DER_cert_to_PEM_cert(der))
    printed = openssl("x509", "-in", file, "-noout", "-fingerprint", "-sha256")
    assert printed.strip().rpartition("=")[2] == shown
    trusting = ssl.create_default_context(cafile=str(file))
    with connect(served, trusting, "localhost") as sock:
        assert ask(sock)["scheme"] == "https", "a client that is told to trust it does"
