"""The order of ASGI events, case by case from tests/data/asgi/order.txt, over a socket."""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from serving import Serving, read_reply
from test_http import noted, wait_for  # type: ignore[import-not-found]

DATA = Path(__file__).resolve().parent.parent / "data" / "asgi" / "order.txt"
pytestmark = pytest.mark.interpreters


class Case(NamedTuple):
    name: str
    events: list[dict[str, Any]]
    outcomes: list[str]
    wanted: str


def event(text: str) -> dict[str, Any]:
    """An event from its short form."""
    if text.startswith("raw "):
        return json.loads(text[4:])
    kind, *words = shlex.split(text)
    pairs = [word.split("=", 1) for word in words if "=" in word]
    if kind == "start":
        return {"type": "http.response.start", "status": int(words[0]), "headers": pairs}
    if kind == "trailers":
        return {"type": "http.response.trailers", "headers": pairs}
    if kind == "hint":
        return {"type": "http.response.early_hint", "links": [words[0]]}
    assert kind == "body", text
    return {"type": "http.response.body", "body": words[0], "more_body": words[1:] == ["more"]}


def cases() -> Iterator[Case]:
    for block in re.split(r"\n\n+", DATA.read_text()):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if not lines:
            continue
        sent = [re.fullmatch(r"-> (.*) : ((?:ok|\w+Error: ).*)", line) for line in lines[1:-1]]
        assert all(sent) and lines[-1].startswith("<- "), lines
        yield Case(lines[0], [event(found[1]) for found in sent], [found[2] for found in sent], lines[-1][3:])


CASES = list(cases())


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    made = Serving("asgi_views:app", "--loop", "asyncio")
    yield made
    made.kill()


def test_the_table_is_read() -> None:
    assert len(CASES) > 35


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_events_in_their_order(server: Serving, case: Case) -> None:
    script = base64.b64encode(json.dumps(case.events).encode())
    with server.connect() as sock:
        lines = b"Host: a\r\nConnection: close\r\nX-Client: %s\r\n" % case.name.encode()
        sock.sendall(b"GET /script?%s HTTP/1.1\r\n%s\r\n" % (script, lines))
        got = answer(sock)
    # The application notes what became of its events behind the last of them, when the reply may be here already.
    seen: list = []
    wait_for(lambda: seen.extend(noted(server, case.name)) or seen, "the application did not come to its end")
    assert len(seen) == 1, seen
    assert len(seen[0]) == len(case.outcomes)
    for outcome, wanted in zip(seen[0], case.outcomes):
        kind, _, words = wanted.partition(": ")
        assert outcome.startswith(kind) and words in outcome, f"{outcome!r} is not {wanted!r}"
    status, _, body = case.wanted.partition(" ")
    if status == "cut":
        assert got is None, got
    else:
        assert got is not None and got[0] == int(status), got
        assert not body or got[1] == body.strip('"').encode()


def answer(sock: Any) -> tuple[int, bytes] | None:
    """Status and body behind interim responses; None where the reply was cut."""
    buffer = bytearray()
    try:
        while True:
            status, _, body = read_reply(sock, buffer)
            if status >= 200:
                return status, body
    except (AssertionError, ConnectionResetError):
        return None
