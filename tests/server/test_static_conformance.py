"""What is asked of a server of files, as data: ranges, conditions, compressed forms, names. One row a request.

The behaviours are those that RFC 9110 describes and that test suites of web servers look at; requests and files are
our own.
"""

from __future__ import annotations

import gzip
import os
import re
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from serving import Serving, read_reply

WHOLE = b"".join(b"%03d\n" % number for number in range(250))
SIZE = len(WHOLE)
#: When the files were last changed: long enough ago that their tags are strong.
CHANGED = int(time.time()) - 90_000
STYLE = b"body { color: black }\n" * 40


def date(seconds: int) -> str:
    return formatdate(CHANGED + seconds, usegmt=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("files")
    contents = {
        "whole.txt": WHOLE, "empty.txt": b"", "style.css": STYLE, "style.css.gz": gzip.compress(STYLE, mtime=0),
        "old.css": STYLE, "old.css.gz": b"of an older file", "page/index.html": b"<p>a page", "bare/a.txt": b"a",
        "a b.txt": b"blank", "ümlaut.txt": b"umlaut", "100%.txt": b"percent", ".hidden": b"h", ".git/config": b"h",
        ".well-known/security.txt": b"known", "no-ending": b"?", "picture.svg": b"<svg/>",
    }  # fmt: skip
    for name, content in contents.items():
        path = made / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (CHANGED, CHANGED))
    os.utime(made / "old.css.gz", (CHANGED - 100, CHANGED - 100))
    (made.parent / "secret.txt").write_bytes(b"secret")
    return made


@pytest.fixture(scope="module", params=["wsgi", "asgi"])
def server(request: pytest.FixtureRequest, folder: Path) -> Iterator[Serving]:
    target = "sending:application" if request.param == "wsgi" else "sending:app"
    serving = Serving(target, "--interface", request.param, "--static", f"/s={folder};index=index.html")
    yield serving
    serving.kill()


class Reply:
    def __init__(self, server: Serving, target: str, fields: dict[str, str], method: str = "GET") -> None:
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        with server.connect() as sock:
            sock.sendall(f"{method} {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n".encode())
            self.status, self.headers, self.body = read_reply(sock, bytearray(), head=method == "HEAD")


# (Range, status, Content-Range, body)
RANGES: list[tuple[str, int, str | None, bytes]] = [
    ("bytes=0-3", 206, f"bytes 0-3/{SIZE}", WHOLE[:4]),
    ("bytes=0-0", 206, f"bytes 0-0/{SIZE}", WHOLE[:1]),
    ("bytes=4-", 206, f"bytes 4-{SIZE - 1}/{SIZE}", WHOLE[4:]),
    ("bytes=0-", 206, f"bytes 0-{SIZE - 1}/{SIZE}", WHOLE),
    (f"bytes={SIZE - 1}-", 206, f"bytes {SIZE - 1}-{SIZE - 1}/{SIZE}", WHOLE[-1:]),
    (f"bytes=996-{SIZE + 99}", 206, f"bytes 996-{SIZE - 1}/{SIZE}", WHOLE[996:]),
    ("bytes=-4", 206, f"bytes {SIZE - 4}-{SIZE - 1}/{SIZE}", WHOLE[-4:]),
    (f"bytes=-{SIZE * 9}", 206, f"bytes 0-{SIZE - 1}/{SIZE}", WHOLE),
    ("BYTES=0-3", 206, f"bytes 0-3/{SIZE}", WHOLE[:4]),
    ("bytes= 0-3", 206, f"bytes 0-3/{SIZE}", WHOLE[:4]),
    ("bytes=0-3,", 206, f"bytes 0-3/{SIZE}", WHOLE[:4]),
    (f"bytes=0-3,{SIZE}-", 206, f"bytes 0-3/{SIZE}", WHOLE[:4]),
    (f"bytes={SIZE}-", 416, f"bytes */{SIZE}", b""),
    (f"bytes={SIZE}-{SIZE + 4}", 416, f"bytes */{SIZE}", b""),
    ("bytes=-0", 416, f"bytes */{SIZE}", b""),
    ("bytes=18446744073709551615-", 416, f"bytes */{SIZE}", b""),
    ("bytes=3-0", 200, None, WHOLE),
    ("bytes=", 200, None, WHOLE),
    ("bytes=x-3", 200, None, WHOLE),
    ("bytes=0-3x", 200, None, WHOLE),
    ("bytes=-", 200, None, WHOLE),
    ("bytes=0", 200, None, WHOLE),
    ("lines=0-3", 200, None, WHOLE),
    ("0-3", 200, None, WHOLE),
    ("bytes=0-99,50-149", 200, None, WHOLE),
    ("bytes=" + ",".join(f"{at}-{at}" for at in range(0, 22, 2)), 200, None, WHOLE),
]  # fmt: skip


