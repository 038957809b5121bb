"""A log that nobody reads stops nothing: a pipe that is full costs lines, and neither a reload nor a stop."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import HERE, PATIENCE, PYTHON, read_reply

#: More than a pipe holds.
FILL = b"x" * 65536


class Unread:
    """A server that writes into a full pipe."""

    def __init__(self, folder: Path, target: str, *options: str) -> None:
        self.reader, writer = os.pipe()
        told, ready = os.pipe()
        self.control = str(folder / "control")
        command = [PYTHON, "-m", "forehand", target, "--bind", "127.0.0.1:0", "--control", self.control]
        self.process = subprocess.Popen(
            [*command, *options, "--ready-fd", str(ready)],
            cwd=HERE / "apps", pass_fds=[ready], stdout=subprocess.DEVNULL, stderr=writer,
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith("FOREHAND_")},
                "FAILURE": os.devnull,
            },
        )  # fmt: skip
        os.close(ready)
        with os.fdopen(told) as lines:
            self.port = int(json.loads(lines.readline())["listeners"][0].rpartition(":")[2])
        # A description of its own, so that only this end does not wait.
        self.filler = os.open(f"/proc/self/fd/{writer}", os.O_WRONLY | os.O_NONBLOCK)
        os.close(writer)
        for size in (len(FILL), 1):
            self.fill(size)

    def fill(self, size: int) -> None:
        try:
            while True:
                os.write(self.filler, FILL[:size])
        except BlockingIOError:
            pass

    def order(self, *words: str) -> None:
        command = [PYTHON, "-m", "forehand", *words, "--control", self.control]
        subprocess.run(command, check=True, timeout=PATIENCE, capture_output=True)

    def rest(self) -> str:
        """What can be read to the end."""
        os.close(self.filler)
        with os.fdopen(self.reader, "rb") as pipe:
            return pipe.read().decode()


@pytest.fixture
def options() -> list[str]:
    return []


@pytest.fixture
def target() -> str:
    return "echo:application"


@pytest.fixture
def unread(tmp_path: Path, target: str, options: list[str]) -> Iterator[Unread]:
    server = Unread(tmp_path, target, *options)
    yield server
    if server.process.poll() is None:
        server.process.kill()
    server.process.wait(PATIENCE)


@pytest.mark.skipif(sys.platform != "linux", reason="a pipe is opened anew by its name in /proc")
def test_a_reload_and_a_stop_do_not_wait_for_who_reads(unread: Unread) -> None:
    unread.order("reload")
    unread.process.terminate()
    assert unread.process.wait(PATIENCE) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="a pipe is opened anew by its name in /proc")
@pytest.mark.parametrize("options", [["--workers", "0"]])
def test_a_stop_without_a_supervisor_does_not_either(unread: Unread) -> None:
    unread.process.terminate()
    assert unread.process.wait(PATIENCE) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="a pipe is opened anew by its name in /proc")
def test_what_was_lost_is_counted_where_the_next_line_stands(unread: Unread) -> None:
    unread.order("workers", "2")
    taken = os.read(unread.reader, 1 << 20)
    assert b"2 wanted now" not in taken
    unread.order("workers", "1")
    unread.process.terminate()
    assert unread.process.wait(PATIENCE) == 0
    rest = unread.rest()
    assert "lost here: nobody read them" in rest
    assert "workers: 1 wanted now" in rest


@pytest.mark.skipif(sys.platform != "linux", reason="a pipe is opened anew by its name in /proc")
@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("failures:application", ["--threads", "2"]),
        ("failures:asgi", ["--lifespan", "off", "--loop", "asyncio"]),
        ("failures:application", ["--worker-class", "gevent"]),
    ],
    ids=["threads", "asyncio", "gevent"],
)
def test_tracebacks_of_an_application_that_fails_hold_up_nobody(unread: Unread) -> None:
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", unread.port), PATIENCE) as sock:
            sock.sendall(b"GET /fails HTTP/1.1\r\nHost: a\r\n\r\n")
            assert read_reply(sock, bytearray())[0] == 500
    unread.process.terminate()
    assert unread.process.wait(PATIENCE) == 0
