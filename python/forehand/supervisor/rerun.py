"""The command itself, run again beside the supervisor with one option more: `--print-plan`, `--check`.

Knows: how it is started, and what it writes. Does not know: what its answer means.
Reading a configuration takes modules that a supervisor does not want to hold for ever, and
may fail or hang; here neither matters.
"""

from __future__ import annotations

import os
import sys
import time

from forehand import errors
from forehand.supervisor import app_metrics
from forehand.supervisor.state import NEVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from forehand.supervisor.supervisor import Supervisor

#: Reading the configuration again, and checking a new program, take no longer than this.
PATIENCE = 60.0


class Rerun:
    """One such process: its output, its end."""

    def __init__(
        self, supervisor: Supervisor, arguments: list[str], then: Callable[[int, bytes], None], where: dict[str, Any]
    ) -> None:
        self.supervisor = supervisor
        self.then = then
        self.output = b""
        self.deadline = time.monotonic() + PATIENCE
        try:
            self.fd, self.pid = self._start(arguments, where)
        except OSError as error:
            # Nothing has changed, and the server goes on as it is.
            then(errors.INTERNAL, f"no process can be started to read the configuration: {error.strerror}".encode())
            return
        supervisor.other_processes[self.pid] = self.ended
        supervisor.timers.append(self)
        supervisor.add_reader(self.fd, self._read)

    def _start(self, arguments: list[str], where: dict[str, Any]) -> tuple[int, int]:
        """Where its output is read, and its process. Raises OSError."""
        reader, writer = os.pipe()
        try:
            os.set_blocking(reader, False)
            pid = os.fork()
        except OSError:
            os.close(reader)
            os.close(writer)
            raise
        if pid == 0:
            _become(self.supervisor, arguments, writer, where)
        os.close(writer)
        return reader, pid

    def _read(self) -> None:
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return
        self.output += data
        if not data:
            self.supervisor.remove_reader(self.fd)

    def look(self, now: float) -> None:
        """It hangs: its end is its answer."""
        import _signal

        if now < self.deadline:
            return
        self.deadline = NEVER
        os.kill(self.pid, _signal.SIGKILL)

    def ended(self, status: int) -> None:
        """It has ended; what it wrote is its answer."""
        self.supervisor.timers.remove(self)
        while True:
            before = len(self.output)
            self._read()
            if len(self.output) == before:
                break
        self.supervisor.remove_reader(self.fd)
        os.close(self.fd)
        self.then(os.waitstatus_to_exitcode(status), self.output)


def _become(supervisor: Supervisor, arguments: list[str], writer: int, where: dict[str, Any]) -> NoReturn:
    """In the child: the command itself, with its output in the pipe."""
    try:
        assert supervisor.children is not None
        supervisor.children.close_supervisors_fds()
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        os.chdir(where["folder"])
        for name in supervisor.settings["file_variables"]:
            # The file is read again, and what is set already would stay.
            os.environ.pop(name, None)
        if supervisor.children.statistics.metrics:
            # What the application counts while it is checked is not the server's.
            os.environ.pop(app_metrics.VARIABLE, None)
        os.execv(sys.executable, [sys.executable, "-m", "forehand", *where["arguments"], *arguments])
    finally:
        os._exit(errors.INTERNAL)