@pytest.mark.parametrize(("value", "status", "told", "body"), RANGES, ids=[row[0][:40] for row in RANGES])
def test_a_range(value: str, status: int, told: str | None, body: bytes, server: Serving) -> None:
    reply = Reply(server, "/s/whole.txt", {"Range": value})
    assert (reply.status, reply.headers.get("content-range")) == (status, told)
    if status != 416:
        assert reply.body == body
        assert reply.headers["content-length"] == str(len(body))
    assert Reply(server, "/s/whole.txt", {"Range": value}, "HEAD").status == 200, "ranges are of GET alone"


@pytest.mark.parametrize(
    ("value", "parts"),
    [("bytes=0-3,8-11", [(0, 4), (8, 12)]), ("bytes=8-11, 0-3", [(8, 12), (0, 4)]),
     ("bytes=0-0,-1", [(0, 1), (SIZE - 1, SIZE)]), ("bytes=0-3,4-7", [(0, 4), (4, 8)]),
     ("bytes=" + ",".join(f"{at}-{at}" for at in range(0, 20, 2)), [(at, at + 1) for at in range(0, 20, 2)])],
)  # fmt: skip
def test_several_ranges(value: str, parts: list[tuple[int, int]], server: Serving) -> None:
    reply = Reply(server, "/s/whole.txt", {"Range": value})
    assert reply.status == 206
    kind, _, boundary = reply.headers["content-type"].partition("; boundary=")
    assert kind == "multipart/byteranges"
    expected = (
        b"".join(
            b"\r\n--%s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes %d-%d/%d\r\n\r\n%s"
            % (boundary.encode(), start, end - 1, SIZE, WHOLE[start:end])
            for start, end in parts
        )
        + b"\r\n--%s--\r\n" % boundary.encode()
    )
    # The line end before the first delimiter belongs to nothing and may be left out (RFC 2046 §5.1.1).
    assert reply.body in (expected, expected.removeprefix(b"\r\n"))


def test_an_empty_file_has_no_ranges(server: Serving) -> None:
    whole = Reply(server, "/s/empty.txt", {})
    assert (whole.status, whole.body, whole.headers["content-length"]) == (200, b"", "0")
    assert Reply(server, "/s/empty.txt", {"Range": "bytes=0-0"}).status == 416


