"""Two tasks of one request: what one learns of its client's end is told to the other, which no event would wake."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator

import pytest
from serving import Serving
from test_http import ask  # type: ignore[import-not-found]
from wsclient import Client, frame  # type: ignore[import-not-found]

HEAD = b"POST /both HTTP/1.1\r\nHost: a\r\n"


@pytest.fixture
def server(loop: str) -> Iterator[Serving]:
    """A server of such an application."""
    server = Serving("asgi_two_tasks:app", "--loop", loop)
    yield server
    server.kill()


def wait_until_it_waits(server: Serving) -> None:
    """What sends waits for its client."""
    server.until(lambda: server.counters()["reply_waits"])


def are_noted(server: Serving, *notes: str) -> None:
    """So it has ended, in whichever order."""
    server.until(lambda: sorted(json.loads(ask(server, "/noted")[2])) == sorted(notes))


def has_left(sock: socket.socket) -> None:
    sock.shutdown(socket.SHUT_WR)


def sends_nonsense(sock: socket.socket) -> None:
    sock.sendall(b"no chunk\r\n")


@pytest.mark.parametrize(
    "framing, ends",
    [
        (b"Content-Length: 100\r\n\r\nabc", has_left),
        (b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", sends_nonsense),
    ],
)
def test_who_sends_hears_that_the_body_is_lost(
    server: Serving, framing: bytes, ends: Callable[[socket.socket], None]
) -> None:
    with server.connect() as sock:
        sock.sendall(HEAD + framing)
        wait_until_it_waits(server)
        ends(sock)
        ask(server, "/open?receive")
        are_noted(server, "http.disconnect", "ConnectionResetError")
    assert server.stop() == 0


def test_who_sends_to_a_websocket_hears_of_its_end(server: Serving) -> None:
    with Client(server, "/socket") as client:
        # More than the queue takes, so that the end is read by `receive()`.
        client.send(*[frame(0x82, b"message")] * 100)
        wait_until_it_waits(server)
        server.until(lambda: server.counters()["ws_waits"])
        client.send(frame(0x88, b"\x03\xe8"))
        client.sock.shutdown(socket.SHUT_WR)
        ask(server, "/open?receive")
        are_noted(server, "websocket.disconnect", "ConnectionResetError")
    assert server.stop() == 0


def test_tasks_that_a_failed_application_has_left_behind_hear_of_the_end(server: Serving) -> None:
    assert ask(server, "/fails")[0] == 500
    are_noted(server, "http.disconnect")
    # One that would send for ever, and never wait, must not have the event loop for itself.
    ask(server, "/open?send")
    are_noted(server, "http.disconnect", "ConnectionResetError")


@pytest.mark.parametrize("query", ["", "?begun"])
def test_a_task_that_listens_to_a_handshake_hears_that_it_has_failed(server: Serving, query: str) -> None:
    with Client(server, f"/denies{query}") as client:
        assert client.status == 500
    are_noted(server, "websocket.disconnect")


def test_a_request_whose_coroutine_was_closed_has_failed(server: Serving) -> None:
    assert ask(server, "/closes")[0] == 500
    assert server.stop() == 0


def test_who_polls_leaves_nothing_behind(server: Serving) -> None:
    assert int(ask(server, "/polls")[2]) < 10
