"""`forehand.logging.Context`: each line of an application's own log names its request."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Callable

import pytest
from serving import PYTHON, Serving, read_reply

Serve = Callable[..., Serving]


def ask(server: Serving, path: str) -> str:
    """The name that the reply tells."""
    with server.connect() as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        status, headers, body = read_reply(sock, bytearray())
    assert status == 200, body
    return headers["x-request-id"]


@pytest.mark.parametrize("target", ["django_wsgi", "django_asgi", "starlette"])
def test_each_line_of_the_application_s_log_names_its_request(serve: Serve, target: str) -> None:
    pytest.importorskip("django")
    pytest.importorskip("starlette")
    options = ("--workers", "1", "--request-id", "--status-bind", "127.0.0.1:0")
    server = serve(f"asking_logs:{target}", *options)
    server.says("[- - - -] imported")
    route = "/orders/{number:int}/" if target == "starlette" else "/orders/<int:number>/"
    for number in (17, 18):
        told = ask(server, f"/orders/{number}/")
        # The views of Django and Starlette that are no coroutines run in other threads under ASGI.
        server.says(f"[{told} - - GET {route}] order {number}")


@pytest.mark.skipif(not importlib.util.find_spec("gevent"), reason="gevent is not installed")
def test_each_line_of_a_greenlet_s_log_names_its_request(serve: Serve) -> None:
    server = serve("asking_logs:django_wsgi", "--workers", "1", "--request-id", "--worker-class", "gevent")
    told = ask(server, "/orders/17/")
    server.says(f"[{told} - - GET /orders/")


ALONE = """
import logging, logging.config, logging.handlers, sys
import forehand
logging.config.dictConfig({
    "version": 1,
    "filters": {"request": {"()": "forehand.logging.Context"}},
    "formatters": {"line": {"format": "%(request_id)s %(trace_id)s %(span_id)s %(route)s %(message)s"}},
    "handlers": {"out": {"class": "logging.StreamHandler", "stream": "ext://sys.stdout", "filters": ["request"],
                         "formatter": "line"}},
    "root": {"handlers": ["out"]},
})
logging.warning("alone")
logging.warning("given", extra={"request_id": "abc", "route": None})
only = logging.getLogger("only")
only.addFilter(forehand.logging.Context("other"))
only.warning("held back")
assert forehand.request() is None
"""


def test_where_no_server_runs_there_is_a_dash_for_each_name() -> None:
    done = subprocess.run([PYTHON, "-c", ALONE], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("- - - - alone\nabc - - - given\n", "")