# {fields}: {etag} and {other} stand for the file's own tag and another one. (fields, status, status of HEAD)
CONDITIONS: list[tuple[dict[str, str], int]] = [
    ({"If-Modified-Since": date(0)}, 304),
    ({"If-Modified-Since": date(60)}, 304),
    ({"If-Modified-Since": date(-1)}, 200),
    ({"If-Modified-Since": "yesterday"}, 200),
    ({"If-Unmodified-Since": date(0)}, 200),
    ({"If-Unmodified-Since": date(60)}, 200),
    ({"If-Unmodified-Since": date(-1)}, 412),
    ({"If-Unmodified-Since": "yesterday"}, 200),
    ({"If-None-Match": "{etag}"}, 304),
    ({"If-None-Match": "W/{etag}"}, 304),
    ({"If-None-Match": "*"}, 304),
    ({"If-None-Match": "{other}, {etag}"}, 304),
    ({"If-None-Match": "{other}"}, 200),
    ({"If-None-Match": "{etag}x"}, 200),
    ({"If-None-Match": "{other}", "If-Modified-Since": date(0)}, 200),
    ({"If-None-Match": "{etag}", "If-Modified-Since": date(-1)}, 304),
    ({"If-Match": "{etag}"}, 200),
    ({"If-Match": "*"}, 200),
    ({"If-Match": "{other}, {etag}"}, 200),
    ({"If-Match": "{other}"}, 412),
    ({"If-Match": "W/{etag}"}, 412),
    ({"If-Match": "{etag}", "If-Unmodified-Since": date(-1)}, 200),
    ({"If-Match": "{etag}", "If-None-Match": "{etag}"}, 304),
    ({"If-Match": "{other}", "If-None-Match": "{etag}"}, 412),
    ({"Range": "bytes=0-3", "If-Range": "{etag}"}, 206),
    ({"Range": "bytes=0-3", "If-Range": "{other}"}, 200),
    ({"Range": "bytes=0-3", "If-Range": "W/{etag}"}, 200),
    ({"Range": "bytes=0-3", "If-Range": date(0)}, 206),
    ({"Range": "bytes=0-3", "If-Range": date(60)}, 200),
    ({"Range": "bytes=0-3", "If-Range": date(-1)}, 200),
    ({"If-Range": "{other}"}, 200),
    ({"Range": "bytes=0-3", "If-None-Match": "{etag}"}, 304),
    ({"Range": f"bytes={SIZE}-", "If-Range": "{other}"}, 200),
    ({"Range": f"bytes={SIZE}-", "If-Match": "{other}"}, 412),
]


@pytest.mark.parametrize(("fields", "status"), CONDITIONS, ids=[" ".join(row[0]) + f" {row[1]}" for row in CONDITIONS])
def test_a_condition(fields: dict[str, str], status: int, server: Serving) -> None:
    first = Reply(server, "/s/whole.txt", {})
    tag = first.headers["etag"]
    assert re.fullmatch(r'"[^"]+"', tag), "strong"
    asked = {name: value.replace("{etag}", tag).replace("{other}", '"other"') for name, value in fields.items()}
    reply = Reply(server, "/s/whole.txt", asked)
    assert reply.status == status
    assert reply.headers["etag"] == tag
    assert reply.body == {200: WHOLE, 206: WHOLE[:4], 304: b""}.get(status, reply.body)
    if status == 304:
        assert not {"content-length", "content-type", "content-range"} & reply.headers.keys()
        assert reply.headers["cache-control"] == first.headers["cache-control"]
    head = Reply(server, "/s/whole.txt", asked, "HEAD")
    assert head.status == (200 if status == 206 else status)


# (Accept-Encoding, path, is it the compressed form?)
ENCODINGS: list[tuple[str | None, str, bool]] = [
    (None, "style.css", False),
    ("gzip", "style.css", True),
    ("GZip", "style.css", True),
    ("deflate, gzip;q=0.5", "style.css", True),
    ("*", "style.css", True),
    ("gzip;q=0", "style.css", False),
    ("gzip;q=0.000", "style.css", False),
    ("*;q=0, gzip", "style.css", True),
    ("gzip;q=0, *", "style.css", False),
    ("identity", "style.css", False),
    ("identity, gzip;q=0.1", "style.css", False),
    ("gzipped", "style.css", False),
    ("", "style.css", False),
    ("gzip", "old.css", False),
    ("gzip", "whole.txt", False),
]


@pytest.mark.parametrize(("accepted", "name", "is_compressed"), ENCODINGS)
def test_a_compressed_form(accepted: str | None, name: str, is_compressed: bool, server: Serving, folder: Path) -> None:
    fields = {} if accepted is None else {"Accept-Encoding": accepted}
    reply = Reply(server, f"/s/{name}", fields)
    assert (reply.status, reply.headers.get("content-encoding")) == (200, "gzip" if is_compressed else None)
    assert reply.body == (folder / (f"{name}.gz" if is_compressed else name)).read_bytes()
    assert ("vary" in reply.headers) == (name == "style.css"), "whoever keeps the one must not give it to all"
    assert reply.headers["content-type"].startswith("text/")


