"""Servers for tests: started on a free port, waited for by their readiness, stopped by their id."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

PYTHON = os.environ.get("FOREHAND_TEST_PYTHON", sys.executable)
HERE = Path(__file__).resolve().parent
PATIENCE = 20
#: What a report of a test that failed shows of a log, in bytes: its end.
SHOWN_OF_LOG = 8192

#: Servers that have not been ended: what they have written is shown with a test that fails.
RUNNING: weakref.WeakSet[Serving] = weakref.WeakSet()


class Serving:
    """A running `forehand`. `url`, `port`, `pid`; `log()` is what it has written so far."""

    def __init__(
        self,
        target: str,
        *options: str,
        cwd: Path | str = HERE / "apps",
        env: dict[str, str] | None = None,
        program: tuple[str, ...] = (),
    ):
        self._log = tempfile.TemporaryFile()
        reader, writer = os.pipe()
        bind = () if any(option.startswith("--bind") for option in options) else ("--bind", "127.0.0.1:0")
        # By default with the tests' own interpreter, or what a test has put in its place.
        command = [*(program or (PYTHON, "-m", "forehand")), target, *bind, "--ready-fd", str(writer), *options]
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            # Applications that are written anew within a second would be taken from what was compiled before.
            env={
                **{k: v for k, v in os.environ.items() if not k.startswith("FOREHAND_")},
                "PYTHONDONTWRITEBYTECODE": "1",
                **(env or {}),
            },
            stdout=self._log,
            stderr=self._log,
            pass_fds=[writer],
        )
        os.close(writer)
        with os.fdopen(reader) as ready:
            line = ready.readline()
        if not line:
            self.process.wait(PATIENCE)
            raise AssertionError(f"{command} ended with {self.process.returncode}:\n{self.log()}")
        told = json.loads(line)
        self.pid: int = told["pid"]
        self.urls: list[str] = told["listeners"]
        self.url = self.urls[0]
        self.workers: list[int] = told.get("workers", [])
        self.control: str = told.get("control", "")
        host, _, port = self.url.rpartition("://")[2].rpartition(":")
        self.port = int(port) if self.url.startswith(("http:", "https:", "h2c:")) and port.isdigit() else 0
        self.host = host if host.startswith("127.") else "127.0.0.1"
        RUNNING.add(self)

    def log(self) -> str:
        """What the server has written."""
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, 0).decode(errors="replace")

    def connect(self, timeout: float = PATIENCE) -> socket.socket:
        """A connection to the first address."""
        return socket.create_connection((self.host, self.port), timeout)

    def raw(self, data: bytes, *, end: bool = False) -> bytes:
        """Send bytes, read until the server closes or, without `end`, has nothing more to say."""
        with self.connect() as sock:
            sock.sendall(data)
            if end:
                sock.shutdown(socket.SHUT_WR)
            return read_all(sock)

    def order(self, *words: str, timeout: float = 90) -> tuple[int, str]:
        """Give an order over the control socket: the exit status, and what was said. Some begin several processes,
        one after another, each of which takes seconds on a busy machine."""
        command = [PYTHON, "-m", "forehand", words[0], "--control", self.control, *words[1:]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        return done.returncode, done.stdout + done.stderr

    def status(self) -> dict[str, Any]:
        """What `forehand status --json` prints, but for counters, asked at the control socket: a look that costs a
        process comes late."""
        return self._asked("status")

    def counters(self) -> dict[str, int]:
        """What has happened how often in all workers that run, by the names of docs/settings.md."""

        def answer() -> Any:
            found = self._asked("status counters")
            silent = [one for one in found["workers"] if one["counters"] is None]
            # On a busy machine one may take too long to answer.
            return None if any(one["state"] in ("ready", "leaving") for one in silent) else (found["counters"],)

        found: dict[str, int] = self.until(answer)[0]
        return found

    def counts(self, name: str, wanted: int) -> None:
        """So often it has happened, or comes to: what a client sees may be there before it is counted."""
        last = [-1]

        def reached() -> bool:
            last[0] = self.counters().get(name, 0)
            return last[0] >= wanted

        try:
            self.until(reached)
        finally:
            assert last[0] == wanted, f"{name} is {last[0]}, and {wanted} was expected"

    def _asked(self, order: str) -> dict[str, Any]:
        def answer() -> bytes:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(PATIENCE)
                sock.connect(self.control)
                sock.sendall(order.encode() + b"\n")
                return read_all(sock)

        # A supervisor whose program is being replaced lets go of who asks just then.
        found: dict[str, Any] = json.loads(self.until(answer).splitlines()[-1])
        assert found["ok"], found
        return found

    def until(self, what: Callable[[], Any], patience: float = PATIENCE) -> Any:
        """Wait for something that shows, at most so long; what it was."""
        end = time.monotonic() + patience
        while True:
            found = what()
            if found:
                return found
            assert time.monotonic() < end, f"it did not come to pass; the log:\n{self.log()}"
            time.sleep(0.02)

    def says(self, text: str) -> None:
        """It is in the log, or comes within the usual patience: lines are written by a thread of their own."""
        self.until(lambda: text in self.log() or (self.process.poll() is not None and self._is_said(text)))

    def _is_said(self, text: str) -> bool:
        assert text in self.log(), f"it has ended and not said {text!r}:\n{self.log()}"
        return True

    def stop(self, signum: int = signal.SIGTERM) -> int:
        """Stop gracefully; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signum)
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """The end, whatever happens."""
        RUNNING.discard(self)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        self._log.close()


