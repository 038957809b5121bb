"""Files as Flask, Django and Starlette send them: the server sends the bytes, and knows ranges and conditions."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest
import requests
from serving import PATIENCE, Serving

WHOLE = b"".join(b"%07d\n" % number for number in range(20_000))
FRAMEWORKS = {
    "flask": "frameworks.naming_files:in_flask()",
    "django": "frameworks.naming_files:in_django()",
    "django asgi": "frameworks.naming_files:in_django_asgi()",
    "starlette": "frameworks.naming_files:in_starlette()",
}

Start = Callable[[str], Serving]


@pytest.fixture
def start(serve: Callable[..., Serving], tmp_path: Path) -> Start:
    (tmp_path / "whole.txt").write_bytes(WHOLE)

    def started(framework: str, *options: str) -> Serving:
        if not importlib.util.find_spec(framework.partition(" ")[0]):
            pytest.skip(f"{framework} is not installed")
        folder = ("--sendfile", f"protected={tmp_path}")
        return serve(FRAMEWORKS[framework], *folder, *options, env={"FILES": str(tmp_path)})

    return started


@pytest.mark.parametrize("driver", ["threads", "gevent"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_file_is_sent_whole_in_part_and_not_again(framework: str, driver: str, start: Start) -> None:
    asynchronous = framework in ("django asgi", "starlette")
    if driver == "gevent" and (asynchronous or not importlib.util.find_spec("gevent")):
        pytest.skip("gevent is not installed" if not asynchronous else "gevent runs WSGI applications")
    url = f"{start(framework, *(['-k', driver] if driver == 'gevent' else [])).url}/whole.txt"
    whole = requests.get(url, timeout=PATIENCE)
    assert (whole.status_code, whole.content == WHOLE) == (200, True)
    assert whole.headers["Content-Length"] == str(len(WHOLE))
    assert not {"X-Sendfile", "X-Accel-Redirect"} & set(whole.headers)
    part = requests.get(url, headers={"Range": "bytes=8-15"}, timeout=PATIENCE)
    assert (part.status_code, part.content) == (206, b"0000001\n")
    assert part.headers["Content-Range"] == f"bytes 8-15/{len(WHOLE)}"
    again = requests.get(url, headers={"If-None-Match": whole.headers["ETag"]}, timeout=PATIENCE)
    assert (again.status_code, again.content) == (304, b"")
    head = requests.head(url, timeout=PATIENCE)
    assert (head.status_code, head.headers["Content-Length"]) == (200, str(len(WHOLE)))


def test_what_flask_says_of_a_file_is_kept(start: Start) -> None:
    reply = requests.get(f"{start('flask').url}/whole.txt", timeout=PATIENCE)
    assert reply.headers["Content-Disposition"] == "attachment; filename=named.txt"
    assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert reply.headers["Cache-Control"] == "no-cache"


@pytest.mark.parametrize("framework", ["django", "django asgi"])
def test_what_django_says_of_a_file_is_kept(framework: str, start: Start) -> None:
    server = start(framework)
    reply = requests.get(f"{server.url}/whole.txt", timeout=PATIENCE)
    assert (reply.headers["Content-Type"], reply.cookies["seen"]) == ("application/x-own", "1")
    other = requests.get(f"{server.url}/accel/whole.txt", timeout=PATIENCE)
    assert (other.content == WHOLE, other.headers["Content-Type"]) == (True, "text/plain; charset=utf-8")
    missing = requests.get(f"{server.url}/accel/none.txt", timeout=PATIENCE)
    assert missing.status_code == 404
    server.says("the application named '/protected/none.txt' in X-Accel-Redirect, and there is no such file")
