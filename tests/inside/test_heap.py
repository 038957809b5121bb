"""`forehand heap`: what leaks is named, with what holds it, while the worker answers."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from forehand.inside import asking
from serving import PATIENCE, Serving, read_reply
from shared import GET, INNER, applications

Serve = Callable[..., Serving]
APPS = Path(__file__).resolve().parent.parent / "apps"
DRIVERS = applications("inner")


@contextmanager
def leaking(server: Serving) -> Iterator[None]:
    """One client asks for what leaks, a little at a time, and every request is answered."""
    statuses: list[int] = []
    ended = threading.Event()

    def ask() -> None:
        with server.connect() as sock:
            buffer = bytearray()
            while not ended.wait(0.01):
                sock.sendall(GET.format("/leak/5", "a", "").encode())
                statuses.append(read_reply(sock, buffer)[0])

    client = threading.Thread(target=ask)
    client.start()
    try:
        server.until(lambda: statuses)
        yield
    finally:
        ended.set()
        client.join(PATIENCE)
        assert not client.is_alive(), "a request was not answered"
        assert set(statuses) == {200}


def heap(server: Serving, *flags: str) -> dict[str, Any]:
    status, said = server.order("heap", "--json", *flags, timeout=120)
    assert status == 0, said
    found: dict[str, Any] = json.loads(said)
    return found


@pytest.mark.parametrize("driver", DRIVERS)
def test_what_grows_is_named_with_what_holds_it(serve: Serve, driver: str) -> None:
    server = serve(*DRIVERS[driver], "--workers", "1")
    with leaking(server):
        found = heap(server, "--diff", "--seconds", "1")
    assert {row["name"] for row in found["containers"][:2]} == {"inner.CACHE", "inner.REGISTRY"}, found["containers"]
    cache = next(row for row in found["containers"] if row["name"] == "inner.CACHE")
    assert 0 < cache["grown"] <= cache["now"] and cache["kind"] == "list"
    types = {row["type"]: row for row in found["types"]}
    assert found["types"][0]["type"] == "bytes", "ten kilobytes each"
    assert types["bytes"]["held_by"][0][0] == "inner.CACHE[...]", types["bytes"]
    assert types["inner.Kept"]["held_by"][0][0] == "inner.REGISTRY[...]", types["inner.Kept"]
    assert types["bytes"]["objects"] >= cache["grown"] - 5, "those of one request may be on their way"
    assert found["bytes"] - found["before"][1] >= types["bytes"]["bytes"]
    assert len(found["pauses"]) == 2


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_worker_that_has_nothing_to_do_answers_and_lets_go_of_who_asked(serve: Serve, driver: str) -> None:
    server = serve(*DRIVERS[driver], "--workers", "1")
    for word, text in (("heap", "0.0 -"), ("profile", "0.1 97 wall")):
        asked = asking.ask(server.control, word, 1, text)
        os.set_blocking(asked.fd, False)
        with open(asked.fd, "rb", buffering=0) as answer:
            server.until(lambda answer=answer: answer.read() == b"")


def test_where_nothing_grows_counting_itself_is_not_told_as_growth(serve: Serve) -> None:
    server = serve("inner:application", "--workers", "1")
    with server.connect() as sock:
        sock.sendall(GET.format("/quick", "a", "").encode())
        assert read_reply(sock, bytearray())[0] == 200
    found = heap(server, "--diff", "--seconds", "0.2")
    held = [name for row in found["types"] for name, _ in row["held_by"]]
    assert not [name for name in held if name.startswith("forehand.inside")], found["types"]
    assert sum(row["objects"] for row in found["types"]) < 100, found["types"]


def test_the_line_that_allocates_is_named_where_that_is_traced_and_only_meanwhile(serve: Serve) -> None:
    server = serve("inner:application", "--workers", "1")
    with leaking(server):
        found = heap(server, "--diff", "--seconds", "1", "--trace")
        file, _, line = found["allocated"][0]["place"].rpartition(":")
        assert file.endswith("/inner.py") and "CACHE.append" in INNER[int(line) - 1], found["allocated"]
        again = server.until(lambda: heap(server))
    assert again["allocated"] == [], "nothing is traced any more"
    assert again["before"] == [0, 0] and again["objects"] > 10_000


def test_what_is_there_is_shown_for_people(serve: Serve) -> None:
    server = serve("inner:application", "--workers", "2")
    with server.connect() as sock:
        sock.sendall(GET.format("/leak/300", "a", "").encode())
        assert read_reply(sock, bytearray())[0] == 200
    status, said = server.order("heap", timeout=120)
    assert status == 0 and "which stood still for" in said, said
    assert any("inner.CACHE (list)" in server.order("heap", "--worker", one, timeout=120)[1] for one in "12")
    # What Python puts into every module is not shown.
    assert "__builtins__" not in said and "__annotations__" not in said


def test_what_cannot_be_done_is_said(serve: Serve) -> None:
    server = serve("inner:application", "--workers", "1")
    for flags, exits, words in (
        (("--trace",), 2, "add --diff"),
        (("--worker", "7"), 2, "there is no worker 7 that serves: those that do are 1"),
        (("--diff", "--seconds", "0"), 2, "--seconds: 0 is not from 0.1 to 86400"),
    ):
        status, said = server.order("heap", *flags)
        assert status == exits and words in said, said
    server.stop()
    status, said = server.order("heap")
    assert status == 5 and f"no server answers at {server.control}" in said, said


def test_a_second_count_has_to_wait_and_one_that_nobody_reads_ends(serve: Serve) -> None:
    server = serve("inner:application", "--workers", "1")
    first = asking.ask(server.control, "heap", 1, "600 -")
    server.until(first.lines)
    status, said = server.order("heap", timeout=120)
    assert status == 4 and "somebody else counts in this worker" in said, said
    os.close(first.fd)
    server.until(lambda: server.order("heap", timeout=120)[0] == 0, 120)
    children = Path(f"/proc/{first.pid}/task/{first.pid}/children")
    assert not children.exists() or children.read_text() == ""
