"""The service of deploy/, run as systemd runs it: its socket handed over, its readiness, reload, watchdog and stop.

What systemd does is done by the test: it binds the socket of the unit, gives the variables, and reads what is told.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_units import PROGRAM, section

WAIT = 60
APP = "def application(environ, start_response):\n    start_response('200 OK', [])\n    return [b'{}']\n"


# sd_listen_fds(3): the sockets begin at 3, and LISTEN_PID is the service's own number.
HANDS_OVER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""


class Unit:
    """The service under a manager that is this test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "shop").mkdir()
        (folder / "shop" / "__init__.py").write_text("")
        self.write("one")
        self.told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.told.bind(str(folder / "notify"))
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(folder / "http.sock"))
        self.listener.listen()
        self.settings = dict(section("forehand.service", "Service"))
        name, _, control = self.settings["Environment"].partition("=")
        self.environment = {
            **os.environ, name: control.replace("/run/shop", str(folder)), "NOTIFY_SOCKET": str(folder / "notify"),
            "WATCHDOG_USEC": "200000",
        }  # fmt: skip
        self.log = open(folder / "log", "w+b")
        command = [sys.executable, "-c", HANDS_OVER, str(self.listener.fileno()), *self.words("ExecStart")]
        self.process = subprocess.Popen(
            command, cwd=folder, env=self.environment, pass_fds=[self.listener.fileno()], stderr=self.log
        )

    def words(self, name: str) -> list[str]:
        """A command of the unit, with the program of this environment."""
        return self.settings[name].replace(PROGRAM, f"{sys.executable} -m forehand").split()

    def write(self, text: str) -> None:
        """The application, which answers that text."""
        (self.folder / "shop" / "wsgi.py").write_text(APP.format(text))

    def wait_for(self, wanted: str) -> list[str]:
        """What is told until one message has that assignment."""
        seen: list[str] = []
        while wanted not in seen:
            ready = False
            for _ in range(WAIT):
                ready = bool(select.select([self.told], [], [], 1)[0])
                if ready or self.process.poll() is not None:
                    break
            assert ready, f"{wanted} was not told, but {seen}; the log: {(self.folder / 'log').read_text()}"
            seen += self.told.recv(4096).decode().splitlines()
        return seen

    def get(self) -> bytes:
        """A page, over the socket that was handed over."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(WAIT)
            client.connect(str(self.folder / "http.sock"))
            client.sendall(b"GET / HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n")
            return b"".join(iter(lambda: client.recv(65536), b"")).rpartition(b"\r\n\r\n")[2]

    def reload(self) -> subprocess.CompletedProcess[str]:
        """What `systemctl reload` runs."""
        return subprocess.run(self.words("ExecReload"), cwd=self.folder, env=self.environment, capture_output=True,
                              text=True, timeout=WAIT)  # fmt: skip

    def close(self) -> None:
        """End it, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(WAIT)
        self.told.close()
        self.log.close()
        self.listener.close()


@pytest.fixture
def unit(tmp_path: Path) -> Iterator[Unit]:
    service = Unit(tmp_path)
    yield service
    service.close()


def test_the_service_starts_beats_reloads_and_stops(unit: Unit) -> None:
    assert f"MAINPID={unit.process.pid}" in unit.wait_for("READY=1")
    assert unit.get() == b"one"
    unit.wait_for("WATCHDOG=1")
    unit.write("another")
    done = unit.reload()
    assert done.returncode == 0, done.stderr
    assert "RELOADING=1" in unit.wait_for("READY=1")
    assert unit.get() == b"another"
    unit.process.send_signal(signal.SIGTERM)
    unit.wait_for("STOPPING=1")
    assert unit.process.wait(WAIT) == 0
    assert (unit.folder / "http.sock").is_socket(), "the socket is systemd's, and stays"


def test_a_manager_that_listens_to_nothing_keeps_nobody_waiting(unit: Unit) -> None:
    unit.wait_for("READY=1")
    # Its queue is full, as it is where it is long busy; READY=1 of a reload comes when there is room again.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                other.sendto(b"STATUS=of another", str(unit.folder / "notify"))
    unit.write("another")
    done = unit.reload()
    assert done.returncode == 0, done.stderr
    assert unit.get() == b"another"
    assert "RELOADING=1" in unit.wait_for("READY=1")


def test_a_reload_that_fails_says_so_and_the_old_workers_go_on(unit: Unit) -> None:
    unit.wait_for("READY=1")
    (unit.folder / "shop" / "wsgi.py").write_text("1 / 0\n")
    done = unit.reload()
    assert done.returncode != 0
    assert "ZeroDivisionError" in done.stderr + done.stdout
    assert unit.get() == b"one"
