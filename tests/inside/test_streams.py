"""Requests on streams of HTTP/2 are counted and timed as others are, and series say which came by https."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from h2client import CANCEL, Client
from serving import Serving, read_reply
from shared import GET, Watched, adds_up, applications, settled, spent, statistics
from tlsfiles import Authority

Serve = Callable[..., Serving]
REQUESTS = "http_server_request_duration_seconds_count"
APPLICATIONS = applications("phases")
#: Those that answer `/wait` once they are let.
WAITING = applications("until_there")
driven = pytest.mark.parametrize("driver", APPLICATIONS.values(), ids=APPLICATIONS)
WINDOW = 65_535


def at(serve: Serve, driver: tuple[str, ...], *options: str, **more: Any) -> Serving:
    return serve(*driver, "--workers=1", "--bind=h2c://127.0.0.1:0", *options, **more)


@driven
def test_each_stream_is_a_request_and_its_time_is_its_own(serve: Serve, driver: tuple[str, ...]) -> None:
    served = at(serve, driver)
    shared = statistics(served)
    with Client(served.port) as client:
        for _ in range(20):
            streams = [client.ask("/quick") for _ in range(10)]
            client.flush()
            client.replies(streams)
        slow = [client.ask("/sleep/0.1") for _ in range(3)]
        client.flush()
        client.replies(slow)
    found = settled(served, shared, 203)
    assert spent(found)["app"] >= 0.297, found["phases"]
    assert found["phases"]["total"][0] == 203
    assert adds_up(found), found["phases"]


@pytest.mark.parametrize("driver", WAITING.values(), ids=WAITING)
def test_what_is_inside_is_seen_while_its_connection_goes_on(
    serve: Serve, driver: tuple[str, ...], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    served = at(serve, driver, env={"GATE": str(gate)})
    shared = statistics(served)
    with Client(served.port) as client:
        slow = [client.ask("/wait") for _ in range(2)]
        client.flush()
        served.until(lambda: shared.totals()["inside"] == 2)
        client.get("/quick")
        gate.touch()
        client.replies(slow)
    settled(served, shared, 3)


@driven
def test_a_reader_that_is_slow_is_sent_to_and_not_worked_for(serve: Serve, driver: tuple[str, ...]) -> None:
    served = at(serve, driver)
    shared = statistics(served)
    with Client(served.port) as client:
        stream = client.ask("/large")
        client.flush()
        while len(client.content[stream]) < WINDOW:
            client.events(gives_back=False)
        time.sleep(0.3)  # this is what is measured
        client.machine.acknowledge_received_data(WINDOW, stream)
        client.machine.increment_flow_control_window(8_000_000)
        client.machine.increment_flow_control_window(8_000_000, stream)
        client.flush()
        assert len(client.replies([stream])[stream]) == 8_000_000
        found = settled(served, shared, 1)
    assert spent(found)["send"] >= 0.29, found["phases"]
    assert spent(found)["app"] < spent(found)["send"], found["phases"]
    assert adds_up(found), found["phases"]


def errors(samples: dict[Any, float]) -> dict[str, float]:
    """How many requests ended in which way, of those that did not end well."""
    return {
        labels["error_type"]: count
        for (name, pairs), count in samples.items()
        if name == REQUESTS and (labels := dict(pairs)).get("error_type")
    }


@pytest.mark.parametrize("gone", ["the stream", "the connection"])
@driven
def test_a_client_that_wants_no_more_of_a_reply_is_gone(
    serve: Serve, tmp_path: Path, driver: tuple[str, ...], gone: str
) -> None:
    target, *options = driver
    watched = Watched(serve, tmp_path, *options, "--workers=1", "--bind=h2c://127.0.0.1:0", target=target)
    with Client(watched.server.port) as client:
        stream = client.ask("/large")
        client.flush()
        while len(client.content[stream]) < WINDOW:
            client.events(gives_back=False)
        if gone == "the stream":
            client.machine.reset_stream(stream, CANCEL)
            client.machine.increment_flow_control_window(WINDOW)
            client.flush()
            assert client.get("/quick")
        else:
            client.sock.shutdown(socket.SHUT_RDWR)
    watched.server.until(lambda: errors(watched.samples()) == {"client_gone": 1})


def test_a_body_that_comes_slowly_is_received_and_not_queued(serve: Serve) -> None:
    served = at(serve, ("phases:application",))
    shared = statistics(served)
    with Client(served.port) as client:
        stream = client.ask("/body", body=True)
        client.send(stream, b"ab", end=False)
        client.is_heard()
        time.sleep(0.3)  # this is what is measured
        client.send(stream, b"cd")
        assert client.replies([stream])[stream] == b"4"
    took = spent(settled(served, shared, 1))
    assert took["receive"] >= 0.25, took
    assert took["queue"] + took["app"] < took["receive"], took


def schemes(samples: dict[Any, float]) -> dict[tuple[str, str], float]:
    """How many requests came by which scheme and version."""
    found: dict[tuple[str, str], float] = {}
    for (name, pairs), count in samples.items():
        if name == REQUESTS:
            labels = dict(pairs)
            key = (labels["url_scheme"], labels["network_protocol_version"])
            found[key] = found.get(key, 0) + count
    return found


def test_series_say_https_where_it_is(serve: Serve, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server", "localhost", "127.0.0.1")
    options = ("--bind=http://127.0.0.1:0", "--bind=https://127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key)
    watched = Watched(serve, tmp_path, *options, "--workers=1")
    ports = {url.partition(":")[0]: int(url.rpartition(":")[2]) for url in watched.server.urls}
    plain, secure = ports["http"], ports["https"]

    def by_http1(sock: socket.socket, fields: str = "") -> None:
        with sock:
            sock.sendall(GET.format("/quick", "localhost", fields).encode())
            assert read_reply(sock, bytearray())[0] == 200

    def connect(*alpn: str) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", secure))
        return authority.client(alpn=alpn).wrap_socket(sock, server_hostname="localhost")

    by_http1(socket.create_connection(("127.0.0.1", plain)))
    by_http1(socket.create_connection(("127.0.0.1", plain)), "X-Forwarded-Proto: https\r\n")
    by_http1(connect("http/1.1"))
    by_http1(connect("http/1.1"))
    with Client(0, sock=connect("h2")) as client:
        for _ in range(3):
            client.get("/quick")
    expected = {("http", "1.1"): 1, ("https", "1.1"): 3, ("https", "2"): 3}
    watched.server.until(lambda: schemes(watched.samples()) == expected)
    # What a worker has died with came by it as well.
    with connect("http/1.1") as sock:
        sock.sendall(GET.format("/crash", "localhost", "").encode())
        expected["https", "1.1"] += 1
        watched.server.until(lambda: schemes(watched.samples()) == expected)


def test_requests_of_many_connections_and_streams_are_all_counted(serve: Serve) -> None:
    served = at(serve, ("phases:application", "--threads", "4"))
    shared = statistics(served)

    def ask_much() -> None:
        with Client(served.port) as client:
            for _ in range(10):
                streams = [client.ask("/quick") for _ in range(20)]
                client.flush()
                client.replies(streams)

    crowd = [threading.Thread(target=ask_much) for _ in range(5)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()
    settled(served, shared, 5 * 10 * 20)
