"""`http.response.pathsend`: what a client has is not sent again, and ranges are the server's."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from serving import PATIENCE, Serving

WHOLE = b"".join(b"%07d\n" % number for number in range(30_000))
#: As an application says it that knows nothing of ranges.
#: When it was written, in seconds since 1970.
CHANGED = 1_700_000_000
PLAIN = [["Content-Type", "text/x-own"], ["Content-Length", str(len(WHOLE))]]

Reply = tuple[int, http.client.HTTPMessage, bytes]


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    serving = Serving("sending:app")
    yield serving
    serving.kill()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("sent") / "whole"
    made.write_bytes(WHOLE)
    # The tag of what has just been written is weak, and a moment later it is not.
    os.utime(made, (CHANGED, CHANGED))
    return made


def ask(server: Serving, path: Path, method: str = "GET", fields: dict[str, str] | None = None, **asked: Any) -> Reply:
    """The reply of an application that sends a file by its path."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE)
    try:
        query = quote(json.dumps({"headers": PLAIN, "path": str(path), **asked}))
        connection.request(method, f"/?{query}", headers=fields or {})
        reply = connection.getresponse()
        return reply.status, reply.headers, reply.read()
    finally:
        connection.close()


def test_the_whole_comes_with_what_tells_its_states_apart(server: Serving, path: Path) -> None:
    status, headers, body = ask(server, path)
    assert (status, body == WHOLE) == (200, True)
    assert headers["Accept-Ranges"] == "bytes"
    assert {"ETag", "Last-Modified"} <= set(headers.keys())
    assert headers.get_all("Content-Length") == [str(len(WHOLE))]
    head = ask(server, path, "HEAD")
    assert (head[0], head[1]["Content-Length"], head[2]) == (200, str(len(WHOLE)), b"")


@pytest.mark.parametrize(
    ("value", "status", "told", "body"),
    [
        ("bytes=8-15", 206, f"bytes 8-15/{len(WHOLE)}", WHOLE[8:16]),
        ("bytes=-8", 206, f"bytes {len(WHOLE) - 8}-{len(WHOLE) - 1}/{len(WHOLE)}", WHOLE[-8:]),
        (f"bytes={len(WHOLE)}-", 416, f"bytes */{len(WHOLE)}", None),
        ("lines=1-2", 200, None, WHOLE),
    ],
)
def test_a_part_is_sent_where_one_is_asked_for(
    value: str, status: int, told: str | None, body: bytes | None, server: Serving, path: Path
) -> None:
    reply = ask(server, path, fields={"Range": value})
    assert (reply[0], reply[1]["Content-Range"]) == (status, told)
    assert body is None or reply[2] == body


def test_several_parts_have_the_type_that_the_application_has_given(server: Serving, path: Path) -> None:
    status, headers, body = ask(server, path, fields={"Range": "bytes=0-7,16-23"})
    assert (status, headers.get_content_type()) == (206, "multipart/byteranges")
    assert body.count(b"Content-Type: text/x-own\r\n") == 2
    assert WHOLE[:8] in body and WHOLE[16:24] in body and len(body) < 400


def test_who_has_it_is_told_so_by_the_applications_validators_or_the_files(server: Serving, path: Path) -> None:
    tag = ask(server, path)[1]["ETag"]
    status, headers, body = ask(server, path, fields={"If-None-Match": tag})
    assert (status, headers["ETag"], body) == (304, tag, b"")
    own = {"headers": [*PLAIN, ["ETag", '"own"']]}
    assert ask(server, path, fields={"If-None-Match": '"own"'}, **own)[0] == 304
    assert ask(server, path, fields={"If-None-Match": tag}, **own)[0] == 200
    assert ask(server, path, fields={"If-Match": '"other"'}, **own)[0] == 412
    assert ask(server, path, fields={"Range": "bytes=0-0", "If-Range": '"other"'}, **own)[0] == 200


@pytest.mark.parametrize("status", [206, 404])
def test_what_the_application_has_decided_stays(status: int, server: Serving, path: Path) -> None:
    fields = {"Range": "bytes=0-0", "If-None-Match": "*"}
    reply = ask(server, path, fields=fields, status=status)
    assert (reply[0], reply[2] == WHOLE, reply[1]["Content-Range"]) == (status, True, None)


def test_another_file_of_the_same_time_and_size_has_another_tag(server: Serving, path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(WHOLE[::-1])
    os.utime(other, (path.stat().st_mtime, path.stat().st_mtime))
    tag = ask(server, path)[1]["ETag"]
    status, headers, _ = ask(server, other, fields={"If-None-Match": tag})
    assert (status, headers["ETag"] == tag) == (200, False)


def test_a_file_that_is_not_there_is_the_applications_error(server: Serving, path: Path) -> None:
    assert ask(server, path.with_name("none"))[0] == 500
    server.says("FileNotFoundError")


def test_nobody_waits_for_who_would_write_to_a_fifo(server: Serving, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert ask(server, tmp_path / "fifo")[0] == 500
    server.says("is no ordinary file")
