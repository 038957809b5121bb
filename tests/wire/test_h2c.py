"""The machines of HTTP/2 over a socket, before clients that are not ours: curl, and Python's h2 as it should and should
not behave. The server is an example of the crate, where nothing else is between the machines and the socket."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import h2.events
import pytest
from h2client import CALM, PATIENCE, Client

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of a server that runs for this file."""
    subprocess.run(["cargo", "build", "-q", "-p", "wire", "--example", "h2c"], cwd=ROOT, check=True)
    with subprocess.Popen([TARGET / "debug/examples/h2c"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield int(server.stdout.readline().rpartition(":")[2])
        server.kill()


def test_curl_gets_back_what_it_sends(port: int, tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    sent.write_bytes(os.urandom(1 << 20))
    url = f"http://127.0.0.1:{port}/echo"
    command = ["curl", "-sS", "--http2-prior-knowledge", "--data-binary", f"@{sent}", "-w", "%{http_version}", url]
    got = subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE).stdout
    assert got == sent.read_bytes() + b"2"


def test_a_client_of_small_windows_gets_all_of_a_reply(port: int) -> None:
    with Client(port, window=1000) as client:
        # h2 raises where a frame is larger than its window.
        stream = client.ask("/bytes/100000")
        client.flush()
        assert client.replies([stream])[stream] == b"x" * 100_000


def test_streams_take_turns(port: int) -> None:
    with Client(port) as client:
        streams = [client.ask("/bytes/60000") for _ in range(30)]
        client.flush()
        order: list[int] = []
        ended: list[int] = []
        while len(ended) < len(streams):
            for event in client.events():
                if isinstance(event, h2.events.DataReceived):
                    order.append(event.stream_id or 0)
                elif isinstance(event, h2.events.StreamEnded):
                    ended.append(event.stream_id or 0)
        begun = {stream: order.index(stream) for stream in streams}
        done = {stream: len(order) - 1 - order[::-1].index(stream) for stream in streams}
        assert any(begun[stream] < done[streams[0]] for stream in streams[1:]), order
        assert all(order.count(stream) >= 4 for stream in streams)


def test_an_upload_goes_beyond_every_window(port: int) -> None:
    content = os.urandom(3 << 20)
    with Client(port) as client:
        stream = client.ask("/echo", body=True)
        at, echoed, ended = 0, b"", False
        client.flush()
        while not ended:
            while at < len(content):
                room = min(client.machine.local_flow_control_window(stream) - 6, 16_000, len(content) - at)
                if room <= 0:
                    break
                client.machine.send_data(stream, content[at : at + room], pad_length=5)
                at += room
                if at == len(content):
                    client.machine.end_stream(stream)
            client.flush()
            for event in client.events():
                if isinstance(event, h2.events.DataReceived):
                    echoed += event.data or b""
                ended = ended or isinstance(event, h2.events.StreamEnded)
        assert echoed == content


def test_a_refusal_has_a_status_and_the_connection_goes_on(port: int) -> None:
    with Client(port) as client:
        stream = client.machine.get_next_available_stream_id()
        fields = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a"), ("x", "v" * 70_000)]
        client.machine.send_headers(stream, fields, end_stream=True)
        client.flush()
        assert client.replies([stream])[stream].startswith(b"431 ")
        stream = client.ask("/bytes/5")
        client.flush()
        assert client.replies([stream])[stream] == b"xxxxx"


def test_a_flood_of_resets_ends_in_order(port: int) -> None:
    with Client(port) as client:
        for _ in range(300):
            client.machine.reset_stream(client.ask("/bytes/100000"))
        client.flush()
        assert client.until_the_end() == CALM


def test_a_client_of_http1_is_told_and_not_reset(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" + b"x" * 100_000)
        sock.shutdown(socket.SHUT_WR)
        said = b""
        while data := sock.recv(65536):
            said += data
        # Settings, a window, a farewell with PROTOCOL_ERROR.
        assert said[3] == 4 and said.endswith(b"the connection does not begin as HTTP/2 does"), said
