"""Files that an application names in place of a body (`--sendfile`), by X-Sendfile and X-Accel-Redirect."""

from __future__ import annotations

import hashlib
import http.client
import importlib.util
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from gatewayrequests import WRITERS, exchange, parsed, variables
from serving import PATIENCE, Serving

WHOLE = b"".join(b"%07d\n" % number for number in range(40_000))
DRIVERS = {
    "threads": ("sending:application", "--interface", "wsgi"),
    "asyncio": ("sending:app", "--interface", "asgi"),
}
if importlib.util.find_spec("gevent"):
    DRIVERS["gevent"] = ("sending:application", "--interface", "wsgi", "--worker-class", "gevent")

#: When the files were written, in seconds since 1970.
CHANGED = 1_700_000_000


class Replied:
    """A reply: `status`, `headers` by their names, all of them in `lines`, `body`."""

    def __init__(self, reply: http.client.HTTPResponse) -> None:
        self.status = reply.status
        self.headers = reply.headers
        self.lines = [(name.lower(), value) for name, value in reply.headers.items()]
        self.body = reply.read()


class Site:
    """A server whose application may name the files of a folder."""

    def __init__(self, server: Serving, folder: Path) -> None:
        self.server = server
        self.folder = folder

    def ask(self, asked: dict[str, Any], method: str = "GET", **headers: str) -> Replied:
        """The reply, where the application does as it is asked to."""
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=PATIENCE)
        try:
            fields = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, f"/view?{quote(json.dumps(asked))}", headers=fields)
            return Replied(connection.getresponse())
        finally:
            connection.close()

    def named(self, name: str, *more: tuple[str, str], by: str = "X-Sendfile", **asked: Any) -> dict[str, Any]:
        """What makes the application name a file of the folder."""
        value = f"{self.folder}/{name}" if by.lower() == "x-sendfile" else f"/protected/{quote(name)}"
        return {"headers": [(by, value), *more], **asked}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that may be named, and beside them one that may not."""
    outside = tmp_path_factory.mktemp("site")
    media = outside / "media"
    (media / "deep").mkdir(parents=True)
    for name, content in (("whole", WHOLE), ("small.txt", b"small")):
        (media / name).write_bytes(content)
        # Tags of what has just been written are weak, and a moment later they are not.
        os.utime(media / name, (CHANGED, CHANGED))
    (media / "empty").touch()
    (media / "deep" / "été 100%.pdf").write_bytes(b"umlauts")
    (media / ".hidden").write_bytes(b"the application may name it")
    (outside / "secret").write_text("a secret")
    (media / "out").symlink_to("../secret")
    (media / "in").symlink_to("small.txt")
    os.mkfifo(media / "fifo")
    return media


@pytest.fixture(scope="module", params=DRIVERS)
def site(request: pytest.FixtureRequest, folder: Path) -> Iterator[Site]:
    server = Serving(*DRIVERS[request.param], "--sendfile", f"/protected={folder}", "--access-log", "%r %s %B",
                     "--error-log-rate", "1000")  # fmt: skip
    yield Site(server, folder)
    server.kill()


@pytest.mark.parametrize("by", ["X-Sendfile", "X-Accel-Redirect", "x-sendfile"])
def test_a_file_takes_the_place_of_the_body_and_the_rest_is_the_applications(site: Site, by: str) -> None:
    more = (("Content-Type", "application/x-own"), ("Content-Disposition", "attachment"), ("Set-Cookie", "a=1"),
            ("Set-Cookie", "b=2"), ("Content-Length", "7"), ("Cache-Control", "private"))  # fmt: skip
    asked = site.named("whole", *more, by=by, body=["ignored"])
    reply = site.ask(asked)
    assert (reply.status, reply.body == WHOLE) == (200, True)
    assert ("set-cookie", "a=1") in reply.lines and ("set-cookie", "b=2") in reply.lines
    found = dict(reply.lines)
    assert found["content-type"] == "application/x-own"
    assert found["content-disposition"] == "attachment"
    assert found["cache-control"] == "private"
    assert found["content-length"] == str(len(WHOLE))
    assert found["accept-ranges"] == "bytes"
    assert {"etag", "last-modified"} <= found.keys()
    assert not {"x-sendfile", "x-accel-redirect"} & found.keys()


@pytest.mark.parametrize(
    ("name", "body"),
    [("small.txt", b"small"), ("empty", b""), ("in", b"small"), ("deep/été 100%.pdf", b"umlauts"),
     (".hidden", b"the application may name it"), ("./deep//../small.txt", None)],
)  # fmt: skip
def test_names_are_those_of_the_application(site: Site, name: str, body: bytes | None) -> None:
    for by in ("X-Sendfile", "X-Accel-Redirect"):
        reply = site.ask(site.named(name, by=by))
        assert (reply.status, reply.body) == ((200, body) if body is not None else (404, reply.body)), by


def test_a_type_follows_from_the_name_where_the_application_says_none(site: Site) -> None:
    assert site.ask(site.named("small.txt")).headers["Content-Type"] == "text/plain; charset=utf-8"
    by_url = site.ask({"headers": [("X-Accel-Redirect", "/protected/small.txt?v=1.css")]})
    assert (by_url.status, by_url.headers["Content-Type"]) == (200, "text/plain; charset=utf-8")


def test_head_has_the_headers_and_no_content(site: Site) -> None:
    for name, size in (("whole", len(WHOLE)), ("empty", 0)):
        reply = site.ask(site.named(name), "HEAD")
        assert (reply.status, reply.body, reply.headers["Content-Length"]) == (200, b"", str(size))
        assert "X-Sendfile" not in reply.headers


@pytest.mark.parametrize("status", [200, 206])
def test_ranges_are_the_servers(site: Site, status: int) -> None:
    more = [("Content-Range", "bytes 0-0/7")] if status == 206 else []
    asked = site.named("whole", *more, status=status)
    one = site.ask(asked, Range="bytes=5-14")
    assert (one.status, one.body) == (206, WHOLE[5:15])
    assert one.headers.get_all("Content-Range") == [f"bytes 5-14/{len(WHOLE)}"]
    last = site.ask(asked, Range="bytes=-1")
    assert (last.status, last.body) == (206, WHOLE[-1:])
    none = site.ask(asked, Range=f"bytes={len(WHOLE)}-")
    assert (none.status, none.headers["Content-Range"]) == (416, f"bytes */{len(WHOLE)}")
    whole = site.ask(asked)
    assert (whole.status, whole.body == WHOLE, whole.headers["Content-Range"]) == (200, True, None)


def test_several_ranges_come_as_parts_of_the_applications_type(site: Site) -> None:
    reply = site.ask(site.named("whole", ("Content-Type", "text/x-own")), Range="bytes=0-7,16-23")
    assert reply.status == 206
    kind, _, boundary = reply.headers["Content-Type"].partition("; boundary=")
    assert kind == "multipart/byteranges"
    parts = reply.body.split(b"--" + boundary.encode())
    assert [part.partition(b"\r\n\r\n")[2] for part in parts[1:-1]] == [b"0000000\n\r\n", b"0000002\n\r\n"]
    assert all(b"text/x-own" in part for part in parts[1:-1])
    assert int(reply.headers["Content-Length"]) == len(reply.body)


def test_who_has_the_file_is_told_so(site: Site) -> None:
    asked = site.named("whole", ("Set-Cookie", "a=1"), ("Content-Type", "text/x-own"))
    first = site.ask(asked)
    for known in ({"If_None_Match": first.headers["ETag"]}, {"If_Modified_Since": first.headers["Last-Modified"]}):
        again = site.ask(asked, **known)
        assert (again.status, again.body) == (304, b"")
        assert again.headers["ETag"] == first.headers["ETag"]
        assert again.headers["Set-Cookie"] == "a=1"
        assert "X-Sendfile" not in again.headers
    other = site.ask(site.named("small.txt"), If_None_Match=first.headers["ETag"])
    assert (other.status, other.body) == (200, b"small"), "another file has another tag"
    assert site.ask(asked, If_Match='"x"').status == 412
    held = site.ask(asked, Range="bytes=0-0", If_Range='"x"')
    assert (held.status, held.body == WHOLE) == (200, True)


def test_validators_of_the_application_go_before_the_files(site: Site) -> None:
    own = (("ETag", '"own"'), ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT"))
    asked = site.named("whole", *own)
    assert site.ask(asked, If_None_Match='"own"').status == 304
    assert site.ask(asked, If_Modified_Since="Sun, 06 Nov 1994 08:49:37 GMT").status == 304
    assert site.ask(asked, If_Modified_Since="Sun, 06 Nov 1994 08:49:36 GMT").status == 200
    part = site.ask(asked, Range="bytes=0-1", If_Range='"own"')
    assert (part.status, part.headers.get_all("ETag")) == (206, ['"own"'])


def test_another_status_is_kept_with_the_whole_file(site: Site) -> None:
    reply = site.ask(site.named("whole", status=403), Range="bytes=0-1", If_None_Match="*")
    assert (reply.status, reply.body == WHOLE) == (403, True)


def test_what_was_done_by_another_method_is_not_undone_by_a_condition(site: Site) -> None:
    reply = site.ask(site.named("small.txt"), "POST", If_None_Match="*", If_Match='"x"', Range="bytes=0-1")
    assert (reply.status, reply.body) == (200, b"small")


@pytest.mark.parametrize("status", [204, 304])
def test_a_reply_without_content_only_loses_the_header(site: Site, status: int) -> None:
    reply = site.ask(site.named("whole", ("X-Own", "1"), status=status))
    assert (reply.status, reply.body, reply.headers["X-Own"]) == (status, b"", "1")
    assert "X-Sendfile" not in reply.headers


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("{folder}/none", "there is no such file in {folder}"),
        ("{folder}", "it is in no folder of --sendfile"),
        ("{folder}/../secret", "no '..'"),
        ("{outside}/secret", "it is in no folder of --sendfile"),
        ("/etc/passwd", "it is in no folder of --sendfile"),
        ("secret", "it is in no folder of --sendfile"),
        ("{folder}/out", "{folder}"),
        ("{folder}/fifo", "{folder}"),
        ("{folder}/deep", "{folder}"),
        ("{folder}/whole/x", "{folder}"),
    ],
)  # fmt: skip
def test_what_is_not_there_or_outside_is_404_and_the_log_says_what_was_tried(site: Site, value: str, why: str) -> None:
    places = {"folder": str(site.folder), "outside": str(site.folder.parent)}
    value = value.format(**places)
    reply = site.ask({"headers": [("X-Sendfile", value), ("Set-Cookie", "a=1")]})
    assert reply.status == 404
    assert b"secret" not in reply.body and value.encode() not in reply.body
    site.server.says(f"the application named '{value}' in X-Sendfile")
    assert why.format(**places) in next(line for line in site.server.log().splitlines() if f"'{value}'" in line)


@pytest.mark.parametrize(
    "value", ["/protected/%2e%2e/secret", "/protected/..%2fsecret", "/protected/a%00", "/other/a", "/protected/%zz"]
)
def test_a_path_of_a_url_does_not_climb_either(site: Site, value: str) -> None:
    reply = site.ask({"headers": [("X-Accel-Redirect", value)]})
    assert (reply.status, b"secret" in reply.body) == (404, False)
    site.server.says(f"the application named '{value}' in X-Accel-Redirect")


def test_a_body_in_parts_is_gone_through_and_not_sent(site: Site) -> None:
    reply = site.ask(site.named("small.txt", body=["ignored"], times=100_000))
    assert (reply.status, reply.body) == (200, b"small")
    if "sending:application" in site.server.process.args:
        assert int(site.ask({"closed": True}).body) >= 100_000, "PEP 3333: close() is called"


def test_an_application_that_fails_behind_the_name_is_a_500(site: Site) -> None:
    reply = site.ask(site.named("small.txt", body=["one", "two"], fails=True))
    assert reply.status == 500
    site.server.says("RuntimeError: broken on purpose")


def test_a_connection_goes_on_and_replies_keep_their_order(site: Site) -> None:
    def request(asked: dict[str, Any]) -> bytes:
        return f"GET /view?{quote(json.dumps(asked))} HTTP/1.1\r\nHost: a\r\n\r\n".encode()

    named, plain = (
        request(site.named("small.txt")),
        request({"body": ["of Python"], "headers": [["Content-Length", "9"]]}),
    )
    raw = site.server.raw(named + plain + request(site.named("whole")) + named, end=True)
    places = [raw.index(b"small"), raw.index(b"of Python"), raw.index(WHOLE), raw.rindex(b"small")]
    assert places == sorted(places)
    assert raw.count(b"HTTP/1.1 200 ") == 4


def test_the_access_log_has_the_files_length(site: Site) -> None:
    site.ask(site.named("whole", ("X-Own", "logged")), "GET")
    site.server.says(f" 200 {len(WHOLE)}")


@pytest.mark.parametrize("protocol", WRITERS)
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_web_server_that_hands_its_requests_on_gets_the_file(
    driver: str, protocol: str, folder: Path, serve: Callable[..., Serving]
) -> None:
    server = serve(*DRIVERS[driver], "--sendfile", f"/protected={folder}", f"--bind={protocol}://127.0.0.1:0")
    target = f"/view?{quote(json.dumps(Site(server, folder).named('whole')))}"
    status, fields, body = parsed(exchange(server, WRITERS[protocol](variables(target=target))))
    assert (status, body == WHOLE, "x-sendfile" in fields) == (200, True, False)
    ranged = variables(target=target, more={"HTTP_RANGE": "bytes=0-6"})
    status, fields, body = parsed(exchange(server, WRITERS[protocol](ranged)))
    assert (status, body, fields["content-range"]) == (206, b"0000000", f"bytes 0-6/{len(WHOLE)}")


@pytest.mark.parametrize("driver", DRIVERS)
def test_without_the_option_the_header_is_for_somebody_else(
    driver: str, folder: Path, serve: Callable[..., Serving]
) -> None:
    site = Site(serve(*DRIVERS[driver]), folder)
    for by in ("X-Sendfile", "X-Accel-Redirect"):
        reply = site.ask(site.named("small.txt", by=by, body=["of the application"]))
        assert (reply.status, reply.body) == (200, b"of the application")
        assert by in reply.headers


def test_a_folder_is_known_by_its_name_and_by_what_that_stands_for(
    tmp_path: Path, serve: Callable[..., Serving]
) -> None:
    (tmp_path / "7" / "media").mkdir(parents=True)
    (tmp_path / "7" / "media" / "a").write_bytes(b"a")
    (tmp_path / "current").symlink_to("7")
    server = serve(*DRIVERS["threads"], "--sendfile", f"/m={tmp_path}/current/media")
    for spelt in ("current", "7"):
        reply = Site(server, tmp_path).ask({"headers": [("X-Sendfile", f"{tmp_path}/{spelt}/media/a")]})
        assert (reply.status, reply.body) == (200, b"a")


def test_the_tag_is_of_the_file_and_its_path(site: Site) -> None:
    tags = {site.ask(site.named(name)).headers["ETag"] for name in ("small.txt", "in", "empty")}
    assert len(tags) == 3, "one address may stand for another file for somebody else"
    assert hashlib.sha256(site.ask(site.named("whole")).body).digest() == hashlib.sha256(WHOLE).digest()


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_file_that_the_disk_has_to_be_asked_for_comes_in_its_turn(
    driver: str, folder: Path, serve: Callable[..., Serving]
) -> None:
    # Names below /sys are never resolved from memory alone, so that under an event loop a thread looks for the file.
    site = Site(
        serve(*DRIVERS[driver], "--sendfile", "/kernel=/sys/kernel", "--sendfile", f"/protected={folder}"), folder
    )
    slow = {"headers": [["X-Sendfile", "/sys/kernel/uevent_seqnum"], ["X-Own", "1"]]}
    head = site.ask(slow, "HEAD")
    assert (head.status, head.headers["X-Own"], head.body) == (200, "1", b"")
    assert site.ask({"headers": [["X-Sendfile", "/sys/kernel/none"]]}).status == 404
    lines = [f"GET /view?{quote(json.dumps(asked))} HTTP/1.1\r\nHost: a\r\nRange: bytes=0-0\r\n\r\n"
             for asked in (slow, site.named("small.txt"), slow)]  # fmt: skip
    raw = site.server.raw("".join(lines).encode(), end=True)
    assert raw.count(b"HTTP/1.1 206 ") == 3
    first, second, third = (part.partition(b"\r\n\r\n")[2] for part in raw.split(b"HTTP/1.1 206 ")[1:])
    assert (first.isdigit(), second, third.isdigit()) == (True, b"s", True)


def test_what_is_sent_so_and_what_is_refused_is_counted(site: Site) -> None:
    before = site.server.counters()
    assert [site.ask(site.named(name)).status for name in ("small.txt", "none", "small.txt")] == [200, 404, 200]
    for name, more in (("sendfile_replies", 2), ("sendfile_refused", 1)):
        site.server.counts(name, before[name] + more)
