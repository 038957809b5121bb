"""`forehand.request()`: what an application learns of the request that it works on."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from serving import PYTHON, Serving, read_all, read_reply
from shared import applications
from websockets.sync.client import connect

pytest.importorskip("flask")
pytest.importorskip("starlette")

Serve = Callable[..., Serving]
DRIVERS = applications("asking")
WSGI = [driver for driver in DRIVERS if driver != "asyncio"]


def ask(server: Serving, path: str, *fields: str) -> tuple[str, Any]:
    """The name that the reply tells, and what it says."""
    lines = "".join(f"{field}\r\n" for field in fields)
    with server.connect() as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n".encode())
        status, headers, body = read_reply(sock, bytearray())
    assert status == 200, body
    return headers.get("x-request-id", ""), json.loads(body)


@pytest.mark.parametrize("driver", DRIVERS)
def test_an_application_learns_of_its_request_before_and_after_it_has_waited(serve: Serve, driver: str) -> None:
    options = ("--request-id", "--request-timeout", "20", "--status-bind", "127.0.0.1:0")
    server = serve(*DRIVERS[driver], "--workers", "1", *options)
    started = f"X-Request-Start: {time.time() - 3:.6f}"
    for name in ("anna", "berta"):
        told, found = ask(server, f"/now/{name}", started)
        before, after = found["before"], found["after"]
        assert before["id"] == after["id"] == told
        assert 0 < after["deadline"] <= before["deadline"] - 0.04 <= 20
        route = "GET /now/{name}" if driver == "asyncio" else "GET /now/<name>"
        assert before["route"] == after["route"] == route, "also where its path is a new one"
        assert before["trace_id"] is None and before["span_id"] is None
        assert before["phases"].keys() == {"upstream", "receive", "queue", "gil", "app"}
        # A thread that has looked at the kernel and waits for the interpreter finds what has come meanwhile.
        assert 2.9 < before["phases"]["upstream"] + before["phases"]["gil"]
        assert before["phases"]["upstream"] < 20
        assert before["phases"]["app"] + 0.045 <= after["phases"]["app"] < 20
        assert found["thread"] is None, "a thread that it has started"
        assert found["elsewhere"] == [None, None]


@pytest.mark.parametrize("driver", DRIVERS)
def test_without_options_there_is_little_to_learn(serve: Serve, driver: str) -> None:
    server = serve(*DRIVERS[driver], "--workers", "1", "--request-timeout", "0")
    found = ask(server, "/now/anna")[1]["after"]
    assert [found[name] for name in ("id", "trace_id", "span_id", "deadline")] == [None] * 4
    assert found["phases"]["app"] >= 0.045 and found["route"].startswith("GET /now/")


@pytest.mark.parametrize("driver", DRIVERS)
def test_of_many_requests_at_a_time_each_learns_of_itself(serve: Serve, driver: str) -> None:
    server = serve(*DRIVERS[driver], "--workers", "1", "--request-id")
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda number: ask(server, f"/now/{number}"), range(48)))
    assert len({told for told, _ in found}) == 48
    for told, said in found:
        assert said["before"]["id"] == said["after"]["id"] == told


@pytest.mark.parametrize("driver", WSGI)
def test_a_body_in_parts_is_made_inside_its_request(serve: Serve, driver: str) -> None:
    server = serve(*DRIVERS[driver], "--workers", "1", "--request-id")
    with server.connect() as sock:
        sock.sendall(b"GET /parts HTTP/1.1\r\nHost: a\r\nX-Request-ID: abc\r\nConnection: close\r\n\r\n")
        assert read_all(sock).count(b'"abc"') == 3


def test_tasks_and_threads_with_its_context_know_a_request_that_has_asked_before(serve: Serve) -> None:
    server = serve(*DRIVERS["asyncio"], "--workers", "1", "--request-id")
    for _ in range(2):
        told, found = ask(server, "/now/anna")
        assert found["child"]["id"] == found["to_thread"]["id"] == told
        told, (child, thread, own) = ask(server, "/unasked")
        assert (child, thread, own) == (None, None, told), "nothing was set for a request that had not asked"


def test_what_runs_behind_a_reply_knows_the_name_of_its_request(serve: Serve) -> None:
    server = serve(*DRIVERS["asyncio"], "--workers", "1", "--request-id", "--request-timeout", "20")
    told, _ = ask(server, "/behind")
    server.says(f"behind {told} None {{}}")


def test_a_websocket_is_a_request(serve: Serve) -> None:
    server = serve(*DRIVERS["asyncio"], "--workers", "1", "--request-id")
    for _ in range(2):
        with connect(f"ws://127.0.0.1:{server.port}/socket") as socket:
            assert socket.response is not None
            assert json.loads(socket.recv())["id"] == socket.response.headers["X-Request-ID"]


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_request_that_is_recorded_knows_its_trace(serve: Serve, driver: str) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    # Nobody listens there.
    server = serve(*DRIVERS[driver], "--workers", "1", "--trace-endpoint", "http://127.0.0.1:9")
    found = ask(server, "/now/anna")[1]
    now = found["after"]
    assert found["parent"] == f"00-{now['trace_id']}-{now['span_id']}-01"
    given = "0af7651916cd43dd8448eb211c80319c"
    assert ask(server, "/now/anna", f"traceparent: 00-{given}-b7ad6b7169203331-01")[1]["after"]["trace_id"] == given
    unsampled = ask(server, "/now/anna", f"traceparent: 00-{given}-b7ad6b7169203331-00")[1]["after"]
    assert (unsampled["trace_id"], unsampled["span_id"]) == (None, None)


def test_the_names_cost_nothing_until_they_are_used() -> None:
    code = "import sys, forehand; print([name for name in sys.modules if name in ('logging', 'forehand.current')])"
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
