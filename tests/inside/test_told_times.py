"""Where a request's time went, as its line in the access log and its reply tell it."""

from __future__ import annotations

import importlib.util
import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from serving import Serving, read_reply

Serve = Callable[..., Serving]
DRIVERS = {"threads": ("phases:application",), "asyncio": ("phases:app", "--interface", "asgi")}
if importlib.util.find_spec("gevent"):
    DRIVERS["gevent"] = ("phases:application", "--worker-class", "gevent")


def ask(server: Serving, path: str, *fields: str) -> dict[str, str]:
    lines = "".join(f"{field}\r\n" for field in fields)
    with server.connect() as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n".encode())
        return read_reply(sock, bytearray())[1]


def logged(server: Serving, count: int) -> list[dict[str, Any]]:
    """The lines of the access log, once there are so many."""

    def lines() -> list[str]:
        found = [line for line in server.log().splitlines() if line.startswith("{")]
        return found if len(found) >= count else []

    return [json.loads(line) for line in server.until(lines)]


@pytest.mark.parametrize("driver", DRIVERS)
def test_the_access_log_in_json_tells_route_and_phases(serve: Serve, driver: str) -> None:
    server = serve(*DRIVERS[driver], "--workers", "1", "--access-log", "json", "--request-id")
    for number in range(3):
        ask(server, f"/sleep/0.02/{number}", f"X-Request-ID: given-{number}")
    for number, line in enumerate(logged(server, 3)):
        assert line["route"] == "GET /sleep/0.02/*", "from the first line on"
        assert line["request_id"] == f"given-{number}"
        phases = line["phases_us"]
        assert 19_000 <= phases["app"] <= line["duration_us"] + 1, "each rounded by itself"
        assert {"receive", "queue", "gil", "app", "send"} <= set(phases) <= {
            "receive", "queue", "gil", "app", "cpu", "off", "send", "upstream"
        }  # fmt: skip
        assert "trace_id" not in line


def test_what_is_not_there_has_no_route_and_what_a_proxy_says_is_told(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1", "--access-log", "json")
    ask(server, "/missing/17")
    ask(server, "/quick", "X-Request-Start: t=1")
    missing, quick = logged(server, 2)
    assert "route" not in missing and missing["status"] == 404
    assert quick["route"] == "GET /quick" and "upstream" not in quick["phases_us"], "half a century is no time"


def test_without_workers_there_are_routes_and_no_phases(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "0", "--access-log", "json")
    ask(server, "/quick")
    [line] = logged(server, 1)
    assert line["route"] == "GET /quick" and "phases_us" not in line


def told_by(server: Serving, count: int) -> list[list[str]]:
    """The words of the access log's lines, once there are so many."""

    def lines() -> list[str]:
        found = [line for line in server.log().splitlines() if line.startswith("! ")]
        return found if len(found) >= count else []

    return [line.split()[1:] for line in server.until(lines)]


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_format_tells_phases_in_microseconds_each_by_its_name(serve: Serve, driver: str) -> None:
    names = ("receive", "queue", "gil", "app", "cpu", "off", "send", "upstream", "total")
    tokens = " ".join(f"%{{{name}}}p" for name in names)
    server = serve(*DRIVERS[driver], "--workers", "1", "--access-log", f"! %D %(p)s %({{app}}p)s %p {tokens}")
    started = time.time()
    ask(server, "/sleep/0.02", f"X-Request-Start: t={started - 0.5:.6f}")
    ask(server, "/quick")
    server.raw(b"bad\r\n\r\n")
    slept, quick, refused = told_by(server, 3)
    [process] = {slept[1], slept[3]}
    assert re.fullmatch(r"<\d+>", process), "what it is without a phase, as gunicorn has it"
    phases = dict(zip(names, slept[4:], strict=True))
    assert phases["app"] == slept[2], "in both spellings"
    assert 19_000 <= int(phases["app"]) <= min(int(phases["total"]), int(slept[0]) + 1), "each rounded by itself"
    parts = sum(int(phases[name]) for name in ("receive", "queue", "gil", "app", "send"))
    assert int(phases["total"]) - 5 <= parts <= int(phases["total"])
    # Who looks at the kernel and then waits for the interpreter finds what has come meanwhile: all of that is told.
    before = int(phases["upstream"]) + int(phases["gil"])
    assert 500_000 <= before and int(phases["upstream"]) < 100_000_000
    assert 519_000 <= int(phases["upstream"]) + int(phases["total"])
    if phases["cpu"] != "-":
        assert abs(int(phases["cpu"]) + int(phases["off"]) - int(phases["app"])) <= 1
    assert quick[4 + names.index("upstream")] == "-", "no proxy has said anything"
    assert refused[4:] == ["-"] * len(names), "it was no request"


def test_without_workers_a_format_has_dashes_in_place_of_phases(serve: Serve) -> None:
    server = serve("phases:application", "--workers", "0", "--access-log", "! %s %{app}p %{total}p")
    ask(server, "/quick")
    assert told_by(server, 1) == [["200", "-", "-"]]


def durations(header: str) -> dict[str, float]:
    found = dict(re.findall(r"(\w+);dur=([\d.]+)", header))
    assert ", ".join(f"{name};dur={value}" for name, value in found.items()) == header
    return {name: float(value) for name, value in found.items()}


@pytest.mark.parametrize("driver", DRIVERS)
def test_server_timing_says_where_the_time_went_in_milliseconds(serve: Serve, driver: str) -> None:
    server = serve(*DRIVERS[driver], "--workers", "1", "--server-timing", "all", "--forwarded-allow-ips", "")
    found = durations(ask(server, "/sleep/0.03")["server-timing"])
    # A loop's timers come up to a millisecond early.
    assert set(found) <= {"receive", "queue", "gil", "app"} and 29 <= found["app"] < 10_000


def test_strangers_are_told_nothing_unless_all_are(serve: Serve) -> None:
    for options, told in [
        (("--server-timing",), True),
        (("--server-timing", "trusted", "--forwarded-allow-ips", ""), False),
        ((), False),
    ]:
        server = serve("phases:application", "--workers", "1", *options)
        assert ("server-timing" in ask(server, "/quick")) is told, options