def test_a_form_has_a_tag_and_ranges_of_its_own(server: Serving) -> None:
    plain = Reply(server, "/s/style.css", {})
    packed = Reply(server, "/s/style.css", {"Accept-Encoding": "gzip"})
    assert plain.headers["etag"] != packed.headers["etag"]
    known = {"Accept-Encoding": "gzip", "If-None-Match": packed.headers["etag"]}
    assert Reply(server, "/s/style.css", known).status == 304
    assert Reply(server, "/s/style.css", {"If-None-Match": packed.headers["etag"]}).status == 200
    part = Reply(server, "/s/style.css", {"Accept-Encoding": "gzip", "Range": "bytes=0-1"})
    assert (part.status, part.body, part.headers["content-encoding"]) == (206, b"\x1f\x8b", "gzip")


# (method, target, status, Content-Type or Location)
NAMES: list[tuple[str, str, int, str | None]] = [
    ("GET", "/s/whole.txt", 200, "text/plain; charset=utf-8"),
    ("HEAD", "/s/whole.txt", 200, "text/plain; charset=utf-8"),
    ("GET", "/s/whole.txt?v=1", 200, "text/plain; charset=utf-8"),
    ("GET", "/s/style.css", 200, "text/css; charset=utf-8"),
    ("GET", "/s/picture.svg", 200, "image/svg+xml"),
    ("GET", "/s/no-ending", 200, "application/octet-stream"),
    ("GET", "/s/a%20b.txt", 200, "text/plain; charset=utf-8"),
    ("GET", "/s/%C3%BCmlaut.txt", 200, "text/plain; charset=utf-8"),
    ("GET", "/s/100%25.txt", 200, "text/plain; charset=utf-8"),
    ("GET", "/s/page/", 200, "text/html; charset=utf-8"),
    ("GET", "/s/page", 301, "./page/"),
    ("GET", "/s/page?a=b", 301, "./page/?a=b"),
    ("GET", "/s/.well-known/security.txt", 200, "text/plain; charset=utf-8"),
    ("GET", "/s/bare/", 404, None),
    ("GET", "/s/whole.txt/", 404, None),
    ("GET", "/s/none", 404, None),
    ("HEAD", "/s/none", 404, None),
    ("GET", "/s/.hidden", 404, None),
    ("GET", "/s/.git/config", 404, None),
    ("POST", "/s/whole.txt", 405, None),
    ("DELETE", "/s/none", 405, None),
]


@pytest.mark.parametrize(("method", "target", "status", "told"), NAMES, ids=[f"{row[0]} {row[1]}" for row in NAMES])
def test_a_name(method: str, target: str, status: int, told: str | None, server: Serving) -> None:
    reply = Reply(server, target, {}, method)
    assert reply.status == status
    if status == 200:
        assert reply.headers["content-type"] == told
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["last-modified"] == date(0)
        assert reply.headers["accept-ranges"] == "bytes"
    elif status == 301:
        assert reply.headers["location"] == told
    elif status == 405:
        assert reply.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "target",
    ["/s/../secret.txt", "/s/%2e%2e/secret.txt", "/s/..%2fsecret.txt", "/s/page/../../secret.txt", "/s//../secret.txt",
     "/s/%2e%2e%2fsecret.txt", "/s/..%5csecret.txt", "/s/%00", "/s/whole.txt%00.css", "/s/%c0%ae%c0%ae/secret.txt",
     "/s/.%2e/secret.txt", "/s//etc/passwd", "/s/%2fetc/passwd", "/s/page/..;/secret.txt", "/s/%252e%252e/secret.txt"],
)  # fmt: skip
def test_a_path_that_climbs_finds_nothing(target: str, server: Serving) -> None:
    reply: Any = Reply(server, target, {})
    assert reply.status in (400, 404)
    assert b"secret" not in reply.body and b"root:" not in reply.body
