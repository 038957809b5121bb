"""`--static /favicon.ico=FILE`: one file is sent at that path, and nothing else of its folder anywhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from gatewayrequests import WRITERS, exchange, parsed, variables
from serving import Serving
from staticfiles import DRIVERS, LARGE, THEN, THEN_TEXT, Start, ask, asked_of_python, fill, put, replace

ICON = b"<svg>" * 50
ETAG = f'"{THEN:x}-{len(ICON):x}"'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that has more than is to be sent."""
    files = fill(tmp_path / "files")
    put(files / "icon.svg", ICON)
    put(files / "icon.svg.gz", b"as if gzip")
    return files


@pytest.fixture(params=DRIVERS)
def start(request: pytest.FixtureRequest, serve: Callable[..., Serving], folder: Path) -> Start:
    """Start a server with mounts of that folder: `start("/favicon.ico=icon.svg")`."""

    def begin(*mounts: str, options: tuple[str, ...] = ()) -> Serving:
        placed = [mount.replace("=", f"={folder}/", 1) for mount in mounts]
        return serve(*DRIVERS[request.param], *(f"--static={mount}" for mount in placed), *options)

    return begin


def test_one_file_is_sent_at_its_path(start: Start) -> None:
    server = start("/favicon.ico=icon.svg;max-age=7", "/big=large.bin", "/=page.html", "/static=.")
    before = asked_of_python(server)
    with server.connect() as sock:
        for method in ("GET", "HEAD", "GET"):
            status, fields, body = ask(server, "/favicon.ico?v=1", method=method, sock=sock)
            del fields["date"]
            assert (status, body) == (200, ICON if method == "GET" else b"")
            assert fields == {
                "etag": ETAG, "last-modified": THEN_TEXT, "cache-control": "public, max-age=7",
                "accept-ranges": "bytes", "content-type": "image/svg+xml", "content-length": str(len(ICON)),
                "x-content-type-options": "nosniff", "vary": "Accept-Encoding",
            }  # fmt: skip
        assert ask(server, "/favicon.ico", f"If-None-Match: {ETAG}", sock=sock)[0] == 304
        assert ask(server, "/favicon.ico", "Range: bytes=1-3", sock=sock)[::2] == (206, b"svg")
        assert ask(server, "/favicon.ico", "Accept-Encoding: gzip", sock=sock)[2] == b"as if gzip"
        assert ask(server, "/favicon.ico", method="POST", sock=sock)[0] == 405
        assert ask(server, "/big", sock=sock)[2] == LARGE
        assert ask(server, "/", sock=sock)[2] == b"<p>plain</p>" * 20
        assert ask(server, "/static/icon.svg", sock=sock)[2] == ICON
    assert asked_of_python(server) == before + 1


#: Beside it, below it, and other ways to write it.
ELSEWHERE = [
    "/favicon.ico/", "/favicon.ico/icon.svg", "/favicon.ico/../icon.svg", "/favicon.icox", "/favicon.ic",
    "/favicon%2Eico", "/icon.svg", "/icon.svg.gz", "/favicon.ico.gz", "/site.css", "//favicon.ico", "/x/favicon.ico",
    "/favicon.ico/../../secret.txt",
]  # fmt: skip


def test_nothing_else_of_its_folder_is_sent(start: Start) -> None:
    server = start("/favicon.ico=icon.svg")
    before = asked_of_python(server)
    for path in ELSEWHERE:
        assert ask(server, path)[0] == 500, f"{path} is the application's, which fails"
    assert asked_of_python(server) == before + len(ELSEWHERE) + 1


def test_with_try_the_application_is_asked_where_it_is_missing(start: Start, folder: Path) -> None:
    server = start("/7=icon.svg;try", options=("--static-recheck", "20ms"))
    assert ask(server, "/7")[2] == ICON
    assert ask(server, "/7", method="POST")[2] == b"!\"#$%&'"
    (folder / "icon.svg").unlink()
    server.until(lambda: ask(server, "/7")[2] == b"!\"#$%&'")
    put(folder / "icon.svg", b"again")
    server.until(lambda: ask(server, "/7")[2] == b"again")


@pytest.mark.parametrize("driver", DRIVERS)
def test_what_takes_its_place_is_sent_only_if_it_is_a_file_of_its_folder(
    serve: Callable[..., Serving], folder: Path, driver: str
) -> None:
    file = folder / "icon.svg"
    mount = f"--static=/favicon.ico={file}"
    server = serve(*DRIVERS[driver], mount, "--static-recheck", "20ms")
    assert ask(server, "/favicon.ico")[2] == ICON
    replace(file, b"new", THEN + 60)
    server.until(lambda: ask(server, "/favicon.ico")[2] == b"new")
    # In the same place: a link within the folder, links out of it, what has no end, a folder, and nothing.
    for number, (target, status) in enumerate([("in.css", 200), ("../secret.txt", 404), ("/etc/passwd", 404)]):
        link = folder / f"link{number}"
        link.symlink_to(target)
        link.rename(file)
        server.until(lambda status=status: ask(server, "/favicon.ico")[0] == status)
    os.mkfifo(folder / "fifo")
    (folder / "fifo").rename(file)
    assert ask(server, "/favicon.ico")[0] == 404
    file.unlink()
    put(file / "inside", b"SECRET")
    assert ask(server, "/favicon.ico")[0] == 404
    assert ask(server, "/favicon.ico/inside")[0] == 500, "the application's"


def test_web_servers_get_it_by_their_own_protocols(serve: Callable[..., Serving], folder: Path) -> None:
    binds = [f"--bind={protocol}:127.0.0.1:0" for protocol in WRITERS]
    server = serve(*DRIVERS["threads"], f"--static=/favicon.ico={folder}/icon.svg", *binds)
    for number, write in enumerate(WRITERS.values()):
        status, _, body = parsed(exchange(server, write(variables(target="/favicon.ico")), number))
        assert (status, body) == (200, ICON)
