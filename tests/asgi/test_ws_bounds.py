"""What a WebSocket's client can make a server keep: messages, pongs, fragments, what deflated data becomes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import pytest
from loops import LOOPS
from serving import PATIENCE, Serving
from test_http import ask, noted, wait_for  # type: ignore[import-not-found]
from torment import looking
from wsclient import Client, frame  # type: ignore[import-not-found]

pytestmark = pytest.mark.interpreters
DEFLATE = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"
MIB = 1 << 20


@pytest.fixture(params=LOOPS)
def alone(request: pytest.FixtureRequest, serve: Callable[..., Serving]) -> Iterator[Serving]:
    """A server of one process, whose memory is looked at."""
    yield serve("asgi_sockets:app", "--workers", "0", "--loop", request.param)


def peak(server: Serving) -> int:
    """The most memory that the server has had since `forget_peak`, in bytes."""
    found = looking.holding(server.pid)
    assert found
    return found.peak_kib * 1024


def forget_peak(server: Serving) -> int:
    """Begin a new peak; where it begins."""
    looking.forget_peak(server.pid)
    return peak(server)


def says_nothing(client: Client, server: Serving) -> bool:
    """True where the server has nothing for this client, once it has served others three times."""
    for _ in range(3):
        assert ask(server, "/hello")[0] == 200
    client.sock.setblocking(False)
    try:
        client.buffer += client.sock.recv(65536)
    except BlockingIOError:
        return not client.buffer
    finally:
        client.sock.settimeout(PATIENCE)
    return False


LIMITS = [
    ("999 bytes", 999, True), ("1000 bytes", 1000, False), ("1001 bytes", 1001, False), ("one of 5000", 5000, False),
]  # fmt: skip


@pytest.mark.parametrize("name, size, read_on", LIMITS, ids=[name for name, _, _ in LIMITS])
def test_bytes_that_wait_are_bounded(serve: Callable[..., Serving], name: str, size: int, read_on: bool) -> None:
    server = serve("asgi_sockets:app", "--limit-ws-queue-bytes", "1000")
    with Client(server, "/gated") as client:
        wait_for(lambda: "waits" in noted(server, client.name), "it never came")
        sizes = [500, size - 500] if size < 5000 else [size]
        # A ping is answered only where the server reads on behind the messages.
        client.send(*(frame(0x82, bytes(each)) for each in sizes), frame(0x89, b"read?"))
        if read_on:
            assert client.receive() == (0x8A, b"read?")
        else:
            assert says_nothing(client, server)
        ask(server, "/open")
        got = [client.receive() for _ in range(len(sizes) + (not read_on))]
        assert sorted(got) == sorted([(0x81, b"%d" % each) for each in sizes] + [(0x8A, b"read?")] * (not read_on))
    server.counts("ws_waits", int(not read_on))


@pytest.mark.parametrize("count, read_on", [(2, True), (3, False), (4, False)])
def test_messages_that_wait_are_counted(serve: Callable[..., Serving], count: int, read_on: bool) -> None:
    server = serve("asgi_sockets:app", "--limit-ws-queue", "3")
    with Client(server, "/gated") as client:
        wait_for(lambda: "waits" in noted(server, client.name), "it never came")
        client.send(frame(0x82, b"") * count, frame(0x89, b"read?"))
        if read_on:
            assert client.receive() == (0x8A, b"read?")
        else:
            assert says_nothing(client, server)
        ask(server, "/open")
        assert [client.receive().first for _ in range(count)].count(0x81) >= count - 1
    # It may fill up again while the application takes what is there.
    assert (server.counters()["ws_waits"] > 0) != read_on


def test_a_client_that_is_not_listened_to_costs_no_memory_and_loses_nothing(alone: Serving) -> None:
    with Client(alone, "/gated") as client:
        wait_for(lambda: "waits" in noted(alone, client.name), "it never came")
        before = forget_peak(alone)
        large = frame(0x82, bytes(MIB // 2))
        client.sock.setblocking(False)
        left, still = memoryview(large * 80), 0
        while left and still < 3:
            try:
                left = left[client.sock.send(left) :]
                still = 0
            except BlockingIOError:
                still += says_nothing(client, alone)
                client.sock.setblocking(False)
        assert left, "the server took 40 MiB that nobody has asked for"
        assert peak(alone) - before < 8 * MIB
        ask(alone, "/open")
        client.sock.settimeout(PATIENCE)
        client.send(bytes(left))
        assert [client.receive()[1] for _ in range(80)] == [b"%d" % (MIB // 2)] * 80
        assert peak(alone) - before < 12 * MIB


def test_a_client_that_is_not_listened_to_is_not_held_to_its_pings(serve: Callable[..., Serving], loop: str) -> None:
    options = ("--ws-ping-interval", "200ms", "--ws-ping-timeout", "1s", "--limit-ws-queue", "1", "--loop", loop)
    server = serve("asgi_sockets:app", *options)
    with Client(server, "/gated") as client:
        client.send(frame(0x82, b"one"), frame(0x82, b"two"))
        # Each ping is answered, and none of the answers is read: it would be given up after the first.
        for _ in range(4):
            assert client.receive() == (0x89, b"")
            client.send(frame(0x8A, b""))
        ask(server, "/open")
        got = [client.receive() for _ in range(2)]
        while got.count((0x81, b"3")) < 2:
            got.append(client.receive())
        assert not any(first == 0x88 for first, _ in got)


def test_who_does_not_listen_stops_its_client_and_loses_nothing(serve: Callable[..., Serving], loop: str) -> None:
    server = serve("asgi_sockets:app", "--loop", loop)
    with Client(server, "/deaf?0.5") as client:
        part = frame(0x81, b"x" * 1000)
        for _ in range(200):
            client.send(part * 50)
        client.text("how many?")
        assert client.receive()[1] == b"10001"


@pytest.mark.once
def test_a_million_pings_are_passed_over_but_for_the_last(alone: Serving) -> None:  # W9
    with Client(alone, "/echo") as client:
        before = forget_peak(alone)
        pings = b"".join(frame(0x89, b"%0100d" % number) for number in range(1000))
        for _ in range(999):
            client.send(pings)
        client.send(pings[: -len(frame(0x89, bytes(100)))], frame(0x89, b"the last"))
        assert ask(alone, "/hello")[0] == 200
        assert peak(alone) - before < 4 * MIB, "answers that nobody reads are kept"
        # Whoever reads again hears the latest: RFC 6455 section 5.5.3.
        answers = 1
        while client.receive()[1] != b"the last":
            answers += 1
        assert answers < 1_000_000
        client.text("alive")
        assert client.receive() == (0x81, b"alive")


@pytest.mark.once
def test_a_million_empty_fragments_are_not_kept(alone: Serving) -> None:  # W9
    with Client(alone, "/echo") as client:
        before = forget_peak(alone)
        client.send(frame(0x01, b""))
        with pytest.raises((BrokenPipeError, ConnectionResetError, EOFError)):
            for _ in range(1000):
                client.send(frame(0x00, b"") * 1000)
            # The kernel can have room for all of them while a busy server comes to none: then the end is read.
            while True:
                client.receive()
    assert ask(alone, "/hello")[0] == 200
    assert peak(alone) - before < 4 * MIB


@pytest.mark.once
def test_a_megabyte_that_would_become_a_gigabyte_is_stopped(alone: Serving) -> None:  # W10
    squeeze = zlib.compressobj(wbits=-15)
    bomb = (squeeze.compress(bytes(MIB)) + squeeze.flush(zlib.Z_FULL_FLUSH)) * 1024
    assert MIB * 0.9 < len(bomb) < MIB * 1.1
    with Client(alone, "/echo", DEFLATE) as client:
        before = forget_peak(alone)
        client.send(frame(0xC2, bomb))
        assert client.receive().code == 1009
        # It grows to the limit of a message, 16 MiB, and is copied once while it grows.
        assert peak(alone) - before < 40 * MIB
    assert ask(alone, "/hello")[0] == 200


@pytest.mark.once
@pytest.mark.parametrize("size, whole", [(99_999, True), (100_000, True), (100_001, False)])
@pytest.mark.parametrize("deflated", [False, True])
def test_a_message_is_measured_as_it_becomes(
    serve: Callable[..., Serving], size: int, whole: bool, deflated: bool
) -> None:
    server = serve("asgi_sockets:app", "--limit-ws-message-bytes", "100000")
    with Client(server, "/echo", DEFLATE) as client:
        squeeze = zlib.compressobj(wbits=-15)
        small = (squeeze.compress(bytes(size)) + squeeze.flush(zlib.Z_SYNC_FLUSH))[:-4]
        client.send(frame(0xC2, small) if deflated else frame(0x82, bytes(size)))
        got = client.receive()
        assert got.first == 0xC2 if whole else got.code == 1009
    server.counts("ws_faults", int(not whole))


@pytest.mark.once
def test_fragments_are_counted(serve: Callable[..., Serving]) -> None:
    server = serve("asgi_sockets:app", "--limit-ws-fragments", "3")
    with Client(server, "/echo") as client:
        client.send(frame(0x01, b"a"), frame(0x80, b"b"))
        assert client.receive() == (0x81, b"ab")
        client.send(frame(0x01, b"a"), frame(0x00, b"b"), frame(0x80, b"c"))
        assert client.receive() == (0x81, b"abc")
        server.counts("ws_faults", 0)
        client.send(frame(0x01, b""), frame(0x00, b""), frame(0x00, b""), frame(0x00, b""))
        assert client.receive().code == 1009
    server.counts("ws_faults", 1)


@pytest.mark.once
@pytest.mark.parametrize("window", range(9, 16))
def test_a_reader_with_a_small_window_can_read(serve: Callable[..., Serving], window: int) -> None:
    server = serve("asgi_sockets:app")
    offer = f"Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits={window}"
    with Client(server, "/echo", offer) as client:
        assert client.fields["sec-websocket-extensions"].endswith(f"; server_max_window_bits={window}")
        # What repeats is nearer and further away than the window.
        data = b"".join(b"%d, " % (number // 50 % 4000) for number in range(40_000))
        client.send(frame(0x82, data))
        first, got = client.receive()
        assert first == 0xC2 and len(got) < len(data)
        assert zlib.decompressobj(wbits=-window).decompress(got + b"\0\0\xff\xff") == data
