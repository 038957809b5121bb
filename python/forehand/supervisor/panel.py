"""The process that answers `--status-bind`: it runs no Python, and answers whatever happens to the workers.

Knows: its listeners, what it is told, and how it comes and goes. Does not know: what it answers (`server/status`). The
supervisor's side runs on its only thread.

It is a program of its own (`crates/status`): a process that is only forked off the supervisor keeps the interpreter's
memory, which becomes its own page by page as the supervisor changes what it has. Where the program is not there, as
only the module was built, or may not be run, or ends at once, the forked process answers itself, and the log says why.
"""

from __future__ import annotations

import _socket as socket  # without the enumerations that `socket` makes of its numbers
import os
import sys
import time

from forehand import __version__, _core, errors
from forehand.errors import Problem
from forehand.listen import Listener, listen
from forehand.supervisor import log, title
from forehand.supervisor.channel import Channel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forehand.supervisor.supervisor import Supervisor

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: One that has ended is started again after so many seconds: its listeners stay open meanwhile.
AGAIN = 1.0
#: The program: in an installed package, or in a clone where `make build` has made it.
PROGRAMS = (
    f"{PACKAGE}/bin/forehand-status",
    f"{os.path.dirname(os.path.dirname(PACKAGE))}/target/release/forehand-status",
)
#: Its environment: one heap for its few threads, and pages of a large answer go back to the system behind it.
ENVIRONMENT = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


class Panel:
    """The status endpoint, as its supervisor sees it. Raises Problem where an address cannot be had."""

    def __init__(self, supervisor: Supervisor, listeners: list[Listener] | None = None) -> None:
        settings = supervisor.settings
        self.supervisor = supervisor
        self.token = token(settings["status_token_file"])
        self.listeners = listeners or _listen(settings)
        assert supervisor.children is not None
        #: Workers' listeners by name, as it has no descriptors of them, which would keep their addresses open.
        self.accepts = list(map(_accepts, supervisor.children.listeners))
        # No worker answers here.
        supervisor.children.private.update(self.fds())
        self.pid = 0
        #: What the process has to say to people; none: there is none.
        self.line: Channel | None = None
        self.deadline = 0.0
        #: No process could be started for it, and that was said.
        self.failed = False
        #: Why its program is not begun; nothing where it is.
        self.without = ""
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
            self.deadline = float("inf")
            self._start()

    def _start(self) -> None:
        supervisor = self.supervisor
        assert supervisor.children is not None
        ours = theirs = -1
        try:
            ours, theirs = os.pipe()
            os.set_blocking(ours, False)
            pid = os.fork()
        except OSError as error:
            for fd in (ours, theirs):
                if fd >= 0:
                    os.close(fd)
            self.deadline = time.monotonic() + AGAIN
            if not self.failed:
                text = f"no process can be started for --status-bind and --statsd-host: {error.strerror}; trying again"
                log.write("error", text)
            self.failed = True
            return
        if pid == 0:
            os.close(ours)
            _run(self, theirs)
        os.close(theirs)
        self.pid, self.failed = pid, False
        self.line = Channel(ours)
        supervisor.add_reader(ours, self._hear)
        supervisor.other_processes[pid] = self._ended

    def _hear(self) -> None:
        """It has something to say (`server/report.rs`)."""
        assert self.line is not None
        for word, text in self.line.hear():
            if word == "warn":
                log.write("warning", text)
            elif word == "statsd":
                self._statsd(text.partition(" (os error")[0])
        if not self.line.open:
            self._hang_up()

    def _statsd(self, why: str) -> None:
        """The collector cannot be reached any more; without a reason: it can again."""
        host = self.supervisor.settings["statsd_host"]
        self.supervisor.concerns.statsd = f"{host}: {why}" if why else ""
        if why:
            log.write("warning", f"--statsd-host {host} cannot be reached: {why}; it is tried again and again")
        else:
            log.write("info", f"--statsd-host {host} can be reached now")

    def _hang_up(self) -> None:
        if self.line is not None:
            self.supervisor.remove_reader(self.line.fd)
            self.line.close()
            self.line = None

    def _ended(self, status: int) -> None:
        if self.line is not None:
            # Its last words may still be in the line.
            self._hear()
            self._hang_up()
        self.pid = 0
        self.deadline = time.monotonic() + AGAIN
        if not self.without and os.WIFEXITED(status):
            # A library that is missing, or a program of another version: nothing ends it but signals, once it answers.
            self.without = f"forehand-status has ended with status {os.WEXITSTATUS(status)}"
        elif self.supervisor.state.phase == "serving":
            text = f"the process for --status-bind and --statsd-host has ended (status {status}): it is started again"
            log.write("warning", text)

    def close(self) -> None:
        """The server ends."""
        if self.pid:
            from forehand.supervisor.supervisor import send_signal

            self.supervisor.other_processes[self.pid] = lambda status: None
            send_signal(self.pid, "SIGKILL")
        self._hang_up()
        for listener in self.listeners:
            listener.close()


