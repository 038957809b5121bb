"""`--static`: files are sent before the application is asked, under each driver, over sockets."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gatewayrequests import WRITERS, exchange, parsed, variables
from serving import PYTHON, Serving, read_all, read_reply
from staticfiles import CSS, DRIVERS, LARGE, THEN, THEN_TEXT, Start, ask, asked_of_python, fill, put, replace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of files, beside which lies what nobody shall get."""
    return fill(tmp_path / "files")


@pytest.fixture(params=DRIVERS)
def start(request: pytest.FixtureRequest, serve: Callable[..., Serving], folder: Path) -> Start:
    """Start a server of the folder below /static, with more words behind it and more options."""
    return lambda words="", *options, path="/static": serve(
        *DRIVERS[request.param], "--static", f"{path}={folder}{words}", *options
    )


@pytest.fixture(scope="module", params=DRIVERS)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server of the folder for all tests that change nothing."""
    files = fill(tmp_path_factory.mktemp("static") / "files")
    server = Serving(*DRIVERS[request.param], "--static", f"/static={files}")
    yield server
    server.kill()


ETAG = f'"{THEN:x}-{len(CSS):x}"'
LINES = {
    "etag": ETAG, "last-modified": THEN_TEXT, "cache-control": "public, max-age=60",
    "x-content-type-options": "nosniff",
    "content-type": "text/css; charset=utf-8", "accept-ranges": "bytes", "content-length": str(len(CSS)),
}  # fmt: skip


def test_a_file_is_sent_with_its_lines_and_the_application_is_not_asked(served: Serving) -> None:
    server = served
    before = asked_of_python(server)
    with server.connect() as sock:
        for method in ("GET", "HEAD", "GET"):
            status, fields, body = ask(server, "/static/site.css", method=method, sock=sock)
            del fields["date"]
            assert (status, fields, body) == (200, LINES, CSS if method == "GET" else b"")
        for path, content in (("/static/large.bin", LARGE), ("/static/empty.txt", b""), ("/static/in.css", CSS)):
            for _ in range(3):
                status, fields, body = ask(server, path, sock=sock)
                assert (status, body) == (200, content), path
        assert ask(server, "/static/large.bin", method="HEAD", sock=sock)[1]["content-length"] == str(len(LARGE))
        assert ask(server, "/static/docs/more/a%20b.txt?v=2", sock=sock)[2] == b"blank"
    assert asked_of_python(server) == before + 1
    assert ask(server, "/2")[2] == b'!"'


def test_who_has_a_file_is_told_so(served: Serving) -> None:
    server = served
    for lines, expected in {
        (f"If-None-Match: {ETAG}",): 304,
        (f'If-None-Match: "x", W/{ETAG}',): 304,
        ("If-None-Match: *",): 304,
        ('If-None-Match: "x"', f"If-Modified-Since: {THEN_TEXT}"): 200,
        (f"If-Modified-Since: {THEN_TEXT}",): 304,
        ("If-Modified-Since: Thu, 02 Jan 2020 03:04:04 GMT",): 200,
        (f"If-Match: {ETAG}",): 200,
        ('If-Match: "x"',): 412,
        ("If-Unmodified-Since: Thu, 02 Jan 2020 03:04:04 GMT",): 412,
    }.items():
        for method in ("GET", "HEAD"):
            with server.connect() as sock:
                for _ in range(3):
                    status, fields, body = ask(server, "/static/site.css", *lines, method=method, sock=sock)
                    assert status == expected, lines
                    assert fields["etag"] == ETAG and fields["cache-control"] == "public, max-age=60"
                    assert (status == 304) == ("content-length" not in fields), fields
                    assert body == (CSS if status == 200 and method == "GET" else body[:25] if status == 412 else b"")


@pytest.mark.parametrize("name", ["site.css", "large.bin"])
def test_parts_of_a_file_are_sent(served: Serving, name: str) -> None:
    content = {"site.css": CSS, "large.bin": LARGE}[name]
    server, size = served, len(content)
    etag = f'"{THEN:x}-{size:x}"'
    with server.connect() as sock:
        for value, first, last in [
            ("0-0", 0, 0), ("0-4", 0, 4), ("5-", 5, size - 1), ("-5", size - 5, size - 1), ("0-99999999", 0, size - 1),
            (f"{size - 1}-{size - 1}", size - 1, size - 1), (f"-{size + 5}", 0, size - 1),
        ]:  # fmt: skip
            for _ in range(2):
                status, fields, body = ask(server, f"/static/{name}", f"Range: bytes={value}", sock=sock)
                assert (status, body) == (206, content[first : last + 1]), value
                assert fields["content-range"] == f"bytes {first}-{last}/{size}"
                assert fields["etag"] == etag
        for value in (f"{size}-", f"{size + 1}-{size + 2}", "-0"):
            status, fields, body = ask(server, f"/static/{name}", f"Range: bytes={value}", sock=sock)
            assert (status, fields["content-range"]) == (416, f"bytes */{size}"), value
        for lines in [("Range: bytes=4-1",), ("Range: lines=0-1",), ("Range: bytes=0-4", 'If-Range: "x"')]:
            assert ask(server, f"/static/{name}", *lines, sock=sock)[::2] == (200, content), lines
        for lines in [("Range: bytes=0-4", f"If-Range: {etag}"), ("Range: bytes=0-4", f"If-Range: {THEN_TEXT}")]:
            assert ask(server, f"/static/{name}", *lines, sock=sock)[::2] == (206, content[:5]), lines


@pytest.mark.parametrize("name", ["site.css", "large.bin"])
def test_several_parts_come_in_one_body(served: Serving, name: str) -> None:
    content = {"site.css": CSS, "large.bin": LARGE}[name]
    server, size = served, len(content)
    status, fields, body = ask(server, f"/static/{name}", "Range: bytes=0-1,5-9,-3")
    assert status == 206 and "content-range" not in fields
    found = re.fullmatch(r"multipart/byteranges; ?boundary=(\S+)", fields["content-type"])
    assert found
    parts = body.split(b"--" + found[1].encode())
    assert parts[-1].strip() == b"--" and parts[0].strip() == b""
    wanted = [(0, 1), (5, 9), (size - 3, size - 1)]
    for part, (first, last) in zip(parts[1:-1], wanted, strict=True):
        head, _, data = part.partition(b"\r\n\r\n")
        assert b"Content-Range: bytes %d-%d/%d" % (first, last, size) in head
        assert b"Content-Type: " in head and data == content[first : last + 1] + b"\r\n"


def test_the_form_that_a_client_likes_best_is_sent(start: Start, folder: Path) -> None:
    put(folder / "old.html", b"new" * 50)
    put(folder / "old.html.gz", b"older than the file", THEN - 1)
    server = start()
    whole = b"<p>plain</p>" * 20
    with server.connect() as sock:
        for accept, coding, content in [
            ("gzip, br", "br", b"as if brotli"), ("gzip", "gzip", b"as if gzip"), ("*", "br", b"as if brotli"),
            ("br;q=0, gzip;q=0.5", "gzip", b"as if gzip"), ("deflate", None, whole), ("gzip;q=0", None, whole),
            ("identity", None, whole),
        ] * 2:  # fmt: skip
            _, fields, body = ask(server, "/static/page.html", f"Accept-Encoding: {accept}", sock=sock)
            assert (fields.get("content-encoding"), body) == (coding, content), accept
            assert fields["vary"] == "Accept-Encoding" and fields["content-type"] == "text/html; charset=utf-8"
            ending = {"br": "-br", "gzip": "-gz", None: ""}[coding]
            assert fields["etag"] == f'"{THEN:x}-{len(content):x}{ending}"'
        status, fields, body = ask(server, "/static/page.html", "Accept-Encoding: gzip", "Range: bytes=0-4", sock=sock)
        assert (status, body, fields["content-range"]) == (206, b"as if", "bytes 0-4/10")
        _, fields, _ = ask(server, "/static/old.html", "Accept-Encoding: gzip", sock=sock)
        assert "content-encoding" not in fields and "vary" not in fields


def test_other_methods_are_refused_and_the_connection_goes_on(served: Serving) -> None:
    server = served
    before = asked_of_python(server)
    with server.connect() as sock:
        for method in ("POST", "DELETE", "OPTIONS", "PROPFIND"):
            status, fields, _ = ask(server, "/static/site.css", method=method, sock=sock)
            assert (status, fields["allow"]) == (405, "GET, HEAD")
        more = b"x" * 100_000
        status, _, _ = ask(server, "/static/site.css", "Content-Length: 5", method="POST", sock=sock, more=b"12345")
        assert status == 405
    status, _, body = ask(server, "/static/site.css", f"Content-Length: {len(more)}", more=more)
    assert (status, body) == (200, CSS)
    assert asked_of_python(server) == before + 1


def test_what_is_not_there_is_404_or_the_applications(served: Serving) -> None:
    server = served
    before = asked_of_python(server)
    for path in (
        "/static",
        "/static/",
        "/static/none",
        "/static/docs",
        "/static/docs/",
        "/static/site.css/",
        "/static/pipe",
    ):
        status, fields, body = ask(server, path)
        assert (status, body) == (404, b"404 Not Found\n"), path
    assert asked_of_python(server) == before + 1
    assert ask(server, "/staticx", method="HEAD")[0] in (200, 500)
    assert asked_of_python(server) == before + 3


def test_with_try_the_application_is_asked_for_what_is_no_file(start: Start) -> None:
    server = start(";try", path="/")
    with server.connect() as sock:
        for _ in range(3):
            assert ask(server, "/site.css", sock=sock)[2] == CSS
            assert ask(server, "/7", sock=sock)[2] == b"!\"#$%&'"
            assert ask(server, "/3", method="POST", sock=sock)[2] == b'!"#'
        before = asked_of_python(server)
        assert before == 6


def test_a_folder_has_an_index_behind_its_slash_and_a_redirect_without(start: Start) -> None:
    server = start(";index=index.html")
    status, fields, body = ask(server, "/static/docs/")
    assert (status, fields["content-type"], body) == (200, "text/html; charset=utf-8", b"<h1>docs</h1>")
    for path, location in [("/static/docs", "./docs/"), ("/static/docs?a=b", "./docs/?a=b"), ("/static", "./static/")]:
        status, fields, _ = ask(server, path)
        assert (status, fields["location"]) == (301, location)
    assert ask(server, "/static/docs/more/")[0] == 404
    # What would be taken for another host is no path of a file, and nothing is redirected to it.
    for path in ("//docs", "/static//docs", "/static/%2fdocs", "/static//evil.example/..", "/static/\\evil.example"):
        status, fields, _ = ask(server, path)
        assert status in (400, 404, 500) and "location" not in fields, path


def test_a_fallback_stands_for_what_is_missing(start: Start) -> None:
    server = start(";fallback=page.html;max-age=0", path="/app")
    with server.connect() as sock:
        for path in ("/app/some/view", "/app", "/app/../x", "/app/some/view"):
            status, fields, body = ask(server, path, sock=sock)
            assert (status, body) == (200, b"<p>plain</p>" * 20), path
            assert fields["cache-control"] == "public, max-age=0"
        assert ask(server, "/app/site.css", sock=sock)[2] == CSS


def test_names_that_change_with_the_content_are_kept_for_ever(start: Start) -> None:
    server = start(";immutable=docs/**;max-age=7;header=Access-Control-Allow-Origin: *;header=X-A: b; c, d")
    for path, value in [
        ("app.3f2a91c0.js", "public, max-age=31536000, immutable"),
        ("docs/more/a%20b.txt", "public, max-age=31536000, immutable"), ("site.css", "public, max-age=7"),
    ]:  # fmt: skip
        _, fields, _ = ask(server, f"/static/{path}")
        assert fields["cache-control"] == value
        assert (fields["access-control-allow-origin"], fields["x-a"]) == ("*", "b; c, d")


TRAVERSALS = [
    "/static/../secret.txt", "/static/%2e%2e/secret.txt", "/static/..%2fsecret.txt", "/static/.%2e/secret.txt",
    "/static/%2e%2e%2fsecret.txt", "/static/docs/../../secret.txt", "/static/docs/%2e%2e/%2e%2e/secret.txt",
    "/static//etc/passwd", "/static/%2fetc/passwd", "/static///etc/passwd", "/static/..\\secret.txt",
    "/static/..%5csecret.txt", "/static/%5c..%5csecret.txt", "/static/site.css%00.html", "/static/%00", "/static/.env",
    "/static/%2eenv", "/static/./.env", "/static/out.txt", "/static/%c0%ae%c0%ae/secret.txt",
    "/static/%c0%ae%c0%ae%c0%afsecret.txt", "/static/%252e%252e/secret.txt", "/static/%u002e%u002e/secret.txt",
    "/static/..;/secret.txt", "/static/.../secret.txt", "/static/docs/..", "/static/docs/.",
    "/static/%ef%bc%8e%ef%bc%8e/secret.txt",
    "/static/../static/../secret.txt", "/static/" + "../" * 30 + "etc/passwd", "/static/" + "a/" * 3000,
    "/static/" + "b" * 300, "/static/~root/secret.txt", "/static/pipe",
]  # fmt: skip


def test_nothing_outside_the_folder_is_ever_sent(start: Start) -> None:
    server = start(";index=index.html")
    before = asked_of_python(server)
    for path in TRAVERSALS:
        for lines in ((), ("Range: bytes=0-",)):
            status, _, body = ask(server, path, *lines)
            assert status in (400, 404, 414) and b"SECRET" not in body and b"root:" not in body, path
    assert asked_of_python(server) == before + 1


def test_a_file_that_was_replaced_deleted_or_hidden_is_not_sent_any_more(start: Start, folder: Path) -> None:
    server = start("", "--static-recheck", "20ms")
    for name, content in (("site.css", CSS), ("large.bin", LARGE)):
        path = f"/static/{name}"
        with server.connect() as sock:
            assert ask(server, path, sock=sock)[2] == content
            replace(folder / name, content[::-1], THEN + 60)
            server.until(lambda path=path, content=content, sock=sock: ask(server, path, sock=sock)[2] == content[::-1])
            status, fields, _ = ask(server, path, f'If-None-Match: "{THEN:x}-{len(content):x}"', sock=sock)
            assert (status, fields["etag"]) == (200, f'"{THEN + 60:x}-{len(content):x}"')
            (folder / name).unlink()
            (folder / name).symlink_to("../secret.txt")
            server.until(lambda path=path, sock=sock: ask(server, path, sock=sock)[0] == 404)
            (folder / name).unlink()
            assert ask(server, path, sock=sock)[0] == 404


def test_a_file_that_may_not_be_read_any_more_is_refused(serve: Callable[..., Serving], folder: Path) -> None:
    # Not even root reads what it has no right to, without these two capabilities.
    without = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
    program = (*without, PYTHON, "-m", "forehand")
    server = serve(*DRIVERS["threads"], "--static", f"/static={folder}", "--static-recheck", "20ms", program=program)
    for name, content in (("site.css", CSS), ("large.bin", LARGE)):
        assert ask(server, f"/static/{name}")[2] == content
        (folder / name).chmod(0)
        server.until(lambda name=name: ask(server, f"/static/{name}")[::2] == (403, b"403 Forbidden\n"))
        (folder / name).chmod(0o644)
        server.until(lambda name=name: ask(server, f"/static/{name}")[0] == 200)


def test_a_folder_that_was_made_anew_is_found(start: Start, folder: Path) -> None:
    server = start("", "--static-recheck", "20ms")
    assert ask(server, "/static/site.css")[2] == CSS
    folder.rename(folder.with_name("before"))
    put(folder / "site.css", b"new")
    server.until(lambda: ask(server, "/static/site.css")[2] == b"new")


def test_replies_keep_their_order_in_a_pipeline_of_files_and_pages(served: Serving) -> None:
    server = served
    paths = ["/static/site.css", "/3", "/static/large.bin", "/static/none", "/5", "/static/page.html", "/70000"] * 5
    with server.connect() as sock:
        sock.sendall(b"".join(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path.encode() for path in paths))
        buffer = bytearray()
        for path in paths:
            status, fields, body = read_reply(sock, buffer)
            size = {"/static/site.css": len(CSS), "/static/large.bin": len(LARGE), "/static/none": 14,
                    "/static/page.html": 240}.get(path)  # fmt: skip
            assert len(body) == (int(path[1:]) if size is None else size), path
        assert buffer == b""


def test_http_1_0_gets_files_and_keeps_its_connection_if_it_asks(served: Serving) -> None:
    server = served
    reply = server.raw(b"GET /static/large.bin HTTP/1.0\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 200 OK\r\n") and reply.endswith(LARGE) and b"Connection: close\r\n" in reply
    with server.connect() as sock:
        for _ in range(2):
            sock.sendall(b"GET /static/site.css HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            assert read_reply(sock, bytearray())[2] == CSS


def test_each_file_has_its_line_in_the_access_log(start: Start) -> None:
    server = start("", "--access-log", "%m %U %s %B %{cache-control}o")
    ask(server, "/static/site.css")
    ask(server, "/static/site.css", f"If-None-Match: {ETAG}")
    ask(server, "/static/large.bin", "Range: bytes=0-9", method="GET")
    ask(server, "/static/none", method="HEAD")
    ask(server, "/static/none", method="POST")
    for line in [
        f"GET /static/site.css 200 {len(CSS)} public, max-age=60", "GET /static/site.css 304 0 public, max-age=60",
        "GET /static/large.bin 206 10 public, max-age=60", "HEAD /static/none 404 0 ", "POST /static/none 405 ",
    ]:  # fmt: skip
        server.says(line)


def test_a_reader_who_is_cut_short_is_told_by_a_reset(start: Start, folder: Path) -> None:
    put(folder / "shrinks.bin", LARGE * 20)
    server = start()
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(20)
        sock.connect(("127.0.0.1", server.port))
        sock.sendall(b"GET /static/shrinks.bin HTTP/1.1\r\nHost: a\r\n\r\n")
        assert sock.recv(1000).startswith(b"HTTP/1.1 200 OK")
        with (folder / "shrinks.bin").open("r+b") as file:
            file.truncate(100_000)
        with pytest.raises(ConnectionResetError):
            while sock.recv(1 << 20):
                pass
    server.says("became shorter while it was sent")


def test_web_servers_get_files_by_their_own_protocols(serve: Callable[..., Serving], folder: Path) -> None:
    for protocol, write in WRITERS.items():
        server = serve(*DRIVERS["threads"], "--static", f"/static={folder}", "--bind", f"{protocol}:127.0.0.1:0")
        for target, content in (("/static/site.css", CSS), ("/static/large.bin", LARGE)):
            status, _, body = parsed(exchange(server, write(variables(target=target))))
            assert (status, body) == (200, content), protocol
        status, _, body = parsed(
            exchange(server, write(variables(target="/static/site.css", more={"HTTP_IF_NONE_MATCH": ETAG})))
        )
        assert (status, body) == (304, b""), protocol
        ranged = variables(target="/static/large.bin", more={"HTTP_RANGE": "bytes=0-1,70000-140000"})
        status, _, body = parsed(exchange(server, write(ranged)))
        assert status == 206 and LARGE[70000:140001] in body, protocol


def test_a_closed_connection_is_no_matter(served: Serving) -> None:
    server = served
    for _ in range(5):
        with server.connect() as sock:
            sock.sendall(b"GET /static/large.bin HTTP/1.1\r\nHost: a\r\n\r\n")
            sock.recv(1)
    assert read_all_of(server, b"GET /static/site.css HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").endswith(CSS)


def read_all_of(server: Serving, request: bytes) -> bytes:
    """All that comes on a connection of its own."""
    with server.connect() as sock:
        sock.sendall(request)
        return read_all(sock)
