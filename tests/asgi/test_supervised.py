"""ASGI in supervised workers: reload, deadlines, readiness, orders, and none at all."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest
from serving import PATIENCE, Serving, read_reply
from test_http import ask, wait_for  # type: ignore[import-not-found]
from test_lifespan import refused  # type: ignore[import-not-found]
from wsclient import Client, frame  # type: ignore[import-not-found]


def test_a_reload_keeps_requests_and_closes_sockets_with_1012(serve: Callable[..., Serving], loop: str) -> None:
    server = serve("asgi_sockets:app", "--loop", loop)
    with Client(server, "/echo") as client:
        client.text("before")
        assert client.receive()[1] == b"before"
        os.kill(server.process.pid, signal.SIGHUP)
        closing = client.receive()
        assert closing.code == 1012
        client.send(frame(0x88, closing.data))
        assert client.ends()
    with Client(server, "/echo") as client:
        client.text("behind")
        assert client.receive()[1] == b"behind"


def test_a_reload_waits_for_what_runs(serve: Callable[..., Serving], loop: str) -> None:
    server = serve("asgi_views:app", "--loop", loop)
    with server.connect() as sock:
        sock.sendall(b"GET /background HTTP/1.1\r\nHost: a\r\n\r\nGET /concurrent HTTP/1.1\r\nHost: a\r\n\r\n")
        buffer = bytearray()
        # The work behind the first reply goes on for as long as the old worker lives.
        assert read_reply(sock, buffer)[2] == b"first the reply"
        os.kill(server.process.pid, signal.SIGHUP)
        assert read_reply(sock, buffer)[2] == b"slept"
    wait_for(lambda: ask(server, "/hello")[2] == b"hello", "nobody serves")


def test_several_workers_serve_and_stop(serve: Callable[..., Serving], loop: str) -> None:
    server = serve("asgi_views:app", "--workers", "2", "--loop", loop)
    assert all(ask(server, "/hello")[2] == b"hello" for _ in range(20))
    assert server.stop() == 0
    assert server.log().count("closed at the end") == 2


def test_a_request_that_is_overdue_is_answered_and_its_task_cancelled(serve: Callable[..., Serving], loop: str) -> None:
    # None for the others: a machine may have no processor for one of them for as long.
    server = serve("asgi_views:app", "--request-timeouts", "/slow=300ms", "--loop", loop)
    assert ask(server, "/slow")[0] == 504
    wait_for(lambda: "cancelled once" in server.log(), server.log())
    wait_for(lambda: "GET /slow HTTP/1.1: overdue after" in server.log(), server.log())
    assert ask(server, "/hello")[2] == b"hello"


def test_a_socket_has_no_deadline(serve: Callable[..., Serving]) -> None:
    server = serve("asgi_sockets:app", "--request-timeout", "2s", "--ws-ping-interval", "3s")
    with Client(server, "/echo") as client:
        assert client.receive() == (0x89, b""), "the ping came behind the deadline"
        client.text("alive")
        assert client.receive()[1] == b"alive"


def test_the_readiness_call_is_asked_as_asgi(serve: Callable[..., Serving]) -> None:
    assert ask(serve("asgi_views:app", "--readiness", "/hello"), "/hello")[0] == 200
    status, words = refused("asgi_views:app", "--readiness", "/nowhere")
    assert status == 4 and "the readiness call '/nowhere' answered 404" in words


def test_a_worker_that_is_told_to_reopen_does(serve: Callable[..., Serving], tmp_path) -> None:
    log = tmp_path / "access.log"
    server = serve("asgi_views:app", "--access-log", "common", "--access-log-file", str(log))
    ask(server, "/hello")
    wait_for(lambda: log.exists() and "/hello" in log.read_text(), "no line")
    log.rename(tmp_path / "old.log")
    os.kill(server.process.pid, signal.SIGUSR1)
    wait_for(lambda: log.exists(), "not reopened")
    wait_for(lambda: ask(server, "/hello")[0] == 200 and log.read_text(), "no line in the new file")


@pytest.mark.parametrize("path", ["/hello", "/echo"])
def test_without_a_supervisor_it_is_the_same(serve: Callable[..., Serving], loop: str, path: str) -> None:
    server = serve("asgi_views:app", "--workers", "0", "--loop", loop)
    assert ask(server, path)[0] == 200
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE) == 0
    server.says("closed at the end")
