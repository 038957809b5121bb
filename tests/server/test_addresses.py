"""Addresses with a scheme: what is spoken there, and that HTTP is what is meant where it is left out."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from drivers import DRIVERS
from serving import HERE, PYTHON, Serving, read_all

DRIVEN = [
    pytest.param((*options, *workers), id=f"{name}, {'one process' if workers else 'a worker'}")
    for name, options in DRIVERS.items()
    for workers in ((), ("--workers", "0"))
    if "without" not in name
]


def asked(address: str | tuple[str, int], family: socket.AddressFamily) -> bytes:
    with socket.socket(family) as sock:
        sock.settimeout(20)
        sock.connect(address)
        sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        return read_all(sock)


@pytest.mark.parametrize("driver", DRIVEN)
def test_http_before_an_address_means_what_the_bare_address_means(
    serve: Callable[..., Serving], tmp_path: Path, driver: tuple[str, ...]
) -> None:
    target, *options = driver
    plain, named = tmp_path / "plain", tmp_path / "named"
    binds = ("http://127.0.0.1:0", f"unix:{plain}", f"http://unix:{named}", "127.0.0.1:0")
    server = serve(target, *options, *(f"--bind={address}" for address in binds))
    first, *sockets, last = server.urls
    assert sockets == [f"unix:{plain}", f"unix:{named}"], "an address is shown as before"
    ports = [int(url.removeprefix("http://127.0.0.1:")) for url in (first, last)]
    replies = [asked(("127.0.0.1", port), socket.AF_INET) for port in ports]
    replies += [asked(str(path), socket.AF_UNIX) for path in (plain, named)]
    for reply in replies:
        assert reply.startswith(b"HTTP/1.1 200 OK\r\n"), reply


def test_a_socket_that_was_handed_down_may_have_its_scheme() -> None:
    from forehand.listen import listen

    plan = {"addresses": [], "backlog": 5, "defer_accept": False, "socket_access": {}}
    with socket.create_server(("127.0.0.1", 0)) as opened:
        for scheme in ("", "http://"):
            (listener,) = listen({**plan, "addresses": [f"{scheme}fd://{os.dup(opened.fileno())}"]})
            fd, url, kind = listener.lent()
            assert os.path.sameopenfile(fd, opened.fileno())
            assert (url, kind) == (f"http://127.0.0.1:{opened.getsockname()[1]}", "http")
            listener.close()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("gopher://127.0.0.1:0", ["nothing here speaks 'gopher'", "http://", "https://", "unix:PATH"]),
        ("ajp://unix:/tmp/x", ["nothing here speaks 'ajp'", "uwsgi://"]),
        ("uwsgi:", ["'uwsgi:' is not an address"]),
        ("uwsgi:http://127.0.0.1:0", ["'uwsgi:http://127.0.0.1:0' is not an address"]),
        ("://127.0.0.1:0", ["nothing here speaks ''"]),
        ("http://", ["'http://' is not an address"]),
        ("http://unix:", ["'http://unix:' is not an address"]),
        ("http://http://127.0.0.1:0", ["'http://http://127.0.0.1:0' is not an address"]),
    ],
)
def test_a_scheme_that_nobody_speaks_is_refused_with_those_that_are(address: str, words: list[str]) -> None:
    done = subprocess.run(
        [PYTHON, "-m", "forehand", "echo", "--bind", address], cwd=HERE / "apps", capture_output=True, text=True
    )
    assert done.returncode == 2
    for word in words:
        assert word in done.stderr, done.stderr
