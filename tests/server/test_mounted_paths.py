"""What is said of paths by hand is compared with what follows the place where an application is mounted: `PATH_INFO`,
whoever has told that place, and whether somebody in front has cut it off or not."""

from __future__ import annotations

import socket
from collections.abc import Callable

import gatewayrequests
import pytest
from serving import PATIENCE, Serving, read_all, read_reply

Serve = Callable[..., Serving]
FOR_EVER = ("--queue-timeout", "0s", "--request-timeout", "0")
SAID = ("--route-limits", "/report=1", "--request-timeouts", "/late=0.2s", *FOR_EVER)
#: How a request is sent for a path below the application, by what it says of the place of that.
WAYS = {
    "script name": (("--script-name", "/shop"), lambda path: http(f"/shop{path}")),
    "script name that a proxy has cut off": (("--script-name", "/shop"), lambda path: http(path)),
    "script name, encoded": (("--script-name", "/shop"), lambda path: http(f"/sho%70{path}")),
    "prefix": ((), lambda path: http(f"/shop{path}", "X-Forwarded-Prefix: /shop\r\n")),
    "prefix beside script name": (
        ("--script-name", "/api"),
        lambda path: http(f"/shop/api{path}", "X-Forwarded-Prefix: /shop\r\n"),
    ),
    "uwsgi": (("--bind", "uwsgi:127.0.0.1:0"), lambda path: uwsgi(f"/shop{path}", path)),
}


def http(target: str, fields: str = "") -> bytes:
    return f"GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n".encode()


def uwsgi(target: str, path: str) -> bytes:
    said = {"SCRIPT_NAME": "/shop", "PATH_INFO": path.partition("?")[0]}
    return gatewayrequests.uwsgi(gatewayrequests.variables("GET", target, more=said))


def sent(served: Serving, request: bytes) -> socket.socket:
    # Of a web server's own protocol `Serving` knows no port.
    port = int(served.url.rpartition(":")[2])
    sock = socket.create_connection((served.host, port), PATIENCE)
    sock.sendall(request)
    return sock


@pytest.mark.parametrize("way", WAYS)
def test_limits_and_deadlines_of_paths_hold_wherever_the_application_is_mounted(serve: Serve, way: str) -> None:
    options, request = WAYS[way]
    served = serve("lanes:application", "--workers", "1", "--threads", "8", *SAID, *options)
    crowd = [sent(served, request("/report")) for _ in range(3)]
    served.until(lambda: served.status()["workers"][0]["limited"] == 2)
    assert served.status()["workers"][0]["busy"] == 1
    with sent(served, request("/late")) as sock:
        assert b"504 " in read_all(sock).partition(b"\r\n")[0]
    for sock in (sent(served, request("/gate?open")), *crowd):
        with sock:
            assert b"200 " in read_all(sock).partition(b"\r\n")[0]


def test_lanes_and_slow_requests_too(serve: Serve) -> None:
    said = (
        "--script-name",
        "/shop",
        "--lanes",
        "/report=slow",
        "--slow-requests",
        "/report=1ms",
        "--slow-request",
        "0",
    )
    served = serve("lanes:application", "--workers", "1", "--threads", "2", *said, *FOR_EVER)
    crowd = [sent(served, http("/shop/report")) for _ in range(3)]
    served.until(lambda: served.status()["workers"][0]["queued"] == 2)
    assert served.status()["workers"][0]["busy"] == 1
    for sock in (sent(served, http("/shop/gate?open")), *crowd):
        with sock:
            assert b"200 " in read_all(sock).partition(b"\r\n")[0]
    served.until(lambda: "GET /shop/report" in served.order("requests", "--slow")[1])


def test_what_is_not_below_the_place_of_the_application_has_its_whole_path(serve: Serve) -> None:
    """A segment that only begins like it is no place, and a prefix of somebody who is not trusted none either."""
    served = serve("lanes:application", "--script-name", "/sh", "--forwarded-allow-ips", "192.0.2.1", *SAID)
    late = "/late?0.4"
    for request in (http(f"/shop{late}"), http(f"/shop{late}", "X-Forwarded-Prefix: /shop\r\n")):
        with sent(served, request) as sock:
            assert read_reply(sock, bytearray())[0] == 200


def test_deadlines_of_an_asgi_application_as_well(serve: Serve) -> None:
    served = serve("mounted:app", "--root-path", "/shop", "--request-timeouts", "/late=0.2s", "--request-timeout", "0")
    for path in ("/shop/late", "/late"):
        with sent(served, http(f"{path}?5")) as sock:
            assert read_reply(sock, bytearray())[0] == 504, path
