"""Behind a real HAProxy: its PROXY headers of both versions, its facts, its health checks; and curl's."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import PATIENCE, Serving, read_reply

Serve = Callable[..., Serving]
HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
needs_haproxy = pytest.mark.skipif(HAPROXY is None, reason="apt-get install haproxy")

CONFIGURATION = """
global
    maxconn 50
    stats socket {folder}/stats level admin
defaults
    mode {mode}
    timeout connect 20s
    timeout client 20s
    timeout server 20s
    timeout check 20s
    {defaults}
frontend door
    bind fd@{fd}
    default_backend forehand
backend forehand
    {backend}
    server one {address} {server}
"""


class Balancer:
    """HAProxy in front of a server: the address that clients connect to, and what it knows of the server."""

    def __init__(self, folder: Path, listener: socket.socket) -> None:
        self.folder = folder
        self.address: tuple[str, int] = listener.getsockname()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, PATIENCE)

    def answers(self) -> bool:
        """Whether it has begun: its own socket is there before it listens."""
        try:
            return bool(self.checked())
        except (FileNotFoundError, ConnectionError):
            return False

    def checked(self) -> dict[str, str]:
        """What the last health check has found."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(PATIENCE)
            sock.connect(str(self.folder / "stats"))
            sock.sendall(b"show stat\n")
            text = b"".join(iter(lambda: sock.recv(65536), b"")).decode().removeprefix("# ")
        names, *rows = [line.split(",") for line in text.splitlines() if line]
        [found] = [row for row in rows if row[:2] == ["forehand", "one"]]
        return dict(zip(names, found))


@contextlib.contextmanager
def balanced(served: Serving, folder: Path, server: str, **parts: str) -> Iterator[Balancer]:
    """HAProxy on a port of its own; it has the listener from here, so that the port is known."""
    address = served.urls[0].removeprefix("http://").replace("unix:", "unix@")
    defaults = {"mode": "http", "defaults": "", "backend": ""}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        values = {**defaults, **parts, "folder": folder, "fd": listener.fileno(), "address": address, "server": server}
        (folder / "haproxy.cfg").write_text(CONFIGURATION.format(**values))
        command = [str(HAPROXY), "-db", "-f", str(folder / "haproxy.cfg")]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, pass_fds=[listener.fileno()], stdout=log, stderr=log)
        try:
            balancer = Balancer(folder, listener)
            served.until(lambda: balancer.answers() or process.poll() is not None)
            assert process.poll() is None, (folder / "log").read_text()
            yield balancer
        finally:
            process.terminate()
            process.wait(PATIENCE)


def ask(sock: socket.socket) -> dict[str, Any]:
    sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    status, _, body = read_reply(sock, bytearray())
    assert status == 200, body
    found: dict[str, Any] = json.loads(body)
    return found


@needs_haproxy
@pytest.mark.parametrize(
    ("target", "options"),
    [("introduced:application", ()), ("introduced:app", ("--interface", "asgi")),
     ("introduced:application", ("--worker-class", "gevent"))],
    ids=["threads", "asyncio", "gevent"],
)  # fmt: skip
def test_its_clients_are_known(serve: Serve, tmp_path: Path, target: str, options: tuple[str, ...]) -> None:
    if "gevent" in options:
        pytest.importorskip("gevent")
    served = serve(target, *options, "--bind=127.0.0.1:0?proxy=v1", "--bind=127.0.0.1:0?proxy=v2")
    for number, words in enumerate(("send-proxy", "send-proxy-v2 proxy-v2-options crc32c,unique-id")):
        folder = tmp_path / words.split()[0]
        folder.mkdir()
        served.urls = served.urls[number:]
        defaults = "unique-id-format from-%ci"
        with balanced(served, folder, words, defaults=defaults) as balancer:
            for _ in range(2):
                with balancer.connect() as sock:
                    for _ in range(2):
                        found = ask(sock)
                        assert found["client"] == [str(part) for part in sock.getsockname()]
                        assert found["server"] == [str(part) for part in balancer.address]
                        if number:
                            assert "from-127.0.0.1" in found["told"].values()
    assert served.stop() == 0
    assert "refused" not in served.log()


@needs_haproxy
def test_its_health_checks_are_answered(serve: Serve, tmp_path: Path) -> None:
    served = serve("introduced:application", "--bind=127.0.0.1:0?proxy=any")
    for number, (words, backend, wanted) in enumerate(
        [
            ("send-proxy-v2 proxy-v2-options crc32c", "option httpchk GET /health", "L7OK"),
            ("send-proxy", "option httpchk GET /health", "L7OK"),
            ("send-proxy-v2", "", "L4OK"),
            ("send-proxy", "", "L4OK"),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        server = f"{words} check check-send-proxy inter 20ms fall 1"
        with balanced(served, folder, server, backend=backend) as balancer:
            served.until(lambda balancer=balancer, wanted=wanted: balancer.checked()["check_status"] == wanted)
            if backend:
                with balancer.connect() as sock:
                    before = ask(sock)["asked"].get("/health", 0)
                    served.until(lambda sock=sock, before=before: ask(sock)["asked"].get("/health", 0) > before + 2)
            assert balancer.checked()["status"] == "UP"
            assert balancer.checked()["chkfail"] == "0"
    assert served.stop() == 0
    assert "refused" not in served.log()


@needs_haproxy
def test_one_that_sends_no_header_is_refused_and_says_so_itself(serve: Serve, tmp_path: Path) -> None:
    served = serve("introduced:application", "--bind=127.0.0.1:0?proxy=v2")
    with balanced(served, tmp_path, "") as balancer, balancer.connect() as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert read_reply(sock, bytearray())[0] == 502
    served.until(lambda: "expected a PROXY v2 header, got an HTTP request" in served.log())


@pytest.mark.skipif(shutil.which("curl") is None, reason="apt-get install curl")
def test_curl_sends_a_header_too(serve: Serve) -> None:
    served = serve("introduced:application", "--bind=127.0.0.1:0?proxy=any")
    done = subprocess.run(
        ["curl", "--silent", "--show-error", "--haproxy-protocol", served.url],
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout)["client"][0] == "127.0.0.1"
