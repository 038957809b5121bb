"""WebSockets over ASGI, by a client that does exactly what a test says (docs/protocol-policy.md).

The numbers are those of the policy's cases, W1 to W13; W9 and W10 are in test_ws_bounds.py.
"""

from __future__ import annotations

import json
import signal
import socket
import time
import zlib
from collections.abc import Callable, Iterator

import pytest
from loops import LOOPS
from serving import PATIENCE, Serving, read_reply
from test_http import noted, wait_for  # type: ignore[import-not-found]
from wsclient import KEY, LINES, Client, frame  # type: ignore[import-not-found]

pytestmark = pytest.mark.interpreters
DEFLATE = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"


@pytest.fixture(scope="module", params=LOOPS)
def sockets(request: pytest.FixtureRequest) -> Iterator[Serving]:
    server = Serving("asgi_sockets:app", "--loop", request.param, "--limit-ws-message-bytes", "1M")
    yield server
    server.kill()


def heard(server: Serving, client: Client) -> list:
    """What the application has noted of this client, once there is something."""
    seen: list = []
    wait_for(lambda: seen.extend(noted(server, client.name)) or seen, "the application heard nothing")
    return seen


def test_messages_come_back_as_they_were(sockets: Serving) -> None:
    with Client(sockets, "/echo") as client:
        assert client.status == 101 and client.fields["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        assert "sec-websocket-extensions" not in client.fields
        for data in ("", "hello", "Grüße €", "x" * 125, "x" * 126, "x" * 70_000, "x" * 1_000_000):
            client.text(data)
            assert client.receive() == (0x81, data.encode())
        client.send(frame(0x82, bytes(range(256))))
        assert client.receive() == (0x82, bytes(range(256)))


def test_an_event_has_only_the_key_that_has_a_value(sockets: Serving) -> None:
    with Client(sockets, "/keys") as client:
        for first, key in ((0x81, b"text"), (0x82, b"bytes")):
            for data in (b"", b"hello"):
                client.send(frame(first, data))
                assert client.receive() == (0x81, key + b" type")


def test_fragments_and_pings_between_them(sockets: Serving) -> None:
    with Client(sockets, "/echo") as client:
        client.send(frame(0x01, b"one "), frame(0x89, b"there?"), frame(0x00, b"two "), frame(0x80, b"three"))
        assert client.receive() == (0x8A, b"there?")
        assert client.receive() == (0x81, b"one two three")


def test_frames_behind_the_handshake_are_kept(sockets: Serving) -> None:
    with Client(sockets, "/echo", behind=frame(0x81, b"early")) as client:
        assert client.receive() == (0x81, b"early")


def test_bytes_one_by_one_are_the_same_messages(sockets: Serving) -> None:
    with Client(sockets, "/echo") as client:
        client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in frame(0x81, "Grüße".encode()) * 3:
            client.send(bytes([byte]))
        assert [client.receive()[1].decode() for _ in range(3)] == ["Grüße"] * 3


def test_a_scope_of_a_socket(sockets: Serving) -> None:
    with Client(sockets, "/scope?a=b", "Sec-WebSocket-Protocol: x, y", "Sec-WebSocket-Protocol: z") as client:
        scope = dict(eval(client.receive()[1]))
    assert scope["type"] == "websocket" and scope["scheme"] == "ws" and scope["path"] == "/scope"
    assert scope["query_string"] == b"a=b" and scope["subprotocols"] == ["x", "y", "z"]
    assert "method" not in scope and scope["extensions"] == {"websocket.http.response": {}}
    assert scope["http_version"] == "1.1" and scope["state"] == {}


def test_a_subprotocol_is_one_that_was_offered(sockets: Serving) -> None:
    with Client(sockets, "/protocols", "Sec-WebSocket-Protocol: chat, superchat") as client:
        assert client.fields["sec-websocket-protocol"] == "superchat" and client.fields["x-mine"] == "1"
        assert json.loads(client.receive()[1]) == ["chat", "superchat"]
    with Client(sockets, "/wrong-protocol", "Sec-WebSocket-Protocol: chat") as client:
        assert client.status == 500
    sockets.says("was not offered by the client")


def test_a_subprotocol_of_other_bytes_harms_nobody(sockets: Serving) -> None:  # W1
    with Client(sockets, "/echo", "Sec-WebSocket-Protocol: caf\xe9") as client:
        client.text("alive")
        assert client.receive()[1] == b"alive"


ORDINARY = [
    ("POST", LINES),
    ("GET", [line for line in LINES if not line.startswith("Connection")]),
    ("GET", ["Upgrade: foo", *LINES[1:]]),
]


@pytest.mark.parametrize("method, lines", ORDINARY)
def test_what_is_no_handshake_is_an_ordinary_request(sockets: Serving, method: str, lines: list[str]) -> None:  # W2
    with Client(sockets, "/echo", method=method, standard=lines) as client:
        assert (client.status, client.body) == (200, b"an ordinary reply")


def test_http_1_0_has_no_upgrade(sockets: Serving) -> None:  # W2
    reply = sockets.raw(("GET /echo HTTP/1.0\r\n" + "".join(f"{line}\r\n" for line in LINES) + "\r\n").encode())
    assert reply.startswith(b"HTTP/1.1 200 ")


def test_another_version_is_told_which_one_would_do(sockets: Serving) -> None:  # W3
    lines = [line.replace("13", "8") for line in LINES]
    with Client(sockets, "/echo", standard=lines) as client:
        assert client.status == 426 and client.fields["sec-websocket-version"] == "13"


@pytest.mark.parametrize("key", ["", "short", KEY[:-1], "=" * 24])
def test_a_bad_key_is_refused(sockets: Serving, key: str) -> None:  # W3
    with Client(sockets, "/echo", standard=[*LINES[:3], f"Sec-WebSocket-Key: {key}"]) as client:
        assert client.status == 400


def test_the_origin_is_the_application_s_to_judge(sockets: Serving) -> None:  # W12
    with Client(sockets, "/origin", "Origin: https://shop.example") as client:
        assert (client.status, client.receive()) == (101, (0x82, b"https://shop.example"))
    with Client(sockets, "/origin", "Origin: https://evil.example") as client:
        assert client.status == 403
    with Client(sockets, "/origin") as client:
        assert client.status == 403
    # The server itself refuses no origin.
    with Client(sockets, "/echo", "Origin: null") as client:
        assert client.status == 101


NEVER_SENT = (0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535)
BROKEN = [
    ("unmasked", frame(0x81, b"hello", mask=False), 1002),
    ("a reserved bit", frame(0xC1, b"hello"), 1002),
    *((f"opcode {opcode}", frame(0x80 | opcode, b""), 1002) for opcode in (*range(3, 8), *range(11, 16))),
    ("a ping in fragments", frame(0x09, b""), 1002),
    ("a ping that is too long", frame(0x89, bytes(126)), 1002),
    ("nothing to continue", frame(0x80, b""), 1002),
    ("a message inside another", frame(0x01, b"") + frame(0x81, b""), 1002),
    ("no UTF-8", frame(0x81, b"\xf4\x90\x80\x80"), 1007),
    ("no UTF-8 over fragments", frame(0x01, b"\xf4") + frame(0x80, b"\x90\x80\x80"), 1007),
    *((f"code {code}", frame(0x88, code.to_bytes(2, "big")), 1002) for code in NEVER_SENT),
    ("a close of one byte", frame(0x88, b"\x03"), 1002),
    ("a reason that is no UTF-8", frame(0x88, b"\x03\xe8\xff"), 1007),
    ("a length of 2^63", b"\x82\xff\x80" + bytes(7) + b"\0\0\0\0", 1009),
    ("ten gigabytes", b"\x82\xff" + (10_000_000_000).to_bytes(8, "big") + b"\0\0\0\0", 1009),
    ("a megabyte and a byte", frame(0x82, bytes((1 << 20) + 1)), 1009),
    ("a megabyte and a byte in fragments", frame(0x02, bytes(1 << 20)) + frame(0x80, b"x"), 1009),
    ("too many fragments", frame(0x01, b"") + frame(0x00, b"") * 20_000, 1009),
]


@pytest.mark.parametrize("name, data, code", BROKEN, ids=[name for name, _, _ in BROKEN])
def test_a_broken_rule_closes_with_its_code(sockets: Serving, name: str, data: bytes, code: int) -> None:  # W4-W9
    with Client(sockets, "/echo") as client:
        client.send(data)
        assert client.receive().code == code
        client.sock.shutdown(socket.SHUT_WR)
        assert client.ends()
    assert heard(sockets, client)[0]["code"] == code


def deflated(data: bytes) -> bytes:
    squeeze = zlib.compressobj(wbits=-15)
    return (squeeze.compress(data) + squeeze.flush(zlib.Z_SYNC_FLUSH))[:-4]


def inflated(data: bytes) -> bytes:
    return zlib.decompressobj(wbits=-15).decompress(data + b"\0\0\xff\xff")


def test_deflate_is_agreed_on_and_used(sockets: Serving) -> None:
    with Client(sockets, "/echo", DEFLATE) as client:
        agreed = client.fields["sec-websocket-extensions"]
        assert agreed == "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
        for data in (b"x" * 5000, b"small", "Grüße ".encode() * 10_000):
            client.send(frame(0xC1, deflated(data)))
            first, got = client.receive()
            assert (inflated(got) if first == 0xC1 else got) == data
            assert (first == 0xC1) == (len(data) > 1000)


def test_noise_is_no_deflated_message(sockets: Serving) -> None:
    with Client(sockets, "/echo", DEFLATE) as client:
        client.send(frame(0xC2, b"\xff" * 50))
        assert client.receive().code == 1007


def test_a_refusal_is_403_and_the_connection_speaks_http(sockets: Serving) -> None:  # W11
    with Client(sockets, "/refuse", behind=b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n") as client:
        assert client.status == 403
        assert client._answer()[::2] == (200, b"an ordinary reply")
    assert heard(sockets, client)[0]["type"] == "websocket.disconnect"


def test_a_denial_has_words_of_its_own(sockets: Serving) -> None:
    with Client(sockets, "/deny") as client:
        assert (client.status, client.fields["x-why"], client.body) == (418, "tea", b"a teapot")


@pytest.mark.parametrize("path", ["/raise-early", "/return-early"])
def test_an_application_that_does_not_answer_the_handshake(sockets: Serving, path: str) -> None:
    with Client(sockets, path) as client:
        assert client.status == 500
    sockets.says(f"the application failed: GET {path}")


def test_a_client_that_takes_nothing_is_given_up(serve: Callable[..., Serving], loop: str) -> None:  # W9
    server = serve("asgi_sockets:app", "--write-timeout", "300ms", "--loop", loop)
    with Client(server, "/flood") as client:
        seen: list = []
        wait_for(
            lambda: seen.extend(noted(server, client.name)) or "ConnectionResetError" in seen, f"it went on: {seen}"
        )


def test_an_application_that_ends_closes(sockets: Serving) -> None:
    with Client(sockets, "/return") as client:
        assert client.receive().code == 1000
        client.send(frame(0x88, (1000).to_bytes(2, "big")))
        assert client.ends()
    with Client(sockets, "/raise") as client:
        assert client.receive().code == 1011
    wait_for(lambda: ", a WebSocket\n" in sockets.log(), sockets.log())


def test_an_application_closes_with_its_code_and_reason(sockets: Serving) -> None:
    with Client(sockets, "/close") as client:
        closing = client.receive()
        assert (closing.code, closing.data[2:]) == (4001, b"genug")
        client.send(frame(0x81, b"too late"), frame(0x88, closing.data))
        assert client.ends()
    assert heard(sockets, client) == [{"type": "websocket.disconnect", "code": 4001, "reason": "genug"}]
    with Client(sockets, "/bad-close") as client:
        assert b"must not be sent" in client.receive()[1]


def test_a_client_closes_with_its_code_and_reason(sockets: Serving) -> None:
    for data, told in ((b"\x03\xe9bye", (1001, "bye")), (b"", (1005, ""))):
        with Client(sockets, "/echo") as client:
            client.send(frame(0x88, data))
            assert client.receive() == (0x88, data)
            assert client.ends()
        event = heard(sockets, client)[0]
        assert (event["code"], event["reason"]) == told


def test_a_client_that_leaves_without_a_word_is_1006(sockets: Serving) -> None:
    for rude in (b"", frame(0x81, b"in the middle")[:7]):
        with Client(sockets, "/echo") as client:
            client.send(rude)
        assert heard(sockets, client)[0]["code"] == 1006


def test_a_client_that_leaves_in_the_handshake(sockets: Serving) -> None:
    head = "".join(f"{line}\r\n" for line in ("GET /early-bird HTTP/1.1", "Host: a", "X-Client: early", *LINES))
    for cut in (30, len(head)):
        with sockets.connect() as sock:
            sock.sendall(head[:cut].encode())
    seen: list = []
    with sockets.connect() as sock:
        sock.sendall(f"{head}\r\n".encode())
        wait_for(lambda: seen.extend(noted(sockets, "early")) or seen, "it was not called")
    wait_for(lambda: seen.extend(noted(sockets, "early")) or len(seen) > 1, f"it heard {seen}")
    assert seen == ["waits", ["websocket.disconnect", "ConnectionResetError"]]


def test_who_passes_over_that_its_client_has_left_harms_nobody(sockets: Serving) -> None:
    with Client(sockets, "/ignores") as client:
        client.text("hello")
    assert heard(sockets, client) == [[["ConnectionResetError"], ["websocket.disconnect"]]]


def test_events_in_wrong_orders(sockets: Serving) -> None:
    with Client(sockets, "/order") as client:
        assert json.loads(client.receive()[1]) == [
            "RuntimeError", "RuntimeError", "TypeError", "ValueError",
            "RuntimeError", "ValueError", "ValueError", "TypeError", "TypeError", "ValueError", "RuntimeError",
        ]  # fmt: skip
        assert client.receive().code == 1000
    assert heard(sockets, client) == ["RuntimeError"]


def test_a_sender_waits_for_a_slow_reader_and_hears_when_it_leaves(sockets: Serving) -> None:
    with Client(sockets, "/flood") as client:
        last: list = [None]
        quiet = 0
        while quiet < 5:
            now = noted(sockets, client.name)
            quiet = quiet + 1 if not now else 0
            last = now or last
            time.sleep(0.05)
        assert int(last[0].split()[1]) * 65536 < 32_000_000, last
        for _ in range(50):
            assert len(client.receive()[1]) == 65536
    seen: list = []
    wait_for(lambda: seen.extend(noted(sockets, client.name)) or "ConnectionResetError" in seen, f"it went on: {seen}")


def test_a_silent_client_is_pinged_and_then_given_up(serve: Callable[..., Serving], loop: str) -> None:
    options = ("--ws-ping-interval", "200ms", "--ws-ping-timeout", "3s", "--loop", loop)
    server = serve("asgi_sockets:app", *options)
    with Client(server, "/echo") as client:
        for _ in range(3):
            assert client.receive() == (0x89, b"")
            client.send(frame(0x8A, b""))
        server.counts("ws_ping_timeouts", 0)
        assert client.receive() == (0x89, b"")
        assert client.receive().code == 1011
    assert heard(server, client)[0]["code"] == 1006
    server.counts("ws_ping_timeouts", 1)


def test_pings_can_be_switched_off(serve: Callable[..., Serving]) -> None:
    server = serve("asgi_sockets:app", "--ws-ping-interval", "0", "--ws-ping-timeout", "100ms")
    with Client(server, "/echo") as client:
        client.sock.settimeout(0.5)
        with pytest.raises(TimeoutError):
            client.receive()


def test_a_client_that_does_not_answer_a_close_is_not_waited_for(serve: Callable[..., Serving], loop: str) -> None:
    server = serve("asgi_sockets:app", "--ws-close-timeout", "200ms", "--loop", loop)
    with Client(server, "/close") as client:
        assert client.receive().code == 4001
        assert client.ends()
    server.counts("ws_close_timeouts", 1)


def test_a_stop_closes_sockets_in_order(serve: Callable[..., Serving], loop: str) -> None:  # W13
    server = serve("asgi_sockets:app", "--loop", loop)
    with Client(server, "/slow") as slow, Client(server, "/echo") as echo:
        assert slow.receive()[1] == b"here"
        server.process.send_signal(signal.SIGTERM)
        for client in (slow, echo):
            assert client.receive().code == 1001
            client.send(frame(0x88, (1001).to_bytes(2, "big")))
            assert client.ends()
    assert server.process.wait(PATIENCE) == 0
    assert "heard websocket.disconnect 1001" in server.log() and "cancelled" not in server.log()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_answers_a_handshake_whose_application_waits_for_more(
    serve: Callable[..., Serving], loop: str, signum: int
) -> None:
    server = serve("asgi_sockets:app", "--loop", loop, "--graceful-timeout", "60")
    with server.connect() as sock:
        sock.sendall("\r\n".join(["GET /undecided HTTP/1.1", "Host: a", *LINES, "", ""]).encode())
        wait_for(lambda: "undecided" in server.log(), "it was not called")
        server.process.send_signal(signum)
        assert read_reply(sock, bytearray())[0] == 503
    assert server.process.wait(PATIENCE) == 0, server.log()
    server.says("undecided heard {'type': 'websocket.disconnect', 'code': 1006, 'reason': ''}")
    assert "error" not in server.log()