class Shared:
    """Servers for tests that change nothing of them: `shared(target, *options)` starts one, and is the same one for the
    same words until `end`, to which it must have lived. `always`: options of each."""

    def __init__(self, *always: str) -> None:
        self.always = always
        self.started: dict[str, Serving] = {}

    def __call__(self, target: str, *options: str, **more: Any) -> Serving:
        words = repr((target, options, sorted(more.items())))
        if words not in self.started:
            self.started[words] = Serving(target, *self.always, *options, **more)
        return self.started[words]

    def end(self) -> None:
        """Stop them all, gracefully."""
        statuses = [server.stop() for server in self.started.values()]
        for server in self.started.values():
            server.kill()
        assert set(statuses) <= {0}, f"{list(self.started)} ended with {statuses}"


def read_all(sock: socket.socket) -> bytes:
    """All bytes until the peer closes."""
    parts = []
    while True:
        try:
            part = sock.recv(65536)
        except ConnectionResetError:
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts)


def read_reply(sock: socket.socket, buffer: bytearray, *, head: bool = False) -> tuple[int, dict[str, str], bytes]:
    """One reply with a Content-Length, chunked or without content; what follows stays in `buffer`."""
    while b"\r\n\r\n" not in buffer:
        _more(sock, buffer)
    raw, _, rest = bytes(buffer).partition(b"\r\n\r\n")
    lines = raw.decode("latin-1").split("\r\n")
    status = int(lines[0].split()[1])
    fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
    buffer[:] = rest
    if head or status in (204, 304) or status < 200:
        return status, fields, b""
    if "content-length" in fields:
        return status, fields, _take(sock, buffer, int(fields["content-length"]))
    body = bytearray()
    while True:
        while b"\r\n" not in buffer:
            _more(sock, buffer)
        line = buffer.index(b"\r\n")
        size = int(buffer[:line], 16)
        del buffer[: line + 2]
        part = _take(sock, buffer, size + 2)
        if size == 0:
            return status, fields, bytes(body)
        body += part[:-2]


def _more(sock: socket.socket, buffer: bytearray) -> None:
    part = sock.recv(65536)
    if not part:
        raise AssertionError(f"the server closed after {bytes(buffer)!r}")
    buffer += part


def _take(sock: socket.socket, buffer: bytearray, size: int) -> bytes:
    while len(buffer) < size:
        _more(sock, buffer)
    taken = bytes(buffer[:size])
    del buffer[:size]
    return taken
