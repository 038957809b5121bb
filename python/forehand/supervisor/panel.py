"""The process that answers `--status-bind`: forked off the supervisor, it runs no Python, and answers whatever happens
to the workers.

Knows: its listeners, what it is told, and how it comes and goes. Does not know: what it answers (`server/status`). The
supervisor's side runs on its only thread.
"""

from __future__ import annotations

import os
import sys
import time

from forehand import __version__, _core, errors
from forehand.errors import Problem
from forehand.listen import Listener, listen
from forehand.supervisor import log, title

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forehand.supervisor.supervisor import Supervisor

#: One that has ended is started again after so many seconds: its listeners stay open meanwhile.
AGAIN = 1.0
#: How often the supervisor shows a sign of life where somebody may ask for it, in seconds.
ALIVE_EVERY = 5.0


class Panel:
    """The status endpoint, as its supervisor sees it. Raises Problem where an address cannot be had."""

    def __init__(self, supervisor: Supervisor, listeners: list[Listener] | None = None) -> None:
        settings = supervisor.settings
        self.supervisor = supervisor
        self.token = token(settings["status_token_file"])
        self.listeners = listeners or _listen(settings)
        assert supervisor.children is not None
        # No worker answers here.
        supervisor.children.private.update(self.fds())
        self.pid = 0
        self.deadline = 0.0
        if not self.token and not all(_is_private(one) for one in self.listeners):
            log.write(
                "info", "status: other machines get numbers, and no paths or routes in /status.json, as there is no "
                "--status-token-file",
            )  # fmt: skip

    def fds(self) -> list[int]:
        """Its listening descriptors."""
        return [one.socket.fileno() for one in self.listeners]

    def look(self, now: float) -> None:
        """It is time to start it, or to start it again."""
        if self.pid == 0 and now >= self.deadline:
            self._start()
        self.deadline = now + ALIVE_EVERY

    def _start(self) -> None:
        supervisor = self.supervisor
        assert supervisor.children is not None
        pid = os.fork()
        if pid == 0:
            _run(self)
        self.pid = pid
        supervisor.other_processes[pid] = self._ended

    def _ended(self, status: int) -> None:
        self.pid = 0
        self.deadline = time.monotonic() + AGAIN
        if self.supervisor.state.phase == "serving":
            text = f"the process for --status-bind and --statsd-host has ended (status {status}): it is started again"
            log.write("warning", text)

    def close(self) -> None:
        """The server ends."""
        if self.pid:
            from forehand.supervisor.supervisor import send_signal

            self.supervisor.other_processes[self.pid] = lambda status: None
            send_signal(self.pid, "SIGKILL")
        for listener in self.listeners:
            listener.close()


def _listen(settings: dict[str, Any]) -> list[Listener]:
    if not settings["status_bind"]:
        return []
    return listen({**settings, "addresses": settings["status_bind"], "defer_accept": False}, "--status-bind")


def _dotted(prefix: str) -> str:
    return f"{prefix}." if prefix and not prefix.endswith(".") else prefix


def token(path: str) -> bytes:
    """What `--status-token-file` has; nothing where there is no file. Raises Problem."""
    if not path:
        return b""
    try:
        with open(path, "rb") as file:
            token = file.read().strip()
    except OSError as error:
        raise Problem(errors.USAGE, f"--status-token-file: {path}: {error.strerror}") from None
    if not token:
        raise Problem(errors.USAGE, f"--status-token-file: {path} is empty", hint="write a long random text into it")
    return token


def _is_loopback(listener: Listener) -> bool:
    host = listener.url.removeprefix("http://")
    return host.startswith(("127.", "[::1]"))


def _is_private(listener: Listener) -> bool:
    return listener.url.startswith("unix:") or _is_loopback(listener)


def _run(panel: Panel) -> None:
    """In the child, to its end."""
    status = errors.INTERNAL
    try:
        supervisor = panel.supervisor
        settings = supervisor.settings
        children = supervisor.children
        assert children is not None
        _take_signals()
        children.private.difference_update(panel.fds())
        children.close_supervisors_fds()
        for listener in children.listeners:
            # Without its path, which is the supervisor's to remove.
            os.close(listener.socket.detach())
        title.show(settings, "status", "forehand-status")
        _core.watch_parent(children.parent_pipe[0], 0)
        if settings["user"] or settings["group"]:
            from forehand.supervisor import privileges

            privileges.drop(settings["user"], settings["group"])
        limits = settings["engine"]["limits"]
        told = {
            "token": list(panel.token),
            "stall_ms": round(settings["liveness_stall"] * 1000),
            "application": children.statistics.metrics or None,
            "deadlines": bool(limits["request_timeout"]),
            "slow_ms": settings["engine"]["slow_request"],
            "statsd_host": settings["statsd_host"],
            "statsd_interval_ms": round(settings["statsd_interval"] * 1000),
            "statsd_prefix": _dotted(settings["statsd_prefix"]),
            "dogstatsd_tags": settings["dogstatsd_tags"],
            "build": [("version", __version__), ("python", sys.version.split()[0]), ("target", settings["target"])],
        }
        lent = [(one.socket.fileno(), _is_loopback(one), _is_private(one)) for one in panel.listeners]
        _core.serve_status(lent, (children.statistics.fd, children.scoreboard.fd), told)
    finally:
        os._exit(status)


def _take_signals() -> None:
    """Ctrl-C goes to all of the terminal's processes: this one ends with its supervisor, and not before."""
    import _signal as signal

    for name in ("SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGTTIN", "SIGTTOU", "SIGQUIT"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