def _listen(settings: dict[str, Any]) -> list[Listener]:
    if not settings["status_bind"]:
        return []
    return listen({**settings, "addresses": settings["status_bind"], "defer_accept": False}, "--status-bind")


def _accepts(listener: Listener) -> str:
    """How the kernel and people call a socket that workers accept from."""
    families = {socket.AF_INET6: "inet6", socket.AF_UNIX: "unix"}
    family = families.get(listener.socket.family, "inet")
    place = listener.url.removeprefix(f"{listener.kind.partition('?')[0]}:").removeprefix("//")
    return f"{family} {os.fstat(listener.socket.fileno()).st_ino} {place}"


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
    if b"\0" in token:
        raise Problem(errors.USAGE, f"--status-token-file: {path} is no text")
    if not token:
        raise Problem(errors.USAGE, f"--status-token-file: {path} is empty", hint="write a long random text into it")
    return token


def _is_loopback(listener: Listener) -> bool:
    host = listener.url.removeprefix("http://")
    return host.startswith(("127.", "[::1]"))


def _is_private(listener: Listener) -> bool:
    return listener.url.startswith("unix:") or _is_loopback(listener)


def _run(panel: Panel, line: int) -> None:
    """In the child, to its end. `line`: where it says what people are to know."""
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
            listener.socket.close()
        program, path = _program()
        if settings["user"] or settings["group"]:
            from forehand.supervisor import privileges

            privileges.drop(settings["user"], settings["group"])
        shared = (children.statistics.fd, children.scoreboard.fd, children.parent_pipe[0], line)
        told = _handed(_told(panel, children.statistics.metrics, shared))
        without = panel.without or ("" if program >= 0 else "forehand-status was not built with the module")
        if not without:
            for fd in (*panel.fds(), *shared):
                os.set_inheritable(fd, True)
            try:
                os.execve(program, [title.shown(settings, "status"), str(told)], ENVIRONMENT)
            except OSError as error:
                without = f"{path} cannot be run: {error.strerror}"
        log.write("info", f"status: {without}; a process forked off the supervisor answers, with a few MiB more")
        title.show(settings, "status", "forehand-status")
        _core.serve_status(told)
    finally:
        os._exit(status)


def _program() -> tuple[int, str]:
    """The program that answers, opened while this process may still read it, and its path; -1: it is not here."""
    for path in PROGRAMS:
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC), path
        except OSError:
            continue
    return -1, ""


def _told(panel: Panel, metrics: str, shared: tuple[int, int, int, int]) -> list[tuple[str, Any]]:
    """What it has to know (`server/status/process.rs`). `shared`: statistics, scoreboard, the parent's pipe, the line
    to it."""
    settings = panel.supervisor.settings
    engine = settings["engine"]
    build = {"version": __version__, "python": sys.version.split()[0], "target": settings["target"]}
    return [
        *(("listener", f"{one.socket.fileno()} {_is_loopback(one):d} {_is_private(one):d}") for one in panel.listeners),
        *(("accepts", one) for one in panel.accepts),
        *zip(("statistics", "scoreboard", "parent", "report"), shared, strict=True),
        ("token", panel.token),
        ("stall_ms", round(settings["liveness_stall"] * 1000)),
        ("deadlines", f"{bool(engine['limits']['request_timeout']):d}"),
        ("slow_ms", engine["slow_request"]),
        ("application", metrics),
        ("statsd_host", settings["statsd_host"]),
        ("statsd_interval_ms", round(settings["statsd_interval"] * 1000)),
        ("statsd_prefix", _dotted(settings["statsd_prefix"])),
        ("dogstatsd_tags", settings["dogstatsd_tags"]),
        *(("build", f"{name}={value}") for name, value in build.items()),
    ]


def _handed(told: list[tuple[str, Any]]) -> int:
    """A descriptor of it, which a program that is begun here has, too: neither its command line nor its environment is
    a place for a token."""
    fd = os.memfd_create("forehand-told", 0)
    for word in (word for pair in told for word in pair):
        os.write(fd, (word if isinstance(word, bytes) else os.fsencode(str(word))) + b"\0")
    return fd


def _take_signals() -> None:
    """Ctrl-C goes to all of the terminal's processes: this one ends with its supervisor, and not before."""
    import _signal as signal

    for name in ("SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGTTIN", "SIGTTOU", "SIGQUIT"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
