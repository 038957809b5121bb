"""Every case of tests/data against a real server, over a socket."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import Serving, read_all, read_reply

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))
from parse import Case, cases

CASES = cases()


def _options(case: Case) -> tuple[str, ...]:
    options = [f"--http-relax={name}" for name in case.relax] + [f"--http-refuse={name}" for name in case.strict]
    options += [f"--limit-{name.replace('_', '-')}={value}" for name, value in case.limits.items()]
    if case.refuse is not None and case.refuse[1] == "prior-knowledge":
        # This machine may begin with HTTP/2; the case is about those who are not trusted.
        options.append("--forwarded-allow-ips=192.0.2.1")
    return tuple(options)


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[tuple[str, ...], Serving]]:
    """One server for each set of options."""
    started: dict[tuple[str, ...], Serving] = {}
    yield started
    for server in started.values():
        server.kill()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_case_holds_over_a_socket(case: Case, servers: dict[tuple[str, ...], Serving]) -> None:
    options = _options(case)
    if options not in servers:
        servers[options] = Serving("echo:application", *options)
    server = servers[options]
    counted = case.refuse is not None and case.refuse[1] != "incomplete"
    reason = f'http_parse_errors_total{{reason="{case.refuse[1]}"}}' if case.refuse else ""
    before = server.counters().get(reason, 0) if counted else 0
    _play(case, server)
    if counted:
        server.counts(reason, before + 1)


def _play(case: Case, server: Serving) -> None:
    with server.connect() as sock:
        sock.sendall(case.send)
        if case.end:
            sock.shutdown(1)
        buffer = bytearray()
        # A request whose body is refused never reaches the application.
        whole = case.requests[:-1] if _body_is_refused(case) else case.requests
        for expected in whole:
            method, target = expected.line.split(b" ")[:2]
            status, fields, body = read_reply(sock, buffer, head=method == b"HEAD")
            assert status == 200, (status, fields, body, case.send)
            if method == b"HEAD" or target == b"*":
                continue
            _check(json.loads(body), expected, case)
        if case.refuse is None:
            return
        if case.refuse[1] == "incomplete":
            assert read_all(sock) == b"" and not buffer
            return
        status, fields, _ = read_reply(sock, buffer)
        assert (status, fields["connection"]) == (case.refuse[0], "close"), (case.send, buffer)
        assert read_all(sock) == b"" and not buffer, "nothing follows a refusal"


def _body_is_refused(case: Case) -> bool:
    """The last request that is expected is the one that is refused."""
    if case.refuse is None or not case.requests:
        return False
    return case.refuse[1] not in ("not-http", "tls-on-http")


def _check(facts: dict[str, str], expected: object, case: Case) -> None:
    method, target, version = expected.line.decode("latin-1").split(" ")
    assert facts["REQUEST_METHOD"] == method
    assert facts["RAW_URI"] == target
    assert facts["SERVER_PROTOCOL"] == ("HTTP/1.0" if version == "HTTP/1.0" else "HTTP/1.1")
    assert facts["body"].encode("latin-1") == expected.body, case.send
    for name, value in expected.headers:
        key = name.upper().replace("-", "_")
        found = facts[key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else "HTTP_" + key]
        assert value.decode("latin-1") in found.split(",") or found == value.decode("latin-1"), (name, found)
