"""Replies that had begun and did not come to their end are among what has failed, whatever their status."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from serving import Serving, read_all
from shared import GET, Samples, Watched, applications, told
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

Serve = Callable[..., Serving]
WEBSOCKET = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
COUNT = "http_server_request_duration_seconds_count"
APPLICATIONS = applications("phases")


def cut_off(samples: Samples) -> dict[str, float]:
    """How many, by their status."""
    return {
        labels["http_response_status_code"]: count
        for (name, pairs), count in samples.items()
        if name == COUNT and (labels := dict(pairs)).get("error_type") == "cut_off"
    }


@pytest.mark.parametrize("driver", APPLICATIONS.values(), ids=APPLICATIONS)
def test_an_application_that_fails_in_the_middle_of_its_reply_is_told_of(
    serve: Serve, tmp_path: Path, driver: tuple[str, ...]
) -> None:
    target, *options = driver
    watched = Watched(serve, tmp_path, "--workers=1", *options, target=target)
    server = watched.server
    for path in ("/half", "/short", "/half"):
        with server.connect() as sock:
            sock.sendall(GET.format(path, "a", "").encode())
            assert b"half" in read_all(sock)
    assert watched.view("/quick") == 200
    server.until(lambda: cut_off(watched.samples()) == {"200": 3})
    shown = told(server, "--failed")
    assert [(one["request"], one["status"], one["error"]) for one in shown] == [
        ("GET /half", 200, "cut_off"), ("GET /short", 200, "cut_off"), ("GET /half", 200, "cut_off")
    ]  # fmt: skip
    assert "3 requests have failed in the last 5 minutes" in server.order("status")[1]


def test_an_application_that_fails_inside_a_websocket_is_told_of(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers=1", "--interface=asgi", target="asgi_sockets:app")
    url = f"ws://127.0.0.1:{watched.server.port}"
    with connect(f"{url}/return") as socket, pytest.raises(Exception, match="1000"):
        socket.recv()
    with connect(f"{url}/raise") as socket, pytest.raises(ConnectionClosedError, match="1011"):
        socket.recv()
    watched.server.until(lambda: cut_off(watched.samples()) == {"101": 1})
    # Nor is it the client's doing where that leaves without a word.
    with watched.server.connect() as bare:
        bare.sendall(GET.format("/raise", "a", WEBSOCKET).encode())
        said = b""
        while not said.endswith(b"\x88\x02\x03\xf3"):
            said += bare.recv(4096)
    watched.server.until(lambda: cut_off(watched.samples()) == {"101": 2})
