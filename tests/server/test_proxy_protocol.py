"""PROXY headers of load balancers: who the client is, for as long as the connection lives, and who may say so."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from drivers import driving
from proxyheaders import CLIENT, CLIENT6, SERVER, SERVER6, UNKNOWN, fact, tls, v1, v2
from serving import HERE, PYTHON, Serving, read_all, read_reply

Serve = Callable[..., Serving]

REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
DRIVEN = driving("introduced", unbuffered=False)


def serve_proxied(serve: Serve, driver: tuple[str, ...], *options: str, versions: str = "any") -> Serving:
    target, *driven = driver
    return serve(target, *driven, f"--bind=127.0.0.1:0?proxy={versions}", *options)


def ask(sock: socket.socket, request: bytes = REQUEST) -> dict[str, Any]:
    sock.sendall(request)
    status, _, body = read_reply(sock, bytearray())
    assert status == 200, body
    found: dict[str, Any] = json.loads(body)
    return found


def pair(address: tuple[str, int]) -> list[str]:
    return [address[0], str(address[1])]


@pytest.mark.parametrize("driver", DRIVEN)
def test_whom_the_header_names_is_the_client_for_as_long_as_the_connection_lives(
    serve: Serve, driver: tuple[str, ...]
) -> None:
    served = serve_proxied(serve, driver, "--access-log", "%h %U")
    for header in (v1, v2):
        for client, server in ((CLIENT, SERVER), (CLIENT6, SERVER6)):
            with served.connect() as sock, served.connect() as other:
                found = [ask(sock, header(client, server) + REQUEST), ask(other, v1(("203.0.113.9", 1)) + REQUEST)]
                for _ in range(3):
                    found += [ask(sock), ask(other)]
                for one in found[::2]:
                    assert (one["client"], one["server"]) == (pair(client), pair(server))
                for one in found[1::2]:
                    assert one["client"] == ["203.0.113.9", "1"], "the same bytes from another client"
    for address, count in ((CLIENT[0], 8), (CLIENT6[0], 8), ("203.0.113.9", 16)):
        served.until(lambda address=address, count=count: served.log().count(f"{address} /\n") == count)


@pytest.mark.parametrize("driver", DRIVEN)
def test_a_header_may_come_byte_by_byte(serve: Serve, driver: tuple[str, ...]) -> None:
    served = serve_proxied(serve, driver)
    for header in (v1(), v2()):
        with served.connect() as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for at in range(len(header)):
                sock.sendall(header[at : at + 1])
            assert ask(sock)["client"] == pair(CLIENT)


@pytest.mark.parametrize("driver", DRIVEN)
def test_one_that_names_nobody_leaves_the_sockets_address(serve: Serve, driver: tuple[str, ...]) -> None:
    served = serve_proxied(serve, driver)
    for header in (UNKNOWN, v2(local=True), v2(CLIENT, SERVER, fact(3, b"\0" * 4), local=True)):
        with served.connect() as sock:
            found = ask(sock, header + REQUEST)
            assert found["client"] == pair(sock.getsockname())
            assert found["server"] == pair(sock.getpeername())


WRONG = [
    ("any", REQUEST, "a PROXY header", "an HTTP request"),
    ("v1", v2(), "a PROXY v1 header", "a PROXY v2 header"),
    ("v2", v1(), "a PROXY v2 header", "a PROXY v1 header"),
    ("v2", b"\x16\x03\x01\x02\x00\x01\x00", "a PROXY v2 header", "a TLS handshake"),
    ("any", b"PROXY TCP4 not-an-ip 198.51.100.3 1 2\r\n", "a PROXY header", "a PROXY v1 header"),
    ("any", b"PROXY TCP4 192.0.2.7 198.51.100.3 65iii 2\r\n", "a PROXY header", "a PROXY v1 header"),
    ("any", b"PROXY UNKNOWN " + b"x" * 107 + b"\r\n", "a PROXY header", "a PROXY v1 header"),
]


def test_what_is_no_header_is_closed_and_the_log_says_what_was_expected_and_seen(serve: Serve) -> None:
    served = serve("introduced:application", *(f"--bind=127.0.0.1:0?proxy={one}" for one in ("any", "v1", "v2")))
    ports = {name: int(url.rpartition(":")[2]) for name, url in zip(("any", "v1", "v2"), served.urls)}
    for number, (versions, sent, expected, seen) in enumerate(WRONG):
        with socket.create_connection(("127.0.0.1", ports[versions]), 20) as sock:
            sock.sendall(sent + REQUEST)
            assert read_all(sock) == b"", "not a word"
        lines = [f"expected {one[2]}, got {one[3]}" for one in WRONG[: number + 1]]
        line = f"expected {expected}, got {seen}"
        served.until(lambda line=line, count=lines.count(line): served.log().count(line) == count)
        with socket.create_connection(("127.0.0.1", ports[versions]), 20) as sock:
            header = v2() if versions == "v2" else v1()
            assert ask(sock, header + REQUEST)["client"] == pair(CLIENT), "nothing else is harmed"


def test_nobody_else_may_name_a_client(serve: Serve) -> None:
    served = serve_proxied(serve, ("introduced:application",), "--proxy-protocol-from", "192.0.2.0/24,unix")
    assert served.raw(v1() + REQUEST) == b""
    assert served.raw(REQUEST) == b""
    served.until(lambda: "refused a connection from 127.0.0.1:" in served.log())
    served.says("--proxy-protocol-from")


def test_an_address_that_expects_none_takes_none(serve: Serve) -> None:
    served = serve("introduced:application")
    assert served.raw(v1() + REQUEST).startswith(b"HTTP/1.1 400 ")
    assert served.raw(v2() + REQUEST).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("driver", DRIVEN)
def test_a_unix_socket_may_expect_headers(serve: Serve, tmp_path: Path, driver: tuple[str, ...]) -> None:
    target, *options = driver
    path = tmp_path / "a?b"
    serve(target, *options, f"--bind=unix:{path}?proxy=v2")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(path))
        found = ask(sock, v2() + REQUEST)
        assert (found["client"], found["server"]) == (pair(CLIENT), pair(SERVER))


@pytest.mark.parametrize("driver", DRIVEN)
def test_the_clients_own_words_are_judged_by_the_clients_address(serve: Serve, driver: tuple[str, ...]) -> None:
    served = serve_proxied(serve, driver, "--forwarded-allow-ips", "10.0.0.0/8,127.0.0.1")
    forwarded = b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.50\r\n\r\n"
    for client, believed in (("192.0.2.7", "192.0.2.7"), ("10.0.0.9", "203.0.113.50"), ("192.0.2.8", "192.0.2.8")):
        with served.connect() as sock:
            sock.sendall(v1((client, 4711)))
            for _ in range(3):
                assert ask(sock, forwarded)["client"][0] == believed


FACTS = (
    fact(0x05, b"id-17"),
    fact(0x02, b"shop.example"),
    fact(0xEA, b"\x01vpce-08d2bf15"),
    tls(7, 0, fact(0x21, b"TLSv1.3"), fact(0x22, b"alice"), fact(0x23, b"TLS_AES_128_GCM_SHA256")),
)


@pytest.mark.parametrize("driver", DRIVEN)
@pytest.mark.parametrize("believed", [False, True], ids=["not-believed", "believed"])
def test_what_else_a_header_tells_reaches_the_application(
    serve: Serve, driver: tuple[str, ...], believed: bool
) -> None:
    served = serve_proxied(serve, driver, *(("--proxy-protocol-tls",) if believed else ()))
    with served.connect() as sock:
        sock.sendall(v2(CLIENT, SERVER, *FACTS))
        for _ in range(3):
            found = ask(sock)
            assert found["scheme"] == ("https" if believed else "http")
            if driver[0].endswith(":app"):
                secure = {"version": "TLSv1.3", "cipher": "TLS_AES_128_GCM_SHA256", "client_common_name": "alice",
                          "client_verified": True}  # fmt: skip
                told = {"unique_id": "id-17", "authority": "shop.example", "vpc_endpoint": "vpce-08d2bf15"}
                assert found["told"] == {**told, **({"tls": secure} if believed else {})}
            else:
                secure = {"SSL_PROTOCOL": "TLSv1.3", "SSL_CIPHER": "TLS_AES_128_GCM_SHA256",
                          "SSL_CLIENT_VERIFY": "SUCCESS", "SSL_CLIENT_S_DN_CN": "alice"}  # fmt: skip
                told = {"forehand.unique_id": "id-17", "forehand.proxy_authority": "shop.example",
                        "forehand.vpc_endpoint": "vpce-08d2bf15"}  # fmt: skip
                assert found["told"] == {**told, **(secure if believed else {})}
    with served.connect() as sock:
        found = ask(sock, v2() + REQUEST)
        assert (found["scheme"], found["told"]) == ("http", {}), "nothing of it is another connection's"


def test_the_access_log_may_have_the_balancers_name_of_the_connection(serve: Serve) -> None:
    served = serve_proxied(
        serve, ("introduced:application",), "--access-log", "%h %{forehand.unique_id}e", versions="v2"
    )
    with served.connect() as sock:
        ask(sock, v2(CLIENT, SERVER, *FACTS) + REQUEST)
    served.until(lambda: "192.0.2.7 id-17" in served.log())


def test_a_header_is_as_long_as_its_limit_and_no_longer(serve: Serve) -> None:
    header = v2(CLIENT, SERVER, fact(4, b"\0" * 100))
    for limit, taken in ((len(header) - 1, False), (len(header), True), (len(header) + 1, True)):
        served = serve_proxied(serve, ("introduced:application",), f"--limit-proxy-header-bytes={limit}")
        assert served.raw(header + REQUEST[:-2] + b"Connection: close\r\n\r\n").startswith(b"HTTP/1.1 200") is taken
        assert served.stop() == 0, "what it has to say is said by then"
        assert ("the PROXY header is too long" in served.log()) is not taken


def test_a_header_that_does_not_come_ends_the_connection(serve: Serve) -> None:
    served = serve_proxied(serve, ("introduced:application",), "--header-timeout", "0.3", "--no-defer-accept")
    for sent in (b"", v1()[:20]):
        with served.connect() as sock:
            sock.sendall(sent)
            assert read_all(sock) == b""


def test_who_only_asks_whether_the_port_is_open_is_not_complained_of(serve: Serve) -> None:
    served = serve_proxied(serve, ("introduced:application",), "--no-defer-accept")
    for sent in (b"", v2(local=True)):
        with served.connect() as sock:
            sock.sendall(sent)
            sock.shutdown(socket.SHUT_WR)
            assert read_all(sock) == b""
    assert served.stop() == 0
    assert "refused" not in served.log()


def test_connections_that_change_their_worker_keep_their_client(serve: Serve) -> None:
    served = serve("holding", "--workers", "2", "--bind=127.0.0.1:0?proxy=v2")
    kept: list[socket.socket] = []
    before: set[bytes] = set()

    def both_have_some() -> bool:
        kept[:] = [served.connect() for _ in range(8)]
        for number, sock in enumerate(kept):
            id = fact(5, b"u" * 100)
            sock.sendall(v2(("192.0.2.7", 1000 + number), SERVER, id) + b"GET /sleep?1 HTTP/1.1\r\nHost: a\r\n\r\n")
        before.clear()
        before.update(read_reply(sock, bytearray())[2] for sock in kept)
        return len(before) == 2

    # One that had no processor for a while has left them to the other.
    served.until(both_have_some)

    def busy() -> list[bytes]:
        return [str(worker["pid"]).encode() for worker in served.status()["workers"] if worker["busy"]]

    # What has just been answered may be shown as busy for a moment.
    served.until(lambda: not busy())
    holding = served.connect()
    holding.sendall(v2() + b"GET /hold?100 HTTP/1.1\r\nHost: a\r\n\r\n")
    [pid] = served.until(busy)
    for _ in range(2):
        for number, sock in enumerate(kept):
            sock.sendall(b"GET /client HTTP/1.1\r\nHost: a\r\n\r\n")
            answer = read_reply(sock, bytearray())[2].split()
            assert answer[0] != pid
            assert answer[1:] == [b"192.0.2.7", str(1000 + number).encode(), b"u" * 100]
    assert pid in before, "some of them were elsewhere"
    for sock in (*kept, holding):
        sock.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--bind", "127.0.0.1:0?proxy=v3"), ["there is no PROXY header of version 'v3'", "?proxy=v2"]),
        (("--bind", "127.0.0.1:0?proxy="), ["there is no PROXY header of version ''"]),
        (("--bind", "127.0.0.1:0?proxy=v1?proxy=v2"), ["is not an address"]),
        (("--bind", "127.0.0.1:0?other=v1"), ["is not an address"]),
        (("--proxy-protocol-from", "10.0.0.0/8"), ["proxy_protocol_from", "add ?proxy=v2"]),
        (("--proxy-protocol-tls",), ["proxy_protocol_tls", "add ?proxy=v2"]),
        (("--bind", "127.0.0.1:0?proxy=v1", "--proxy-protocol-from", "10.0.0.0/99"), ["10.0.0.0/99"]),
    ],
)
def test_what_cannot_be_meant_is_refused_in_words(options: tuple[str, ...], words: list[str]) -> None:
    command = [PYTHON, "-m", "forehand", "introduced:application", *options]
    done = subprocess.run(command, cwd=HERE / "apps", capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    for word in words:
        assert word in done.stderr, done.stderr
