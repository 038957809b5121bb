"""HTTP/2 by prior knowledge: many streams of one connection before an application, however its worker is driven."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import h2.events
import h2.settings
import pytest
from drivers import driving
from gatewayrequests import SAME, exchange, parsed
from h2client import CALM, CANCEL, INTERNAL_ERROR, NO_ERROR, PATIENCE, Client
from proxyheaders import v2
from serving import Serving, read_reply

Serve = Callable[..., Serving]

DRIVEN = driving("many")
driven = pytest.mark.parametrize("driver", DRIVEN)


def at(serve: Serve, driver: tuple[str, ...], *options: str, **more: object) -> Serving:
    return serve(*driver, "--bind=h2c://127.0.0.1:0", *options, **more)


#: What says it is another version, and what belongs to one connection of HTTP/1.
VERSION = ("SERVER_PROTOCOL", "http_version")
ONE_CONNECTION = ("REMOTE_PORT", "HTTP_CONNECTION")


@driven
def test_a_body_comes_back_whatever_its_size(serve: Serve, driver: tuple[str, ...]) -> None:
    served = at(serve, driver)
    with Client(served.port) as client:
        for size in (0, 1, 5000, 70_000, 300_000, 2_000_000):
            content = os.urandom(size)
            stream = client.ask("/digest", body=True)
            client.send(stream, content)
            assert client.replies([stream])[stream] == hashlib.sha256(content).hexdigest().encode(), size
    served.counts("http_parse_errors_total", 0)


@driven
def test_uploads_on_many_streams_share_the_windows(serve: Serve, driver: tuple[str, ...]) -> None:
    served = at(serve, driver)
    content = os.urandom(400_000)
    with Client(served.port) as client:
        streams = [client.ask("/digest", body=True) for _ in range(6)]
        sent = dict.fromkeys(streams, 0)
        answers: dict[int, bytes] = dict.fromkeys(streams, b"")
        ended: set[int] = set()
        while len(ended) < len(streams):
            for stream in streams:
                room = min(client.machine.local_flow_control_window(stream), 10_000, len(content) - sent[stream])
                if room > 0:
                    client.machine.send_data(stream, content[sent[stream] : sent[stream] + room])
                    sent[stream] += room
                    if sent[stream] == len(content):
                        client.machine.end_stream(stream)
            client.flush()
            if any(sent[s] < len(content) and client.machine.local_flow_control_window(s) > 0 for s in streams):
                continue
            for event in client.events():
                if isinstance(event, h2.events.DataReceived):
                    answers[event.stream_id or 0] += event.data or b""
                elif isinstance(event, h2.events.StreamEnded):
                    ended.add(event.stream_id or 0)
                assert not isinstance(event, (h2.events.ConnectionTerminated, h2.events.StreamReset)), event
        assert set(answers.values()) == {hashlib.sha256(content).hexdigest().encode()}


@driven
def test_bodies_that_nobody_reads_hold_up_no_other(serve: Serve, driver: tuple[str, ...]) -> None:
    served = at(serve, driver)
    with Client(served.port) as client:
        client.sock.settimeout(5)
        unread = [client.ask("/wait/unread", body=True) for _ in range(20)]
        client.flush()
        content = os.urandom(300_000)
        for stream in unread:
            # As much as may come of it, which is bounded where nobody reads.
            sent = 0
            while sent < len(content) and (room := client.machine.local_flow_control_window(stream)):
                more = min(room, 16_384, len(content) - sent)
                client.machine.send_data(stream, content[:more])
                sent += more
            client.flush()
            # What the server has said by now is heard.
            assert client.get("/bytes/1") == b"x"
        stream = client.ask("/digest", body=True)
        client.send(stream, content)
        assert client.replies([stream])[stream] == hashlib.sha256(content).hexdigest().encode()
        assert client.get("/open/unread") == b"open"


@driven
def test_a_client_of_small_windows_gets_all_of_a_reply(serve: Serve, driver: tuple[str, ...]) -> None:
    served = at(serve, driver)
    with Client(served.port, window=1000) as client:
        # h2 raises where a frame is larger than its window.
        assert client.get("/bytes/200000") == b"x" * 200_000
        assert client.get("/parts/30") == b"".join(b"%05d" % number * 2000 for number in range(30))


@driven
def test_a_hundred_streams_are_answered_each_with_its_own(serve: Serve, driver: tuple[str, ...]) -> None:
    served = at(serve, driver)
    with Client(served.port) as client:
        streams = {client.ask(f"/bytes/{size}"): size for size in range(100)}
        client.flush()
        assert {stream: len(content) for stream, content in client.replies(list(streams)).items()} == streams


@driven
def test_a_stream_that_waits_holds_up_no_other(serve: Serve, driver: tuple[str, ...]) -> None:
    served = at(serve, driver)
    with Client(served.port) as client:
        waits = client.ask("/wait/a")
        client.flush()
        for number in range(31):
            assert client.get(f"/bytes/{number}") == b"x" * number
        opens = client.ask("/open/a")
        client.flush()
        assert client.replies([waits, opens]) == {waits: b"wait", opens: b"open"}
        # The same where all of them come together.
        waits, *others = [client.ask(path) for path in ("/wait/b", *[f"/bytes/{number}" for number in range(31)])]
        client.flush()
        found = client.replies(others)
        assert [len(found[stream]) for stream in others] == list(range(31)) and waits not in client.done
        assert client.get("/open/b") == b"open" and client.replies([waits])[waits] == b"wait"


@driven
def test_a_reply_that_breaks_is_cut_and_the_others_go_on(serve: Serve, driver: tuple[str, ...]) -> None:
    served = at(serve, driver)
    with Client(served.port) as client:
        fails, parts = client.ask("/fails"), client.ask("/parts/3")
        client.flush()
        ends: dict[int, object] = {}
        while len(ends) < 2:
            for event in client.events():
                if isinstance(event, h2.events.StreamReset):
                    ends[event.stream_id] = int(event.error_code)
                elif isinstance(event, h2.events.StreamEnded):
                    ends[event.stream_id] = "ended"
        assert ends == {fails: INTERNAL_ERROR, parts: "ended"}
        assert client.get("/bytes/3") == b"xxx"


@driven
def test_an_application_hears_of_a_stream_that_its_client_cuts(serve: Serve, driver: tuple[str, ...]) -> None:
    served = at(serve, driver)
    with Client(served.port) as client:
        endless = client.ask("/endless")
        client.flush()
        client.head(endless)
        client.machine.reset_stream(endless)
        client.flush()
        # Its call has ended, as the application was told.
        served.until(lambda: client.get("/left") == b"1")


@driven
def test_who_leaves_in_the_middle_leaves_nothing_behind(serve: Serve, driver: tuple[str, ...]) -> None:
    served = at(serve, driver)
    with Client(served.port) as client:
        endless = [client.ask("/endless") for _ in range(3)]
        client.flush()
        begun: set[int | None] = set()
        while not begun.issuperset(endless):
            begun |= {one.stream_id for one in client.events() if isinstance(one, h2.events.ResponseReceived)}
        upload = client.ask("/digest", body=True)
        client.machine.send_data(upload, b"x" * 1000)
        client.flush()
        client.events()
    with Client(served.port) as client:
        served.until(lambda: client.get("/left") == b"3")
        assert client.get("/bytes/1") == b"x"
    served.counts("connections_closed", 2)


@driven
def test_bodies_and_windows_that_every_thread_waits_for_arrive(serve: Serve, driver: tuple[str, ...]) -> None:
    """Every thread there is waits for what only the connection brings, on which all of them are."""
    threads = ("--threads=2",) if driver[2] == "wsgi" and "gevent" not in driver else ()
    served = at(serve, driver, *threads)
    with Client(served.port, window=20_000) as client:
        bodies = [client.ask("/digest", body=True) for _ in range(2)]
        for stream in bodies:
            client.machine.send_data(stream, b"begun")
        client.flush()
        replies = [client.ask("/parts/30") for _ in range(2)]
        client.flush()
        if "--no-request-buffering" in driver:
            served.until(lambda: served.counters()["requests_total"] == 4)
        else:
            # The threads have replies whose windows are used up.
            while sum(len(client.content[stream]) for stream in replies) < 40_000:
                client.events(gives_back=False)
        had = {stream: len(client.content[stream]) for stream in replies}
        for stream in bodies:
            client.send(stream, b" and ended")
        for stream, length in had.items():
            if length:
                client.machine.acknowledge_received_data(length, stream)
        client.flush()
        content = client.replies([*bodies, *replies])
        assert {len(content[stream]) for stream in replies} == {300_000}
        whole = hashlib.sha256(b"begun and ended").hexdigest().encode()
        assert [content[stream] for stream in bodies] == [whole, whole]


@driven
def test_a_stop_answers_what_is_under_way_and_says_so(serve: Serve, driver: tuple[str, ...], tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    served = at(serve, driver, env={"GATE": str(gate)})
    with Client(served.port) as client:
        waits = client.ask("/file")
        client.flush()
        assert client.get("/bytes/1") == b"x"
        served.process.send_signal(signal.SIGTERM)
        # That streams end, and behind the PING that comes back with it, which one was the last.
        while len(client.farewells) < 2:
            client.events()
        assert client.farewells == [(2**31 - 1, NO_ERROR), (waits + 2, NO_ERROR)]
        gate.touch()
        assert client.replies([waits]) == {waits: b"file"}
        assert client.until_the_end() == NO_ERROR
    assert served.process.wait(PATIENCE) == 0


@driven
def test_a_reload_loses_no_request(serve: Serve, driver: tuple[str, ...]) -> None:
    served = at(serve, driver, "--workers=1")
    answered, connections = 0, 0
    while answered < 300:
        with Client(served.port) as client:
            connections += 1
            while not client.farewells and answered < 300:
                stream = client.ask("/bytes/10")
                client.flush()
                while stream not in client.done and client.lives():
                    client.events()
                if stream not in client.done:
                    # It was asked behind the farewell, which says that nobody has begun it.
                    assert stream > client.farewells[-1][0] and client.farewells[-1][1] == NO_ERROR
                    break
                assert client.content[stream] == b"x" * 10
                answered += 1
                if answered == 50:
                    assert served.order("reload")[0] == 0
    assert connections >= 2, "the first worker has said that it leaves"


@driven
def test_the_same_request_means_the_same_as_over_http1(serve: Serve, driver: tuple[str, ...]) -> None:
    served = serve("doors:app" if driver[0].endswith(":app") else "doors:checked", *driver[1:])
    for method, uri, headers, body in SAME:
        lines = "".join(f"{name}: {value}\r\n" for name, value in {"Host": "a", **headers}.items())
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        plain = f"{method} {uri} HTTP/1.1\r\n{lines}{length}Connection: close\r\n\r\n".encode() + body
        by_http1 = json.loads(parsed(exchange(served, plain))[2])
        with Client(served.port) as client:
            fields = tuple((name.lower(), value) for name, value in headers.items())
            fields += (("content-length", str(len(body))),) if body else ()
            stream = client.ask(uri, method=method, body=bool(body), fields=fields)
            if body:
                client.send(stream, body)
            client.flush()
            by_http2 = json.loads(client.replies([stream])[stream])
        versions = [found.pop(name) for found in (by_http1, by_http2) for name in VERSION if name in found]
        assert versions in (["HTTP/1.1", "HTTP/2.0"], ["1.1", "2"])
        for found in (by_http1, by_http2):
            for name in ONE_CONNECTION:
                found.pop(name, None)
            if isinstance(found.get("headers"), list):
                found["client"] = found["client"][0]
                found["headers"] = sorted(pair for pair in found["headers"] if pair[0] != "connection")
        assert by_http1 == by_http2, (method, uri)


def test_the_same_port_speaks_both_with_peers_that_are_trusted(serve: Serve, tmp_path: Path) -> None:
    served = serve("many:application")
    for how, version in (("--http2-prior-knowledge", "2"), ("--http1.1", "1.1")):
        url = f"{served.url}/bytes/5"
        command = ["curl", "-sS", how, "-w", "%{http_version}", url]
        got = subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE).stdout
        assert got == b"xxxxx" + version.encode()
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    for split in range(1, len(preface)):
        with socket.create_connection(("127.0.0.1", served.port), PATIENCE) as sock:
            sock.sendall(preface[:split])
            client = Client(0, sock=_Without(sock, split))
            assert client.get("/bytes/3") == b"xxx", split


class _Without:
    """A socket on which the first bytes of what is sent have been sent already."""

    def __init__(self, sock: socket.socket, already: int) -> None:
        self.sock, self.already = sock, already

    def sendall(self, data: bytes) -> None:
        skipped = min(self.already, len(data))
        self.already -= skipped
        self.sock.sendall(data[skipped:])

    def recv(self, size: int) -> bytes:
        return self.sock.recv(size)


@driven
def test_loads_of_a_client_that_is_not_ours_are_answered_to_the_last(serve: Serve, driver: tuple[str, ...]) -> None:
    served = at(serve, driver)
    load = ["h2load", "-n", "3000", "-c", "4", "-m", "20", f"http://127.0.0.1:{served.port}/bytes/2000"]
    told = subprocess.run(load, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
    assert "3000 succeeded, 0 failed, 0 errored, 0 timeout" in told, told
    fetch = ["nghttp", "-ns", "--no-dep", *(f"http://127.0.0.1:{served.port}/bytes/{number}" for number in range(20))]
    told = subprocess.run(fetch, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
    assert told.count(" 200 ") == 20, told
    served.counts("application_errors", 0)


@pytest.mark.parametrize("bind", ["127.0.0.1:0", "http://127.0.0.1:0"])
def test_nobody_is_upgraded_from_http1(serve: Serve, bind: str) -> None:
    """RFC 9113 §3.1 has dropped it, and where a proxy passes such a request on, what follows is hidden from it."""
    served = serve("many:application", "--bind", bind)
    upgrade = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
    with served.connect() as sock:
        for length in (3, 4):
            sock.sendall(f"GET /bytes/{length} HTTP/1.1\r\nHost: a\r\n{upgrade}".encode())
            status, fields, body = read_reply(sock, bytearray())
            assert (status, body) == (200, b"x" * length) and "upgrade" not in fields
        # What a client says that believes in it is no request.
        sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert read_reply(sock, bytearray())[0] in (400, 505)
    command = ["curl", "-sS", "--http2", "-o", "/dev/null", "-w", "%{http_version}", f"{served.url}/bytes/3"]
    assert subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE).stdout == b"1.1"


def test_who_is_not_trusted_is_told_where_it_is_spoken(serve: Serve) -> None:
    served = serve("many:application", "--forwarded-allow-ips=192.0.2.1")
    answer = served.raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
    assert answer.startswith(b"HTTP/1.1 505 ") and b"h2c://" in answer
    served.counts('http_parse_errors_total{reason="prior-knowledge"}', 1)


def test_a_load_balancer_says_for_whom_a_connection_of_streams_speaks(serve: Serve) -> None:
    served = serve("doors:application", "--bind=h2c://127.0.0.1:0?proxy=v2")
    with Client(served.port, before=v2()) as client:
        for _ in range(2):
            assert b'"REMOTE_ADDR": "192.0.2.7"' in client.get("/")


def test_a_client_of_http1_is_told_and_not_reset(serve: Serve) -> None:
    served = serve("many:application", "--bind=h2c://127.0.0.1:0")
    said = served.raw(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" + b"x" * 100_000, end=True)
    # Settings, a window, a farewell with PROTOCOL_ERROR.
    assert said[3] == 4 and said.endswith(b"the connection does not begin as HTTP/2 does"), said
    served.counts('h2_faults{reason="preface"}', 1)


def test_a_flood_of_resets_ends_in_order_and_bounds_the_calls(serve: Serve) -> None:
    served = serve("many:application", "--bind=h2c://127.0.0.1:0", "--threads=4")
    with Client(served.port) as client:
        for _ in range(300):
            client.machine.reset_stream(client.ask("/bytes/100000"))
        client.flush()
        begun = time.monotonic()
        assert client.until_the_end() == CALM
        assert time.monotonic() - begun < PATIENCE / 2
    served.counts('h2_faults{reason="glitches"}', 1)
    with Client(served.port) as client:
        assert int(client.get("/count/bytes")) <= 300


def test_files_are_sent_on_streams_before_the_application_is_asked(serve: Serve, tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    (tmp_path / "large.bin").write_bytes(content)
    (tmp_path / "small.txt").write_bytes(b"small")
    served = serve("many:application", "--bind=h2c://127.0.0.1:0", "--static", f"/files={tmp_path}")
    with Client(served.port) as client:
        large, small = client.ask("/files/large.bin"), client.ask("/files/small.txt")
        part = client.ask("/files/large.bin", fields=(("range", "bytes=1000-1999"),))
        client.flush()
        assert client.replies([large, small, part]) == {large: content, small: b"small", part: content[1000:2000]}
        assert client.heads[part][":status"] == "206"
    served.counts("static_replies", 3)


@driven
def test_readers_on_streams_are_cut_where_too_much_is_kept_for_them(serve: Serve, driver: tuple[str, ...]) -> None:
    served = at(serve, driver, "--limit-kept-bytes=2M")
    with Client(served.port, window=0) as client:
        asked = {client.ask(f"/bytes/{1_500_000 + number}"): 1_500_000 + number for number in range(3)}
        client.flush()
        # Each that is complete outlives those before it, whichever thread was first.
        while len(client.resets) < 2 or len(client.heads) < 3:
            assert client.lives(), client.farewells
            client.events()
        assert set(client.resets.values()) == {CANCEL}
        (newest,) = asked.keys() - client.resets.keys()
        client.machine.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 24})
        client.flush()
        assert len(client.replies([newest])[newest]) == asked[newest]
    served.counts("kept_resets", 2)


@driven
def test_a_large_reply_lets_others_have_their_turn(serve: Serve, driver: tuple[str, ...]) -> None:
    served = at(serve, driver)
    with Client(served.port, window=2**24) as client, Client(served.port) as other:
        client.machine.increment_flow_control_window(2**24)
        large = client.ask("/bytes/4000000")
        client.flush()
        for _ in range(20):
            assert other.get("/bytes/3") == b"xxx"
        assert len(client.replies([large])[large]) == 4_000_000
