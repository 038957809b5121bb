"""`environ` of a request that is like the one before: what an application does to its own reaches nobody else's."""

from __future__ import annotations

import importlib.util
import json
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import Serving, read_reply

pytestmark = pytest.mark.interpreters

DRIVERS = {"threads": ("--threads", "1")}
if importlib.util.find_spec("gevent"):
    DRIVERS["gevent"] = ("--worker-class", "gevent")
CHANGES = list(runpy.run_path(str(Path(__file__).parent.parent / "apps" / "changing.py"))["CHANGES"])
UNCHANGED = ("nothing", "raises")
#: So often the same comes before everything is there that the next one begins with.
OFTEN = 16
#: A dictionary says whether it was changed up to this version (PEP 509).
TELLS = sys.version_info < (3, 14)


@pytest.fixture(scope="module", params=DRIVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Serving]:
    server = Serving("changing", *DRIVERS[request.param])
    yield server
    assert server.stop() == 0
    server.kill()


class Client:
    """A connection that is kept, and says who it is."""

    def __init__(self, server: Serving) -> None:
        self.sock, self.rest = server.connect(), bytearray()
        self.port = str(self.sock.getsockname()[1])

    def get(self, path: str) -> Any:
        self.sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        status, _, body = read_reply(self.sock, self.rest)
        return json.loads(body) if status == 200 else status

    def calm(self) -> dict[str, Any]:
        """What its request was told, without what is its own."""
        found: dict[str, Any] = self.get("/calm")
        assert found.pop("REMOTE_PORT") == self.port
        return found

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()


@pytest.mark.parametrize("change", CHANGES)
def test_what_one_request_does_to_its_environ_is_not_in_the_next_ones(server: Serving, change: str) -> None:
    with Client(server) as one, Client(server) as other:
        for _ in range(OFTEN):
            calm = one.calm()
            assert other.calm() == calm
        assert calm["PATH_INFO"] == "/calm" and calm["HTTP_HOST"] == "a" and "REMOTE_PORT" in calm["keys"]
        one.get(f"/next?{change.replace(' ', '-')}")
        if change == "raises":
            with Client(server) as another:
                assert another.get("/calm") == 500
        else:
            assert one.calm() == calm
        left = other.get("/left")
        for client in (other, one) * OFTEN:
            assert client.calm() == calm
        # One that others are copied from, and one that the next request has as it is, where it may.
        assert left == (2 if TELLS and change in UNCHANGED else 1)
        assert other.get("/left") == (2 if TELLS else 1)


def test_an_environ_that_is_kept_stays_as_it_was(server: Serving) -> None:
    with Client(server) as one, Client(server) as other:
        for _ in range(OFTEN):
            one.calm()
        one.get("/next?keeps")
        one.calm()
        for _ in range(OFTEN):
            other.calm()
        kept = other.get("/kept")
        assert (kept["PATH_INFO"], kept["REMOTE_PORT"]) == ("/calm", one.port)
