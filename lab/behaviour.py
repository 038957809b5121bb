"""What a server does, asked over a socket: the right answers to a scenario's requests, and what it can do.

Nothing here believes a claim. Knows HTTP/1 as far as a client needs it for a handful of requests; of HTTP/2 the load
engine says whether its replies are right.
"""

from __future__ import annotations

import contextlib
import http.client
from dataclasses import dataclass, field
from typing import Any

from forehand_lab import engine, plan
from forehand_lab.reference import right
from forehand_lab.scenario import Answer, Request, Scenario
from forehand_lab.speaking import At, context, speaks_http2

PATIENCE_S = 5.0
# What a server can do, as people say it: the keys of `capabilities`, and what a scenario `needs`.
ABILITIES = {
    "http_1_1": "HTTP/1.1",
    "keep_alive": "kept connections",
    "keep_alive_1_0": "kept connections of HTTP/1.0",
    "pipelining": "pipelined requests",
    "chunked_request": "requests in chunks",
    "head_has_no_body": "replies to HEAD without a body",
    "close_is_kept": "an end of the connection when asked for it",
    "http_2": "HTTP/2",
}
# Headers that an application sets and a server has to hand on.
COMPARED = ("content-type", "content-length")


@dataclass
class Reply:
    """A reply as it came."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    closes: bool = False
    version: bytes = b""


def read_reply(stream: Any, method: str = "GET") -> Reply:
    """The next reply of a socket's file; OSError or ValueError where it is none."""
    line = stream.readline(65536)
    words = line.split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1."):
        raise ValueError(f"no status line: {line[:60]!r}" if line else "the connection ended before a reply")
    reply = Reply(int(words[1]), version=words[0])
    while (line := stream.readline(65536).rstrip(b"\r\n")) != b"":
        name, _, value = line.decode("latin-1").partition(":")
        reply.headers[name.strip().lower()] = value.strip()
    connection = reply.headers.get("connection", "").lower()
    reply.closes = "close" in connection or (words[0] == b"HTTP/1.0" and "keep-alive" not in connection)
    if 100 <= reply.status < 200:
        return read_reply(stream, method)
    if method == "HEAD" or reply.status in (204, 304):
        return reply
    if reply.headers.get("transfer-encoding", "").lower() == "chunked":
        while size := int(stream.readline(1024).split(b";")[0], 16):
            reply.body += stream.read(size)
            stream.readline(8)
        stream.readline(8)
    elif "content-length" in reply.headers:
        length = int(reply.headers["content-length"])
        reply.body = stream.read(length)
        if len(reply.body) < length:
            raise ValueError(f"the reply ended after {len(reply.body)} of {length} bytes")
    else:
        reply.closes = True
        reply.body = stream.read()
    return reply


def converse(at: At, *requests: bytes, method: str = "GET", together: bool = False) -> list[Reply]:
    """Replies to requests on one connection, one after the other or all sent at once."""
    replies = []
    with at.connected(PATIENCE_S) as sock, sock.makefile("rb") as stream:
        if together:
            sock.sendall(b"".join(requests))
        for request in requests:
            if not together:
                sock.sendall(request)
            replies.append(read_reply(stream, method))
    return replies


def head(method: str, target: str, version: str = "1.1", extra: str = "") -> bytes:
    """A request's head."""
    return f"{method} {target} HTTP/{version}\r\nHost: localhost\r\n{extra}\r\n".encode()


def answers_to(at: At, request: Request) -> Reply:
    """What the server says to a scenario's request, by HTTP/1."""
    connection = http.client.HTTPConnection(*at.door, timeout=30)
    if at.scheme == "https":
        connection = http.client.HTTPSConnection(*at.door, timeout=30, context=context(at.certificate, ("http/1.1",)))
    with contextlib.closing(connection):
        body = request.sent_body() or None
        source: Any = iter([body]) if request.chunked and body else body
        connection.request(
            request.method, request.target, source, dict(request.headers), encode_chunked=request.chunked
        )
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, headers, response.read())


