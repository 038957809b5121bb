"""HTTP/2 within TLS, agreed on by ALPN: with curl, h2load, httpx, Python's h2 and a real browser."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hpack
import httpx
import pytest
from browsing import needs_chromium
from drivers import driving
from h2client import Client, frame
from serving import PATIENCE, Serving, read_reply
from tlsfiles import Authority

Serve = Callable[..., Serving]

DRIVEN = driving("secured")
PICTURES = 100
#: The smallest picture that browsers show (GIF, one pixel).
PICTURE = bytes.fromhex("47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b")


def agreed(served: Serving, authority: Authority, name: str = "localhost") -> ssl.SSLSocket:
    """A connection that speaks HTTP/2."""
    sock = authority.client(alpn=("h2", "http/1.1")).wrap_socket(served.connect(), server_hostname=name)
    assert sock.selected_alpn_protocol() == "h2"
    return sock


def told(client: Client, path: str = "/") -> Any:
    return json.loads(client.get(path))


def test_a_request_on_a_stream_knows_that_it_came_by_https(driven: Serving, authority: Authority) -> None:
    with Client(0, sock=agreed(driven, authority)) as client:
        for _ in range(3):
            found = told(client)
            assert (found["scheme"], found["SERVER_PORT"]) == ("https", str(driven.port))


def test_curl_speaks_whichever_version_it_is_asked_for(driven: Serving, authority: Authority, tmp_path: Path) -> None:
    url = f"https://localhost:{driven.port}"

    def curl(*words: str) -> str:
        command = ["curl", "-sS", "--max-time", "30", "--cacert", str(authority.file), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    for word, version in (("--http2", "2"), ("--http1.1", "1.1"), ("--http1.0", "1.1")):
        assert curl(word, "-o", "/dev/null", "-w", "%{http_version} %{http_code}", f"{url}/") == f"{version} 200"
    got = curl("--http2", "-o", "/dev/null", "-w", "%{size_download} %{http_version}", f"{url}/large")
    assert got == "5000000 2"
    (tmp_path / "body").write_text("x" * 3_000_000)
    assert curl("--http2", "--data-binary", f"@{tmp_path}/body", f"{url}/upload") == "3000000 xx"


@pytest.mark.skipif(not shutil.which("nghttp"), reason="no nghttp here (nghttp2-client)")
def test_nghttp_gets_and_sends_what_it_is_asked_to(driven: Serving, tmp_path: Path) -> None:
    def nghttp(*words: str) -> str:
        command = ["nghttp", "--timeout=30", "--no-verify-peer", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0 and not done.stderr, done.stderr
        return done.stdout

    url = f"https://127.0.0.1:{driven.port}"
    assert json.loads(nghttp(f"{url}/"))["scheme"] == "https"
    # Several on one connection; what each of them was is in a table.
    table = nghttp("--null-out", "--stat", f"{url}/", f"{url}/large", f"{url}/parts")
    for path, size in (("/large", "4M"), ("/parts", "1M")):
        assert any(line.split()[-2:] == [size, path] and " 200 " in line for line in table.splitlines()), table
    (tmp_path / "body").write_text("x" * 300_000)
    assert nghttp("--data", str(tmp_path / "body"), f"{url}/upload") == "300000 xx"


@pytest.mark.skipif(not shutil.which("h2load"), reason="no h2load here (nghttp2-client)")
def test_h2load_gets_every_reply_of_many_streams(driven: Serving) -> None:
    command = ["h2load", "-n", "600", "-c", "4", "-m", "8", f"https://127.0.0.1:{driven.port}/"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "Application protocol: h2" in done.stdout, done.stdout
    assert "600 succeeded, 0 failed, 0 errored" in done.stdout, done.stdout


def test_httpx_has_several_requests_under_way_on_one_connection(driven: Serving, authority: Authority) -> None:
    base = f"https://localhost:{driven.port}"
    with httpx.Client(http2=True, verify=authority.client(alpn=("h2", "http/1.1")), base_url=base) as client:
        for _ in range(5):
            assert client.get("/").http_version == "HTTP/2"
        assert len(client.get("/large").content) == 5_000_000
        assert client.post("/upload", content=b"y" * 200_000).text == "200000 yy"


def test_who_agrees_on_http_1_begins_no_http_2(driven: Serving, authority: Authority) -> None:
    for alpn in (("http/1.1",), ()):
        context = authority.client(alpn=alpn) if alpn else ssl.create_default_context(cafile=str(authority.file))
        with context.wrap_socket(driven.connect(), server_hostname="localhost") as sock:
            sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            assert sock.recv(100).startswith(b"HTTP/1.1 505 ")


def test_who_agrees_on_http_2_begins_no_http_1(driven: Serving, authority: Authority) -> None:
    with agreed(driven, authority) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        got = b""
        while part := sock.recv(65536):
            got += part
    assert b"HTTP/1.1 " not in got, "an answer that this client could not read"


@pytest.mark.parametrize("driver", DRIVEN)
def test_a_reload_loses_nothing_of_what_streams_have_asked(
    serve: Serve, pair: tuple[str, ...], authority: Authority, driver: tuple[str, ...]
) -> None:
    target, *options = driver
    served = serve(target, *options, *pair, "--bind", "https://127.0.0.1:0")
    with Client(0, sock=agreed(served, authority)) as client:
        streams = [client.ask("/parts") for _ in range(4)]
        client.flush()
        client.head(streams[0])
        os.kill(served.process.pid, signal.SIGHUP)
        assert {len(content) for content in client.replies(streams).values()} == {2_000_000}
        while not client.farewells:
            assert client.lives()
            client.events()
    with Client(0, sock=agreed(served, authority)) as client:
        assert told(client)["scheme"] == "https"


def test_a_host_that_was_not_named_in_the_handshake_is_misdirected(
    serve: Serve, pair: tuple[str, ...], authority: Authority
) -> None:
    cert, key = authority.issue("somebody", usage="clientAuth", subject="/CN=somebody")
    ask = ("--tls-client-ca", str(authority.file))
    served = serve("secured:application", *pair, *ask, "--bind", "https://127.0.0.1:0")
    context = authority.client(alpn=("h2",))
    context.load_cert_chain(cert, key)
    with Client(0, sock=context.wrap_socket(served.connect(), server_hostname="localhost")) as client:
        streams = []
        for host in ("localhost", "other.localhost"):
            stream = client.machine.get_next_available_stream_id()
            head = [(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", host)]
            client.machine.send_headers(stream, head, end_stream=True)
            streams.append(stream)
        client.flush()
        assert json.loads(client.replies(streams)[streams[0]])["SSL_CLIENT_S_DN_CN"] == "somebody"
        assert [client.heads[stream][":status"] for stream in streams] == ["200", "421"]


def test_files_are_sent_on_streams_whole(
    serve: Serve, pair: tuple[str, ...], authority: Authority, tmp_path: Path
) -> None:
    content = os.urandom(3_000_000)
    (tmp_path / "a.bin").write_bytes(content)
    served = serve("secured:application", *pair, "--bind", "https://127.0.0.1:0", "--static", f"/s={tmp_path}")
    with Client(0, sock=agreed(served, authority)) as client:
        streams = [client.ask("/s/a.bin") for _ in range(3)]
        client.flush()
        digests = {hashlib.sha256(got).digest() for got in client.replies(streams).values()}
    assert digests == {hashlib.sha256(content).digest()}


def test_an_idle_connection_costs_less_than_eight_kibibytes(
    serve: Serve, pair: tuple[str, ...], authority: Authority
) -> None:
    served = serve("secured:application", *pair, "--bind", "https://127.0.0.1:0", "--workers", "0")
    fields = [
        (":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "localhost"),
        ("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"),
        ("accept", "text/html,application/xhtml+xml"), ("accept-language", "de,en;q=0.5"), ("cookie", "a=" + "b" * 60),
    ]  # fmt: skip
    # As a browser begins, whose fields the server's table keeps.
    begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(4, 1, 0, b"")
    begin += frame(1, 5, 1, hpack.Encoder().encode(fields))

    def crowd(count: int) -> list[ssl.SSLSocket]:
        socks = []
        for _ in range(count):
            socks.append(agreed(served, authority))
            socks[-1].sendall(begin)
            got = b""
            while b'"scheme": "https"' not in got:
                part = socks[-1].recv(65536)
                assert part, got
                got += part
        return socks

    def held() -> int:
        """What the allocator has given out: pages that it keeps beside that say nothing of a connection."""
        with Client(0, sock=agreed(served, authority)) as client:
            return int(client.get("/allocated"))

    # Between two of the steps in which the table of connections grows, at 256 and 512.
    first = crowd(270)
    before = held()
    second = crowd(220)
    grown = held() - before
    for sock in first + second:
        sock.close()
    assert grown < 8 * 1024 * 220, f"{grown / 220:.0f} bytes each"


PAGE = """<!doctype html><title>pictures</title><script>
const socket = new WebSocket(`wss://${location.host}/`);
socket.onopen = () => socket.send("hello");
socket.onmessage = (event) => document.title = event.data;
</script>"""


@needs_chromium
def test_a_browser_gets_a_hundred_pictures_and_a_websocket_over_http_2(
    serve: Serve, pair: tuple[str, ...], browser: Any, tmp_path: Path
) -> None:
    pictures = "".join(f"<img src=/s/{number}.gif>" for number in range(PICTURES))
    (tmp_path / "index.html").write_text(PAGE + pictures)
    for number in range(PICTURES):
        (tmp_path / f"{number}.gif").write_bytes(PICTURE)
    bind = ("--bind", "https://127.0.0.1:0", "--access-log", "%r", "--access-log-file", str(tmp_path / "log"))
    served = serve("secured:app", *pair, *bind, "--static", f"/s={tmp_path}")
    context = browser.new_context(ignore_https_errors=True)
    page = context.new_page()
    page.goto(f"https://localhost:{served.port}/s/index.html", wait_until="load", timeout=PATIENCE * 1000)
    entries = "performance.getEntriesByType('resource').filter((entry) => entry.initiatorType === 'img')"
    versions = page.evaluate(f"{entries}.map((entry) => entry.nextHopProtocol)")
    assert versions == ["h2"] * PICTURES
    assert page.evaluate("[...document.images].every((image) => image.complete && image.naturalWidth === 1)")
    page.wait_for_function("document.title === 'wss hello'", timeout=PATIENCE * 1000)
    context.close()
    # The WebSocket was a stream of the same connection (RFC 8441).
    served.until(lambda: "CONNECT / HTTP/2" in (tmp_path / "log").read_text())


def test_replies_of_http_1_are_as_before_beside_it(driven: Serving, authority: Authority) -> None:
    with Client(0, sock=agreed(driven, authority)) as client:
        context = authority.client()
        with context.wrap_socket(driven.connect(), server_hostname="localhost") as sock:
            for _ in range(3):
                assert told(client)["scheme"] == "https"
                sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert json.loads(read_reply(sock, bytearray())[2])["scheme"] == "https"
