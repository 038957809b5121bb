"""The process that exports spans, as its supervisor sees it, and the memory in which workers leave them.

Knows: how it comes and goes. Does not know: what a span is (`server/tracing`), or where it goes (`span_exporter.py`).
The supervisor's side runs on its only thread.
"""

from __future__ import annotations

import os
import time

from forehand import _core, errors
from forehand.supervisor import log, title

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from forehand.supervisor.supervisor import Supervisor

#: One that has ended is started again after so many seconds; what workers leave meanwhile waits in their rings.
AGAIN = 1.0
#: How long it may take at the end to send what is left, in seconds: a collector that does not answer stops nothing.
LAST_WORD = 2.0


def memory(left: int = -1) -> int:
    """The descriptor of the rings. `left`: from the program before, whose workers still write there. Raises OSError
    where the system gives no memory."""
    if left >= 0:
        try:
            _core.Spans(left)
            return left
        except OSError:
            # Of another version: its workers' last spans are lost.
            os.close(left)
    fd = os.memfd_create("forehand-spans")
    os.ftruncate(fd, _core.Spans.BYTES)
    _core.Spans(fd)
    return fd


class Exporter:
    """The exporter's process."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self.pid = 0
        #: No process could be started for it, and that was said.
        self.failed = False
        self.deadline = 0.0

    def look(self, now: float) -> None:
        """It is time to start it, or to start it again."""
        if self.pid == 0 and now >= self.deadline:
            self.deadline = float("inf")
            self._start()

    def _start(self) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            self.deadline = time.monotonic() + AGAIN
            if not self.failed:
                log.write("error", f"no process can be started that exports traces: {error.strerror}; trying again")
            self.failed = True
            return
        if pid == 0:
            _run(self.supervisor)
        self.pid, self.failed = pid, False
        self.supervisor.other_processes[pid] = self._ended

    def _ended(self, status: int) -> None:
        self.pid = 0
        self.deadline = time.monotonic() + AGAIN
        if self.supervisor.state.phase == "serving":
            log.write("warning", f"the process that exports traces has ended (status {status}): it is started again")

    def dismiss(self) -> None:
        """Another one will take its place: it sends what it has, and ends."""
        if self.pid:
            from forehand.supervisor.supervisor import send_signal

            self.supervisor.other_processes[self.pid] = lambda status: None
            send_signal(self.pid, "SIGTERM")

    def close(self) -> None:
        """The server ends, and its workers have ended: what they have left is sent, if that is soon done."""
        if not self.pid:
            return
        from forehand.supervisor.supervisor import send_signal

        self.dismiss()
        until = time.monotonic() + LAST_WORD
        while time.monotonic() < until:
            try:
                if os.waitpid(self.pid, os.WNOHANG)[0]:
                    return
            except ChildProcessError:
                return
            time.sleep(0.01)
        send_signal(self.pid, "SIGKILL")


def _stop_signals() -> int:
    """What can be read once the supervisor has said that it is time to end. Ctrl-C goes to all of a terminal's
    processes: this one ends with its supervisor, and not before."""
    import _signal as signal

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for name in ("SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGTTIN", "SIGTTOU", "SIGQUIT", "SIGCHLD"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    # The handler's byte; the pipe is never read, so that it stays said.
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def _run(supervisor: Supervisor) -> NoReturn:
    """In the child, to its end."""
    status = errors.INTERNAL
    try:
        settings = supervisor.settings
        children = supervisor.children
        assert children is not None
        children.close_supervisors_fds()
        # Before the SDK is there, which takes a moment: it may be over by then.
        stopping = _stop_signals()
        for listener in children.listeners:
            # Without its path, which is the supervisor's to remove.
            listener.socket.close()
        title.show(settings, "traces", "forehand-traces")
        # A supervisor that was killed has told nobody: what is there is sent.
        _core.watch_parent(children.parent_pipe[0], round(LAST_WORD * 1000))
        if settings["user"] or settings["group"]:
            from forehand.supervisor import privileges

            privileges.drop(settings["user"], settings["group"])
        from forehand.supervisor import span_exporter

        status = span_exporter.run(children.spans_fd, stopping, settings)
    except BaseException as error:  # whatever it is, the log is to know of it
        log.write("error", f"traces: {type(error).__name__}: {error}")
    finally:
        os._exit(status)