def differences(wanted: Answer, told: Reply, method: str) -> list[str]:
    """How a reply differs from the right one, in words. Pure."""
    found = []
    if told.status != wanted.status:
        found.append(f"status {told.status}, not {wanted.status}")
    for name in COMPARED:
        expected, said = wanted.header(name), told.headers.get(name)
        if name == "content-length" and (said is None or not wanted.firm):
            # A server may send in chunks what has a length; one that gives no length to HEAD says less than it knows.
            continue
        if expected and (said or "").replace(" ", "").lower() != expected.replace(" ", "").lower():
            found.append(f"{name}: {said!r}, not {expected!r}")
    if method != "HEAD" and wanted.firm and told.body != wanted.body:
        at = next((n for n, (a, b) in enumerate(zip(told.body, wanted.body, strict=False)) if a != b), None)
        where = f"from byte {at} on" if at is not None else "in length"
        found.append(f"body of {len(told.body)} bytes differs {where}: {told.body[:40]!r}, not {wanted.body[:40]!r}")
    return found


def wrong_answers(at: At, scenario: Scenario) -> list[str]:
    """Differences from the right answers, over all requests of a scenario; empty when all is well."""
    found = wrong_by_http2(at, scenario) if scenario.load.get("http") == "2" else []
    # A server of HTTP/2 in the clear need not know anything else.
    for request in scenario.requests if at.scheme != "h2c" else ():
        shown = shown_as(request)
        try:
            told = answers_to(at, request)
        except (OSError, http.client.HTTPException, ValueError) as error:
            found.append(f"{shown}: no answer: {error or type(error).__name__}")
            continue
        wanted = right(scenario, request)
        if wanted:
            found += [f"{shown}: {difference}" for difference in differences(wanted, told, request.method)]
    return found


def shown_as(request: Request) -> str:
    """A request, in words."""
    return f"{request.method} {request.target}" + (" in chunks" if request.chunked else "")


def wrong_by_http2(at: At, scenario: Scenario) -> list[str]:
    """The same by HTTP/2, each request once: errors by the engine's names."""
    found = []
    for request in scenario.requests:
        asked = {
            **plan.addressed(plan.Aim(at.port, host=at.host, certificate=at.certificate), scenario.load),
            "load": {"kind": "closed", "connections": 1, "count": 1}, "duration_s": 2 * PATIENCE_S,
            "requests": [plan.asked(scenario, request)],
        }  # fmt: skip
        errors = engine.run(asked)["errors"]
        if errors:
            found.append(f"{shown_as(request)} by HTTP/2: {', '.join(name.replace('_', ' ') for name in errors)}")
    return found


def capabilities(at: At, target: str) -> dict[str, bool]:
    """What the server can do, by what it does."""

    def tried(question: Any) -> bool:
        try:
            return bool(question())
        except (OSError, ValueError):
            return False

    http_2 = speaks_http2(at, PATIENCE_S)
    if at.scheme == "h2c":
        return {"http_2": http_2}
    plain = head("GET", target)
    old = head("GET", target, "1.0", "Connection: keep-alive\r\n")

    def ends_after_close() -> bool:
        with at.connected(PATIENCE_S) as sock, sock.makefile("rb") as stream:
            sock.sendall(head("GET", target, extra="Connection: close\r\n"))
            read_reply(stream)
            return stream.read(1) == b""

    def head_has_no_body() -> bool:
        with at.connected(PATIENCE_S) as sock, sock.makefile("rb") as stream:
            sock.sendall(head("HEAD", target, extra="Connection: close\r\n"))
            return read_reply(stream, "HEAD").status == 200 and stream.read(1) == b""

    chunked = head("POST", target, extra="Transfer-Encoding: chunked\r\n") + b"5\r\nhello\r\n0\r\n\r\n"
    return {
        "http_1_1": tried(lambda: converse(at, plain)[0].version == b"HTTP/1.1"),
        "keep_alive": tried(lambda: len(converse(at, plain, plain)) == 2),
        "keep_alive_1_0": tried(lambda: len(converse(at, old, old)) == 2),
        "pipelining": tried(lambda: len(converse(at, *[plain] * 8, together=True)) == 8),
        "chunked_request": tried(lambda: converse(at, chunked)[0].status == 200),
        "head_has_no_body": tried(head_has_no_body),
        "close_is_kept": tried(ends_after_close),
        "http_2": http_2,
    }
