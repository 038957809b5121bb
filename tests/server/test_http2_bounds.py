"""What one client of HTTP/2 may cost, over a socket: limits below them, at them and above, and attacks that have names.

How each frame is judged is tested where that is done (crates/wire/tests); this is about what the server makes of it.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import hpack
import pytest
from h2client import CALM, CANCEL, INTERNAL_ERROR, NO_ERROR, PATIENCE, REFUSED_STREAM, Client, frame
from serving import Serving, read_all
from torment.looking import holding

DATA, HEADERS, RESET, SETTINGS, PING, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
FLOW_CONTROL, SETTINGS_TIMEOUT, FRAME_SIZE, COMPRESSION = 3, 4, 6, 9
END_STREAM, END_HEADERS = 1, 4
MIB = 1024 * 1024

#: Small, so that a few frames are enough.
LIMITS = (
    "--limit-h2-streams=5", "--limit-h2-heads-bytes=3000", "--limit-h2-block-bytes=2000", "--limit-h2-continuations=3",
    "--limit-h2-window-bytes=70000", "--limit-h2-connection-window-bytes=100000", "--limit-h2-glitches=20",
    "--limit-h2-glitch-rate=0", "--limit-h2-small-frames=10", "--h2-settings-timeout=1m", "--h2-goaway-grace=300ms",
    "--limit-h2-window-most-bytes=0", "--write-timeout=1m", "--keep-alive=1m", "--no-request-buffering",
)  # fmt: skip


@pytest.fixture(scope="module")
def served() -> Iterator[Serving]:
    """One server for all that leave it as it was."""
    server = Serving("many:application", "--bind=h2c://127.0.0.1:0", "--workers=1", *LIMITS)
    yield server
    server.kill()


@contextmanager
def impatient(option: str) -> Iterator[Serving]:
    """One of its own that is so in this alone: a busy machine shall have time for everything else."""
    server = Serving("many:application", "--bind=h2c://127.0.0.1:0", "--workers=1", *LIMITS, option)
    try:
        yield server
    finally:
        server.kill()


def memory(pid: int) -> int:
    """Bytes that a process holds and that are no code."""
    found = holding(pid)
    assert found is not None
    return found.anonymous_kib * 1024


def counted(server: Serving, reason: str) -> int:
    return server.counters().get(f'h2_faults{{reason="{reason}"}}', 0)


def head(path: str = "/bytes/1", method: str = "GET", **fields: str) -> bytes:
    pairs = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "a"), *fields.items()]
    return hpack.Encoder().encode(pairs, huffman=False)


def ends_with(client: Client) -> int:
    """The code that the connection ends with, if it does; otherwise it answers."""
    stream = client.machine.get_next_available_stream_id()
    client.sock.sendall(frame(HEADERS, END_STREAM | END_HEADERS, stream, head()))
    while not client.ended:
        data = client.sock.recv(65536)
        client.ended = not data
        client.raw += data
        if client.raw_frames(DATA, stream):
            return NO_ERROR
    goaway = client.raw_frames(7, 0)[-1]
    return int.from_bytes(goaway[4:8], "big")


@contextmanager
def waiting(server: Serving, gate: str, *streams: int) -> Iterator[Client]:
    """A client whose requests wait, and whose bodies nobody reads."""
    with Client(server.port) as client:
        for stream in streams or (101,):
            client.sock.sendall(frame(HEADERS, END_HEADERS, stream, head(f"/wait/{gate}", "POST")))
            client.machine.highest_outbound_stream_id = stream
        yield client
        with Client(server.port) as other:
            assert other.get(f"/open/{gate}") == b"open"


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_streams_that_are_under_way_are_counted(served: Serving, more: int) -> None:
    before = counted(served, "too-many-streams")
    with Client(served.port) as client:
        streams = [client.ask("/wait/streams" + str(more)) for _ in range(5 + more)]
        client.flush()
        if more > 0:
            assert client.reset_code(streams[-1]) == REFUSED_STREAM
        with Client(served.port) as other:
            assert other.get(f"/open/streams{more}") == b"open"
        assert set(client.replies(streams[:5]).values()) == {b"wait"}
    assert counted(served, "too-many-streams") - before == max(more, 0)


@pytest.mark.parametrize(("size", "code"), [(1999, NO_ERROR), (2000, NO_ERROR), (2001, CALM)])
def test_a_header_block_is_bounded_as_it_is_sent(served: Serving, size: int, code: int) -> None:
    block = head()
    block += hpack.Encoder().encode([("x", "v" * (size - len(block) - 6))], huffman=False)
    assert len(block) == size
    with Client(served.port) as client:
        client.sock.sendall(frame(HEADERS, END_STREAM | END_HEADERS, 101, block))
        client.machine.highest_outbound_stream_id = 101
        assert ends_with(client) == code


@pytest.mark.parametrize(("count", "code"), [(2, NO_ERROR), (3, NO_ERROR), (4, CALM)])
def test_continuations_are_counted(served: Serving, count: int, code: int) -> None:
    with Client(served.port) as client:
        client.sock.sendall(frame(HEADERS, END_STREAM, 101, head()))
        for number in range(count):
            client.sock.sendall(frame(CONTINUATION, END_HEADERS if number == count - 1 else 0, 101, b""))
        client.machine.highest_outbound_stream_id = 101
        assert ends_with(client) == code


@pytest.mark.parametrize(("length", "code"), [(16_383, NO_ERROR), (16_384, NO_ERROR), (16_385, FRAME_SIZE)])
def test_frames_have_a_largest_size(served: Serving, length: int, code: int) -> None:
    """`h2_frame_bytes`: what it begins with is the least that may be said."""
    with Client(served.port) as client:
        client.sock.sendall(frame(HEADERS, END_HEADERS, 101, head("/digest", "POST")))
        client.sock.sendall(frame(DATA, END_STREAM, 101, b"x" * length))
        client.machine.highest_outbound_stream_id = 101
        assert ends_with(client) == code


@pytest.mark.parametrize(("count", "code"), [(19, NO_ERROR), (20, NO_ERROR), (21, CALM)])
def test_frames_that_serve_no_request_are_counted(served: Serving, count: int, code: int) -> None:
    with Client(served.port) as client:
        client.sock.sendall(frame(0xBE, 0, 0, b"unknown") * count)
        assert ends_with(client) == code


@pytest.mark.parametrize(("count", "code"), [(29, NO_ERROR), (30, NO_ERROR), (31, CALM)])
def test_small_parts_of_a_body_that_nobody_reads_are_counted(served: Serving, count: int, code: int) -> None:
    """Ten cost nothing, and twenty more what any frame may cost that serves no request."""
    with waiting(served, f"small{count}") as client:
        client.sock.sendall(frame(DATA, 0, 101, b"x" * 10) * count)
        assert ends_with(client) == code


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_stream_has_a_window_for_what_nobody_has_read(served: Serving, more: int) -> None:
    before = counted(served, "stream-window")
    with waiting(served, f"window{more}") as client:
        client.sock.sendall(frame(DATA, 0, 101, b"x" * 14_000) * 4 + frame(DATA, 0, 101, b"x" * (14_000 + more)))
        assert ends_with(client) == NO_ERROR
        cut = [int.from_bytes(payload, "big") for payload in client.raw_frames(RESET, 101)]
        assert cut == ([FLOW_CONTROL] if more > 0 else [])
    assert counted(served, "stream-window") - before == max(more, 0)


@pytest.mark.parametrize(("length", "code"), [(9999, NO_ERROR), (10_000, NO_ERROR), (10_001, FLOW_CONTROL)])
def test_all_streams_have_one_window_together(served: Serving, length: int, code: int) -> None:
    with waiting(served, f"windows{length}", 101, 103) as client:
        for stream in (101, 103):
            client.sock.sendall(frame(DATA, 0, stream, b"x" * 15_000) * 3)
        client.sock.sendall(frame(DATA, 0, 103, b"x" * length))
        assert ends_with(client) == code


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_the_heads_of_all_streams_have_a_bound_together(served: Serving, more: int) -> None:
    before = counted(served, "heads-too-large")
    with Client(served.port) as client:
        both = b""
        for stream, size in ((101, 1500), (103, 1500 + more)):
            plain = len("GET /wait/heads-1 HTTP/2.0\r\nhost: a\r\nx: \r\n\r\n")
            block = head(f"/wait/heads{more:2}".replace(" ", "_"), x="v" * (size - plain))
            both += frame(HEADERS, END_STREAM | END_HEADERS, stream, block)
        # Read together: the first one is not over when the second one comes.
        client.sock.sendall(both)
        client.machine.highest_outbound_stream_id = 103
        with Client(served.port) as other:
            assert other.get(f"/open/heads{more:2}".replace(" ", "_")) == b"open"
        while not client.raw_frames(DATA, 101):
            more_of_it = client.sock.recv(65536)
            assert more_of_it, "it ends before that"
            client.raw += more_of_it
        cut = [int.from_bytes(payload, "big") for payload in client.raw_frames(RESET, 103)]
        assert cut == ([REFUSED_STREAM] if more > 0 else [])
    assert counted(served, "heads-too-large") - before == max(more, 0)


@pytest.mark.parametrize(("size", "code"), [(4095, NO_ERROR), (4096, NO_ERROR), (4097, COMPRESSION)])
def test_a_table_of_header_compression_is_no_larger_than_was_said(served: Serving, size: int, code: int) -> None:
    rest = size - 31
    update = bytes([0x3F, rest % 128 | 0x80, rest // 128])
    with Client(served.port) as client:
        client.sock.sendall(frame(HEADERS, END_STREAM | END_HEADERS, 101, update + head()))
        client.machine.highest_outbound_stream_id = 101
        assert ends_with(client) == code


def test_settings_that_are_not_acknowledged_end_it() -> None:
    with impatient("--h2-settings-timeout=600ms") as served:
        before = counted(served, "settings-timeout")
        with socket.create_connection(("127.0.0.1", served.port), PATIENCE) as sock:
            sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, b""))
            said = b""
            while data := sock.recv(65536):
                said += data
        assert int.from_bytes(said[said.index(b"the settings") - 4 :][:4], "big") == SETTINGS_TIMEOUT
        assert counted(served, "settings-timeout") == before + 1


def test_settings_that_are_not_acknowledged_end_it_whatever_else_comes() -> None:
    with impatient("--h2-settings-timeout=600ms") as served:
        before = counted(served, "settings-timeout")
        with socket.create_connection(("127.0.0.1", served.port), PATIENCE) as sock:
            sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, b""))
            said, stream, begun = b"", 1, time.monotonic()
            while b"the settings" not in said:
                assert time.monotonic() - begun < PATIENCE, "nobody ends it"
                sock.sendall(frame(HEADERS, END_STREAM | END_HEADERS, stream, head()))
                said, stream = said[-1000:] + sock.recv(65536), stream + 2
        assert counted(served, "settings-timeout") == before + 1


def test_a_connection_that_asks_nothing_is_ended_in_order() -> None:
    with impatient("--keep-alive=3s") as served:
        before = served.counters()["idle_timeouts"]
        with Client(served.port) as client:
            assert client.get("/bytes/1") == b"x"
            assert client.until_the_end() == NO_ERROR
        assert served.counters()["idle_timeouts"] == before + 1


def test_a_worker_that_stops_waits_for_a_sign_of_its_clients_no_longer_than_it_says() -> None:
    server = Serving("many:application", "--bind=h2c://127.0.0.1:0", *LIMITS)
    try:
        with Client(server.port) as client:
            assert client.get("/bytes/1") == b"x"
            begun = time.monotonic()
            server.process.terminate()
            said: list[float] = []
            # Nobody answers its PING.
            while data := client.sock.recv(65536):
                client.raw += data
                said += [time.monotonic()] * (len(client.raw_frames(7, 0)) - len(said))
            assert len(said) == 2 and said[1] - begun > 0.25
        assert server.process.wait(PATIENCE) == 0
    finally:
        server.kill()


def test_while_a_farewell_is_read_nothing_is_kept_of_what_was_said() -> None:
    options = ("--bind=h2c://127.0.0.1:0", "--bind=127.0.0.1:0", "--workers=0", "--linger-timeout=60s")
    server = Serving("secured:application", *options)
    # The table is filled, and then it is enough.
    said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, b"") + frame(SETTINGS, 1, 0, b"")
    said += frame(HEADERS, END_STREAM | END_HEADERS, 1, hpack.Encoder().encode([*_plain("/"), ("x", "y" * 3900)]))
    ended: list[socket.socket] = []

    def held() -> int:
        port = int(server.urls[1].rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as sock:
            sock.sendall(b"GET /allocated HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            return int(read_all(sock).rpartition(b"\r\n")[2])

    def told_to_be_calm(count: int) -> None:
        for _ in range(count):
            ended.append(socket.create_connection(("127.0.0.1", server.port), PATIENCE))
            ended[-1].sendall(said + frame(0xBE, 0, 0, b"unknown") * 400)
            assert b"\0\0\0\x0b" in read_all(ended[-1]), "it ends with ENHANCE_YOUR_CALM"

    try:
        # Between two of the steps in which the table of connections grows, at 256 and 512.
        told_to_be_calm(270)
        before = held()
        told_to_be_calm(200)
        each = (held() - before) / 200
        assert each < 1024, f"{each:.0f} bytes"
    finally:
        for sock in ended:
            sock.close()
        server.kill()


def test_a_window_that_never_opens_costs_its_stream_and_nothing_else() -> None:
    with impatient("--write-timeout=1s") as served:
        before = served.counters()["write_timeouts"]
        with Client(served.port, window=0) as client:
            for path in ("/bytes/200000", "/parts/30"):
                stream = client.ask(path)
                client.flush()
                client.head(stream)
                assert client.reset_code(stream) == CANCEL
            client.machine.update_settings({4: 1000})
            assert client.get("/bytes/10") == b"x" * 10
        assert served.counters()["write_timeouts"] == before + 2


def test_who_takes_nothing_of_what_is_sent_is_given_up() -> None:
    with impatient("--write-timeout=1s") as served:
        before = served.counters()["write_timeouts"]
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(PATIENCE)
        sock.connect(("127.0.0.1", served.port))
        with Client(0, window=2**31 - 1, sock=sock) as client:
            client.machine.increment_flow_control_window(2**30)
            for _ in range(4):
                client.ask("/endless")
            client.flush()
            served.until(lambda: served.counters()["write_timeouts"] > before)
            with Client(served.port) as other:
                served.until(lambda: int(other.get("/left")) >= 4)


def test_one_client_leaves_a_thread_for_the_others() -> None:
    """Whoever is not trusted to speak for others has all threads but one, however many of its streams wait for it."""
    options = ("--workers=1", "--threads=3", "--forwarded-allow-ips=192.0.2.1", "--queue-timeout=0")
    server = Serving("many:application", "--bind=h2c://127.0.0.1:0", *options)
    try:
        with Client(server.port, window=0) as client, Client(server.port) as other:
            streams = [client.ask("/parts/30") for _ in range(20)]
            client.flush()
            for stream in streams[:2]:
                client.head(stream)
            assert [other.get(f"/bytes/{length}") for length in (1, 2)] == [b"x", b"xx"]
            assert client.heads.keys() == set(streams[:2]), "the others wait for those"
            client.machine.update_settings({4: 2**20})
            client.flush()
            assert {len(content) for content in client.replies(streams).values()} == {300_000}
            # Those that wait when their client leaves keep nobody.
            for _ in range(20):
                client.ask("/parts/30")
            client.machine.update_settings({4: 0})
            client.flush()
        with Client(server.port) as other:
            server.until(lambda: other.get("/bytes/3") == b"xxx" and server.status()["workers"][0]["busy"] == 0)
    finally:
        server.kill()


def test_who_has_waited_too_long_for_other_streams_of_its_client_is_told_so() -> None:
    """Nobody need come or go for it, and a thread is left all the time."""
    options = ("--workers=1", "--threads=3", "--forwarded-allow-ips=192.0.2.1", "--queue-timeout=1s")
    server = Serving("many:application", "--bind=h2c://127.0.0.1:0", *options)
    try:
        with Client(server.port, window=0) as client:
            streams = [client.ask("/parts/30") for _ in range(20)]
            client.flush()
            statuses = [client.head(stream)[":status"] for stream in streams]
            assert statuses == ["200"] * 2 + ["503"] * 18
            server.counts("requests_waited_too_long", 18)
            client.machine.update_settings({4: 2**20})
            client.flush()
            assert {len(content) for content in client.replies(streams[:2]).values()} == {300_000}
            assert client.get("/bytes/3") == b"xxx"
    finally:
        server.kill()


@pytest.mark.parametrize("app", ["many:application", "many:app"])
def test_a_client_that_has_ended_and_lets_nothing_come_keeps_nobody(app: str) -> None:
    server = Serving(app, "--bind=h2c://127.0.0.1:0", "--workers=1", "--threads=2", "--write-timeout=60s")
    try:
        with Client(server.port, window=20_000) as client:
            endless = [client.ask("/endless"), client.ask("/endless")]
            client.flush()
            for stream in endless:
                client.take(stream, 20_000)
            client.sock.shutdown(socket.SHUT_WR)
            assert {client.reset_code(stream) for stream in endless} == {INTERNAL_ERROR}
        with Client(server.port) as other:
            server.until(lambda: int(other.get("/left")) == 2)
    finally:
        server.kill()


# --- Attacks that have names -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def usual() -> Iterator[Serving]:
    """A server with the limits that people have."""
    server = Serving("many:application", "--bind=h2c://127.0.0.1:0", "--workers=1", "--threads=4")
    yield server
    server.kill()


def test_a_bomb_of_indexed_fields_is_bounded(usual: Serving) -> None:
    """CVE-2026-49975: a byte of a block stands for a field of the table, on streams whose replies wait."""
    encoder = hpack.Encoder()
    with Client(usual.port, window=0) as client:
        other = Client(usual.port)
        other.get("/bytes/1")
        worker = usual.status()["workers"][0]["pid"]
        held = memory(worker)
        begin = encoder.encode([*_plain("/bytes/1000"), ("x-bomb", "b" * 3900)])
        client.sock.sendall(frame(HEADERS, END_STREAM | END_HEADERS, 1, begin))
        index = encoder.encode([("x-bomb", "b" * 3900)])
        assert len(index) == 1
        rest = encoder.encode(_plain("/bytes/1000"))
        for stream in range(3, 257, 2):
            client.sock.sendall(frame(HEADERS, END_STREAM | END_HEADERS, stream, rest + index * 60))
        assert other.get("/bytes/2") == b"xx"
        assert memory(worker) - held < 4 * MIB
        other.sock.close()


def _plain(path: str) -> list[tuple[str, str]]:
    return [(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", "a")]


def test_honest_small_messages_are_no_flood(usual: Serving) -> None:
    """What a client of a stream of small messages sends (RUSTSEC-2026-0258): each is read as it comes."""
    with Client(usual.port) as client:
        stream = client.ask("/digest", body=True)
        for _ in range(2000):
            client.machine.send_data(stream, b"small")
            client.flush()
        client.machine.end_stream(stream)
        client.flush()
        assert len(client.replies([stream])[stream]) == 64


def test_a_page_that_is_left_costs_nobody_the_connection(usual: Serving) -> None:
    """A browser that leaves a page resets all that it had asked for."""
    with Client(usual.port) as client:
        for _ in range(100):
            client.machine.reset_stream(client.ask("/bytes/10"))
        client.flush()
        assert client.get("/bytes/5") == b"xxxxx"


def test_an_idle_connection_holds_little(usual: Serving) -> None:
    """What HTTP/2 itself needs of a connection that has had requests: less than 8 KiB."""
    hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, b"") + frame(SETTINGS, 1, 0, b"")
    browser = [("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0")]
    browser += [
        ("accept", "text/html,application/xhtml+xml"),
        ("accept-language", "de,en;q=0.5"),
        ("cookie", "a=" + "b" * 60),
    ]
    ask = hello + frame(HEADERS, END_STREAM | END_HEADERS, 1, hpack.Encoder().encode([*_plain("/bytes/10"), *browser]))
    held: list[socket.socket] = []

    def connect(count: int) -> None:
        for _ in range(count):
            held.append(socket.create_connection(("127.0.0.1", usual.port), PATIENCE))
            held[-1].sendall(ask)
        for sock in held[-count:]:
            got = b""
            while b"x" * 10 not in got:
                got += sock.recv(65536)

    worker = usual.status()["workers"][0]["pid"]
    connect(100)
    before = memory(worker)
    connect(400)
    each = (memory(worker) - before) / 400
    for sock in held:
        sock.close()
    assert each < 8 * 1024
