"""An application that fails: its whole traceback in the log, and in development in the page."""

from __future__ import annotations

import importlib.util
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import HERE, PYTHON, Serving

pytestmark = pytest.mark.interpreters

ASK = b"GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
WAYS = {
    "threads": ["failures"],
    "gevent": ["failures", "--worker-class", "gevent"],
    "asyncio": ["failures:asgi", "--interface", "asgi", "--lifespan", "off", "--loop", "asyncio"],
    "uvloop": ["failures:asgi", "--interface", "asgi", "--lifespan", "off", "--loop", "uvloop"],
    "alone": ["failures", "--workers", "0"],
}
WAYS = {
    way: options for way, options in WAYS.items() if way not in ("uvloop", "gevent") or importlib.util.find_spec(way)
}


def plain(traceback: str) -> list[str]:
    """Without the marks below a line, which newer Pythons draw differently by what they know of it."""
    return [line for line in traceback.splitlines() if line.strip() and set(line.strip()) - set("~^")]


def told(server: Serving, failure: Path) -> str:
    """The log, once it holds all that Python has printed of the failure."""
    expected = plain(server.until(lambda: failure.exists() and failure.read_text()))
    # The application's own frames are what Python has printed, above the frame of the `raise` that passed it on.
    frames = [line for line in expected if "innermost" in line or "KeyError" in line or line.startswith("Traceback")]
    assert len(frames) >= 4, expected
    server.until(lambda: "KeyError: 'deep'" in server.log())
    found = plain(server.log())
    at = found.index("Traceback (most recent call last):")
    found = found[at : at + len(expected)]
    assert found == expected, "\n".join(found)
    return server.log()


@pytest.mark.parametrize("path", ["/deep", "/late"])
@pytest.mark.parametrize("way", WAYS)
def test_the_log_has_the_whole_traceback(serve: Callable[..., Serving], tmp_path: Path, way: str, path: str) -> None:
    failure = tmp_path / "failure"
    target, *options = WAYS[way]
    server = serve(target, *options, env={"FAILURE": str(failure)})
    server.raw(ASK % path.encode())
    log = told(server, failure)
    found = re.search(rf"\n(\S+ \S+Z) \[\d+\] error: the application failed: GET {path} HTTP/1.1 \((.*?)\)\n", log)
    assert found, log
    assert re.fullmatch(r"request 1, after \d+ ms", found[2])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z", found[1])


def test_what_fails_after_its_response_is_named_with_its_request(serve: Callable[..., Serving], tmp_path: Path) -> None:
    failure = tmp_path / "failure"
    target, *options = WAYS["asyncio"]
    server = serve(target, *options, env={"FAILURE": str(failure)})
    assert server.raw(ASK % b"/background").endswith(b"ok")
    log = told(server, failure)
    assert re.search(r"failed: GET /background HTTP/1.1 \(request 1, after \d+ ms\), after its response", log), log


def test_lifespans_and_hooks_tell_theirs(serve: Callable[..., Serving], tmp_path: Path) -> None:
    failure = tmp_path / "failure"
    env = {"FAILURE": str(failure)}
    server = serve("failures:asgi", "--interface", "asgi", env=env)
    assert "the application failed: lifespan.startup" in told(server, failure)
    failure.unlink()
    server = serve("echo", "--on-worker-ready", "failures:hook", env=env)
    assert "the hook on_worker_ready ('failures:hook') raised KeyError; going on" in told(server, failure)


def on_a_terminal(*words: str, env: dict[str, str]) -> tuple[subprocess.Popen[bytes], int, int]:
    """A server whose standard output and error are a terminal; the terminal, and where it says that it is ready."""
    ours, theirs = pty.openpty()
    reader, writer = os.pipe()
    command = [PYTHON, "-m", "forehand", *words, "--bind", "127.0.0.1:0", "--ready-fd", str(writer)]
    clean = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
    process = subprocess.Popen(
        command, cwd=HERE / "apps", stdout=theirs, stderr=theirs, pass_fds=[writer],
        env={**clean, "TERM": "xterm", **env},
    )  # fmt: skip
    os.close(theirs)
    os.close(writer)
    return process, ours, reader


def read_until(fd: int, wanted: bytes) -> bytes:
    found = b""
    while wanted not in found:
        found += os.read(fd, 4096)
    return found


def test_a_terminal_shows_requests_colours_and_the_page(tmp_path: Path) -> None:
    import json
    import socket

    process, terminal, ready = on_a_terminal("failures", env={"FAILURE": str(tmp_path / "failure")})
    try:
        with os.fdopen(ready) as file:
            url = json.loads(file.readline())["listeners"][0]
        address = ("127.0.0.1", int(url.rpartition(":")[2]))

        def ask(extra: bytes = b"") -> bytes:
            with socket.create_connection(address) as sock:
                sock.sendall(b"GET /<deep> HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + extra + b"\r\n")
                return b"".join(iter(lambda: sock.recv(65536), b""))

        page = ask()
        assert page.startswith(b"HTTP/1.1 500 ")
        assert b"KeyError: &#x27;deep&#x27;" in page and b"innermost" in page and b"GET /&lt;deep&gt;" in page
        seen = read_until(terminal, b'HTTP/1.1" 500 ')
        assert b"\x1b[1;31merror: the application failed" in seen
        # A proxy on this machine speaks for clients elsewhere: they are shown nothing.
        for name in (b"X-Forwarded-For", b"X-Real-IP", b"X-Forwarded-Host", b"Via"):
            page = ask(name + b": 192.0.2.1\r\n")
            assert page.startswith(b"HTTP/1.1 500 ") and b"innermost" not in page, name
    finally:
        process.terminate()
        while process.poll() is None:
            try:
                os.read(terminal, 4096)
            except OSError:
                break
        process.wait(20)
        os.close(terminal)


def test_the_page_is_shown_with_reload_and_never_otherwise(serve: Callable[..., Serving], tmp_path: Path) -> None:
    env = {"FAILURE": str(tmp_path / "failure")}
    assert b"innermost" not in serve("failures", env=env).raw(ASK % b"/deep")
    assert b"innermost" in serve("failures", "--reload", env=env).raw(ASK % b"/deep")
    target, *options = WAYS["asyncio"]
    assert b"innermost" in serve(target, *options, "--reload", env=env).raw(ASK % b"/deep")
    # Of what was sent before the failure nothing can be taken back: it is cut.
    assert b"innermost" not in serve("failures", "--reload", env=env).raw(ASK % b"/late")


def test_colours_are_off_where_nobody_can_see_them(serve: Callable[..., Serving], tmp_path: Path) -> None:
    env = {"FAILURE": str(tmp_path / "failure")}
    server = serve("failures", env=env)
    server.raw(ASK % b"/deep")
    assert "\x1b" not in told(server, tmp_path / "failure")
    server = serve("failures", "--log-colors", "on", env=env)
    server.raw(ASK % b"/deep")
    server.until(lambda: "\x1b[1;31merror: the application failed" in server.log())


def test_the_module_prints_the_page_for_hostile_text() -> None:
    code = (
        "from forehand.development import page\n"
        "error = ValueError('<script>' + 'x' * 10**6 + chr(0xdc80))\n"
        "made = page('GET /<b>', error)\n"
        "assert b'<script>' not in made and b'<b>' not in made and len(made) < 10**6, len(made)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
