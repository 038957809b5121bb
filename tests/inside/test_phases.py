"""Where a request spends its time is known: views that sleep, burn, read slowly, write slowly."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import Serving, read_reply
from shared import adds_up, applications, settled, spent, statistics

Serve = Callable[..., Serving]
GET = "GET {} HTTP/1.1\r\nHost: a\r\n{}\r\n"
DRIVERS = applications("phases")


def ask(server: Serving, path: str, fields: str = "") -> int:
    with server.connect() as sock:
        sock.sendall(GET.format(path, fields).encode())
        return read_reply(sock, bytearray())[0]


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_view_that_sleeps_spends_its_time_in_the_application(serve: Serve, driver: str) -> None:
    server = serve(*DRIVERS[driver], "--workers", "1")
    shared = statistics(server)
    for _ in range(10):
        assert ask(server, "/sleep/0.05") == 200
    found = settled(server, shared, 10)
    took = spent(found)
    assert took["app"] >= 10 * 0.049, took
    # Nothing else takes long, whatever else the machine does.
    assert took["queue"] + took["receive"] + took["send"] < took["app"], took
    assert adds_up(found), took
    measured = found["phases"]["cpu"][0]
    assert measured >= 5, "the clock is read for routes that take long"
    assert took["cpu"] < measured * 0.005 and took["off"] >= measured * 0.0449, took


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_view_that_burns_uses_a_processor_for_as_long(serve: Serve, driver: str) -> None:
    server = serve(*DRIVERS[driver], "--workers", "1")
    shared = statistics(server)
    for _ in range(10):
        assert ask(server, "/burn/0.02") == 200
    found = settled(server, shared, 10)
    measured, cpu = found["phases"]["cpu"][:2]
    assert measured >= 5
    assert measured * 0.02 <= cpu <= measured * 0.022, (measured, cpu)
    route = found["routes"]["GET /burn/0.02"]
    assert route[0] == 9, "a route is born of its second answer"
    assert 9 * 0.02 <= route[3] <= 9 * 0.025, route


@pytest.mark.parametrize("driver", DRIVERS)
def test_those_that_take_turns_are_charged_their_own_steps(serve: Serve, driver: str) -> None:
    server = serve(*DRIVERS[driver], "--workers", "1")
    shared = statistics(server)
    for _ in range(3):
        ask(server, "/steps/0.01")
    before = settled(server, shared, 3)
    others = [threading.Thread(target=ask, args=(server, "/sleep/0.2")) for _ in range(3)]
    burning = [threading.Thread(target=ask, args=(server, "/steps/0.05")) for _ in range(5)]
    for one in (*others, *burning):
        one.start()
    for one in (*others, *burning):
        one.join()
    found = settled(server, shared, 3 + len(others) + len(burning))
    took = {name: spent(found)[name] - spent(before)[name] for name in ("cpu", "off", "app")}
    measured = found["phases"]["cpu"][0] - before["phases"]["cpu"][0]
    assert measured == len(others) + len(burning), "they are few"
    assert 5 * 0.05 <= took["cpu"] <= 5 * 0.05 + measured * 0.005, took
    assert abs(took["cpu"] + took["off"] - took["app"]) < 1e-6, took
    assert took["off"] >= 3 * 0.19 + 5 * 0.05, took


def test_two_that_burn_on_one_worker_are_charged_what_each_has_used(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1", "--threads", "4")
    shared = statistics(server)
    for _ in range(3):
        ask(server, "/burn/0.01")
    before = settled(server, shared, 3)
    both = [threading.Thread(target=ask, args=(server, "/burn/0.3")) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    found = settled(server, shared, 5)
    took = {name: spent(found)[name] - spent(before)[name] for name in ("cpu", "off", "app")}
    measured = found["phases"]["cpu"][0] - before["phases"]["cpu"][0]
    assert measured == 2, "requests without a route are measured as those before them were long"
    assert 0.6 <= took["cpu"] <= 0.63, took
    assert took["off"] >= 0.25, "each has waited for the other"


def test_what_waits_for_the_only_thread_is_queued(serve: Serve, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    server = serve("until_there:application", "--workers", "1", "--threads", "1", env={"GATE": str(gate)})
    shared = statistics(server)
    with server.connect() as first, server.connect() as second:
        begun = time.monotonic()
        first.sendall(GET.format("/wait", "").encode())
        server.until(lambda: shared.totals()["inside"] == 1)
        second.sendall(GET.format("/quick", "").encode())
        server.until(lambda: server.status()["workers"][0]["queued"] == 1)
        time.sleep(0.3)  # this is what is measured
        gate.touch()
        for sock in (first, second):
            assert read_reply(sock, bytearray())[0] == 200
        waited = time.monotonic() - begun
    found = settled(server, shared, 2)
    # Until its thread has a processor it is still queued, though the application is done with the other one.
    assert 0.3 <= spent(found)["queue"] <= waited, found["phases"]
    assert adds_up(found)


def test_a_body_that_comes_slowly_is_received_and_not_queued(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1")
    shared = statistics(server)
    with server.connect() as sock:
        sock.sendall(b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab")
        # Receiving begins when the server looks, and a busy machine has no processor for it at once.
        server.until(lambda: server.status()["workers"][0]["connections"] == 1)
        time.sleep(0.3)  # this is what is measured
        sock.sendall(b"cd")
        assert read_reply(sock, bytearray())[2] == b"4"
    took = spent(settled(server, shared, 1))
    assert took["receive"] >= 0.29
    assert took["queue"] + took["app"] < took["receive"], took


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_reader_that_is_slow_is_sent_to_and_not_worked_for(serve: Serve, driver: str) -> None:
    server = serve(*DRIVERS[driver], "--workers", "1")
    shared = statistics(server)
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        sock.connect((server.host, server.port))
        sock.sendall(GET.format("/large", "").encode())
        assert sock.recv(1, socket.MSG_PEEK), "sending has begun"
        time.sleep(0.3)  # this is what is measured
        assert len(read_reply(sock, bytearray())[2]) == 8_000_000
    found = settled(server, shared, 1)
    assert spent(found)["send"] >= 0.29, found["phases"]
    assert spent(found)["app"] < spent(found)["send"]
    assert adds_up(found)


@pytest.mark.parametrize(("form", "scale"), [("t={:.3f}", 1), ("{:.3f}", 1), ("t={:.0f}", 1e3), ("{:.0f}", 1e6)])
def test_the_time_in_front_of_the_server_is_what_a_trusted_proxy_says(serve: Serve, form: str, scale: float) -> None:
    server = serve("phases:application", "--workers", "1")
    shared = statistics(server)
    stamp = form.format((time.time() - 2) * scale)
    assert ask(server, "/hello", f"X-Request-Start: {stamp}\r\n") == 200
    found = settled(server, shared, 1)
    # A thread that has looked at the kernel and waits for the interpreter finds what has come meanwhile.
    assert 1.99 <= spent(found)["upstream"] + spent(found)["gil"]
    assert spent(found)["upstream"] <= 2 + spent(found)["total"] + 20
    assert found["phases"]["upstream"][0] == 1


def test_strangers_are_not_asked_when_they_have_begun(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1", "--forwarded-allow-ips", "")
    shared = statistics(server)
    assert ask(server, "/hello", f"X-Request-Start: t={time.time() - 2:.3f}\r\n") == 200
    assert settled(server, shared, 1)["phases"]["upstream"][0] == 0
