"""ASGI over HTTP/2, on each event loop: what only ASGI has, and WebSockets on streams (RFC 8441)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import h2.events
import h2.settings
import pytest
from h2client import NO_ERROR, Client
from loops import LOOPS
from serving import Serving
from wsclient import frame

WEBSOCKET = ((":protocol", "websocket"), ("sec-websocket-version", "13"))


@pytest.fixture(scope="module", params=LOOPS)
def views(request: pytest.FixtureRequest) -> Iterator[Serving]:
    """A server of the views that speaks HTTP/2."""
    server = Serving("asgi_views:app", "--loop", request.param, "--bind=h2c://127.0.0.1:0", "--workers=1")
    yield server
    server.kill()


@pytest.fixture(scope="module", params=LOOPS)
def sockets(request: pytest.FixtureRequest) -> Iterator[Serving]:
    """The same of WebSockets."""
    target = "asgi_sockets:app"
    server = Serving(target, "--loop", request.param, "--bind=h2c://127.0.0.1:0", "--workers=1", "--lifespan=off")
    yield server
    server.kill()


def events_of(client: Client, stream: int) -> list[h2.events.Event]:
    """What comes on a stream until it ends or is cut."""
    found: list[h2.events.Event] = []
    while not any(isinstance(one, (h2.events.StreamEnded, h2.events.StreamReset)) for one in found):
        found += [one for one in client.events() if getattr(one, "stream_id", None) == stream]
        assert client.lives(), client.farewells
    return found


def test_trailers_end_a_stream_for_those_who_ask_for_them(views: Serving) -> None:
    with Client(views.port) as client:
        for fields, wanted in (((("te", "trailers"),), [(b"x-sum", b"7")]), ((), [])):
            stream = client.ask("/trailers", fields=fields)
            client.flush()
            trailers = [one for one in events_of(client, stream) if isinstance(one, h2.events.TrailersReceived)]
            assert [(str(n).encode(), str(v).encode()) for one in trailers for n, v in one.headers or ()] == wanted


def test_early_hints_come_before_the_reply(views: Serving) -> None:
    with Client(views.port) as client:
        stream = client.ask("/hints")
        client.flush()
        kinds = [type(one) for one in events_of(client, stream)]
        interim, final = h2.events.InformationalResponseReceived, h2.events.ResponseReceived
        assert kinds.index(interim) < kinds.index(final)


def test_a_client_that_waits_for_the_word_gets_it_when_its_body_is_wanted(views: Serving) -> None:
    with Client(views.port) as client:
        stream = client.ask("/echo", body=True, fields=(("expect", "100-continue"),))
        client.flush()
        heard: list[h2.events.Event] = []
        while not heard:
            heard = [one for one in client.events() if isinstance(one, h2.events.InformationalResponseReceived)]
        client.send(stream, b"the body")
        assert client.replies([stream])[stream] == b"the body"


def shake(client: Client, path: str, *fields: tuple[str, str]) -> int:
    """A stream that asks to become a WebSocket."""
    while not client.machine.remote_settings.enable_connect_protocol:
        client.events()
    stream = client.machine.get_next_available_stream_id()
    head = [(":method", "CONNECT"), (":scheme", "http"), (":path", path), (":authority", "a"), *WEBSOCKET, *fields]
    client.machine.send_headers(stream, head)
    client.flush()
    return stream


def test_a_stream_becomes_a_websocket_beside_others(sockets: Serving) -> None:
    with Client(sockets.port) as client:
        first, second = shake(client, "/echo"), shake(client, "/echo")
        for stream in (first, second):
            assert client.head(stream)[":status"] == "200"
        for number in range(50):
            for stream in (first, second):
                text = f"{stream} says {number}".encode()
                client.machine.send_data(stream, frame(0x81, text))
                client.flush()
                assert client.take(stream, len(text) + 2) == bytes([0x81, len(text)]) + text
        large = b"x" * 200_000
        client.send(first, frame(0x82, large), end=False)
        assert client.take(first, len(large) + 10)[10:] == large
        client.machine.send_data(first, frame(0x88, (1000).to_bytes(2, "big")))
        client.flush()
        assert client.take(first, 4) == b"\x88\x02\x03\xe8"
        client.machine.send_data(second, frame(0x81, b"still"))
        client.flush()
        assert client.take(second, 7)[2:] == b"still"


def test_its_scope_says_what_it_is(sockets: Serving) -> None:
    with Client(sockets.port) as client:
        stream = shake(client, "/scope", ("sec-websocket-protocol", "chat, super"))
        client.head(stream)
        said = client.take(stream, int.from_bytes(client.take(stream, 4)[2:], "big")).decode()
        for wanted in ("('type', 'websocket')", "('http_version', '2')", "('scheme', 'ws')", "['chat', 'super']"):
            assert wanted in said, said


def test_a_subprotocol_and_headers_are_in_the_answer(sockets: Serving) -> None:
    with Client(sockets.port) as client:
        stream = shake(client, "/protocols", ("sec-websocket-protocol", "chat, super"))
        head = client.head(stream)
        assert (head[":status"], head["sec-websocket-protocol"], head["x-mine"]) == ("200", "super", "1")
        assert not {"upgrade", "connection", "sec-websocket-accept"} & set(head)


def test_a_denial_is_an_ordinary_reply(sockets: Serving) -> None:
    with Client(sockets.port) as client:
        stream = shake(client, "/deny")
        head = client.head(stream)
        assert (head[":status"], head["x-why"]) == ("418", "tea")
        assert shake(client, "/refuse") and client.lives()


def test_a_client_that_cuts_the_stream_is_gone_for_its_socket_alone(sockets: Serving) -> None:
    with Client(sockets.port) as client:
        stream = shake(client, "/echo", ("x-client", "cut"))
        client.head(stream)
        client.machine.reset_stream(stream, 8)
        client.flush()

        def noted() -> object:
            ask = client.ask("/noted", fields=(("x-client", "cut"),))
            client.flush()
            return json.loads(client.replies([ask])[ask] or b"[]")

        assert sockets.until(noted) == [{"type": "websocket.disconnect", "code": 1006, "reason": ""}]


def test_other_protocols_and_other_versions_are_refused(sockets: Serving) -> None:
    with Client(sockets.port) as client:
        stream = shake(client, "/echo", ("sec-websocket-version", "12"))
        assert client.head(stream)[":status"] == "426"
        head = [(":method", "CONNECT"), (":scheme", "http"), (":path", "/"), (":authority", "a"), (":protocol", "x")]
        stream = client.machine.get_next_available_stream_id()
        client.machine.send_headers(stream, head)
        client.flush()
        assert client.head(stream)[":status"] == "501"


def test_replies_that_wait_are_sent_in_the_order_that_the_client_wants(views: Serving) -> None:
    with Client(views.port, window=0) as client:
        late = client.ask("/large", fields=(("priority", "u=7"),))
        early = client.ask("/large", fields=(("priority", "u=0"),))
        client.flush()
        for stream in (late, early):
            client.head(stream)
        # Both wait for their windows, which open at once.
        client.machine.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 20})
        client.machine.increment_flow_control_window(1 << 24)
        client.flush()
        order: list[int | None] = []
        while len(order) < 12:
            order += [one.stream_id for one in client.events() if isinstance(one, h2.events.DataReceived)]
        assert set(order[:8]) == {early}, order


def test_sockets_are_closed_with_a_word_where_the_server_stops() -> None:
    server = Serving("asgi_sockets:app", "--bind=h2c://127.0.0.1:0", "--lifespan=off")
    try:
        with Client(server.port) as client:
            stream = shake(client, "/echo")
            client.head(stream)
            server.process.terminate()
            assert client.take(stream, 4) == b"\x88\x02\x03\xe9"
            client.machine.send_data(stream, frame(0x88, (1001).to_bytes(2, "big")), end_stream=True)
            client.flush()
            assert client.until_the_end() == NO_ERROR
        assert server.process.wait(20) == 0
    finally:
        server.kill()
