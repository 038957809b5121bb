"""Kept FastCGI connections when their worker is held up, and when it is replaced: no request is lost."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable

import pytest
from gatewayrequests import exchange, fastcgi, parsed, read_reply, variables
from proxyheaders import v2
from serving import PATIENCE, Serving
from test_fastcgi import asked, connected, content, driven, ended, serve_at

Serve = Callable[..., Serving]
#: Longer than any client here waits.
LONG = 5 * PATIENCE


def asked_of_holding(target: str, *, keep: bool = True) -> bytes:
    """A request for `holding`, whose replies begin with the worker's number; nobody is named as its client."""
    return fastcgi(variables("GET", target, more={"REMOTE_ADDR": "", "REMOTE_PORT": ""}), keep=keep)


def told(sock: socket.socket) -> tuple[int, list[bytes]]:
    """Who has answered, and what else was said."""
    status, _, body = parsed(read_reply(sock))
    assert status == 200, body
    number, *others = body.split()
    return int(number), others


@pytest.mark.parametrize("proxied", [False, True], ids=["itself", "behind a proxy"])
def test_idle_connections_leave_a_worker_whose_interpreter_is_held(serve: Serve, proxied: bool) -> None:
    address = f"--bind=fastcgi://127.0.0.1:0{'?proxy=v2' if proxied else ''}"
    served = serve("holding", address, "--workers", "2", "--gateway-allow", "127.0.0.1,198.51.100.0/24")
    with contextlib.ExitStack() as stack:
        kept: list[socket.socket] = []
        holding = stack.enter_context(connected(served))
        said = [v2((f"198.51.100.{number}", 5), ("127.0.0.1", 1)) if proxied else b"" for number in range(9)]

        def both_have_some() -> bool:
            kept[:] = [stack.enter_context(connected(served)) for _ in range(8)]
            for header, sock in zip(said, kept):
                # Who has a request takes no other connection meanwhile.
                sock.sendall(header + asked_of_holding("/sleep?0.2"))
            return len({told(sock)[0] for sock in kept}) == 2

        # One that had no processor for a while has left them to the other.
        served.until(both_have_some)

        def busy() -> list[int]:
            return [worker["pid"] for worker in served.status()["workers"] if worker["busy"]]

        # What workers tell of themselves is a moment old.
        served.until(lambda: not busy())
        holding.sendall(said[-1] + asked_of_holding(f"/hold?{LONG}"))
        [held] = served.until(busy)
        for _ in range(2):
            for number, sock in enumerate(kept):
                sock.sendall(asked_of_holding("/client"))
                worker, (client, *_) = told(sock)
                assert worker != held
                assert client.decode() == (f"198.51.100.{number}" if proxied else "127.0.0.1")


@driven
def test_at_a_reload_what_is_idle_is_served_once_more_and_then_closed_in_order(
    serve: Serve, driver: tuple[str, ...]
) -> None:
    served = serve_at(serve, driver, "--workers", "2", "--drain-keep-alive", "5m", "--graceful-timeout", "5m")
    before = {worker["pid"] for worker in served.status()["workers"]}
    with contextlib.ExitStack() as stack:
        kept = [stack.enter_context(connected(served)) for _ in range(6)]
        for sock in kept:
            sock.sendall(asked("echo", b"hello"))
            assert parsed(read_reply(sock))[2] == b"hello"
        assert served.order("reload")[0] == 0
        now = {worker["pid"] for worker in served.status()["workers"] if worker["state"] == "ready"}
        assert len(now) == 2 and not now & before
        for sock in kept:
            body = content(200_000)
            sock.sendall(asked("echo", body))
            status, _, echoed = parsed(read_reply(sock))
            assert (status, echoed) == (200, body)
            assert ended(sock), "whoever would go on has to ask the new ones"
    served.until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in before))
    assert parsed(exchange(served, asked(keep=False)))[2] == b"hello"


@driven
def test_at_a_reload_what_stays_idle_is_closed_in_order_after_its_time(serve: Serve, driver: tuple[str, ...]) -> None:
    served = serve_at(serve, driver, "--workers", "2", "--drain-keep-alive", "200ms")
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connected(served)) for _ in range(6)]
        for sock in silent:
            sock.sendall(asked())
            assert parsed(read_reply(sock))[2] == b"hello"
        assert served.order("reload")[0] == 0
        # An end, and no reset: a web server sees that it has to ask elsewhere before it asks.
        assert all(ended(sock) for sock in silent)
    assert parsed(exchange(served, asked(keep=False)))[2] == b"hello"
