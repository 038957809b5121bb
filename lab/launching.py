"""A contestant that runs: started, waited for, watched, and ended with every process that came of it.

Runs in the lab's main thread. The lab is the reaper of orphans, so that a server whose master dies, or that
goes to the background, leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from forehand_lab.children import in_child, unhurried
from forehand_lab.contestant import Contestant
from forehand_lab.environments import Environment, program
from forehand_lab.places import Setting, command, places, prepared
from forehand_lab.problem import FAILED, SYSTEM, Problem
from forehand_lab.speaking import At, speaks_http2

PR_SET_CHILD_SUBREAPER = 36
STOP_SECONDS, KILLED_SECONDS = 5.0, 30.0
LOG_TAIL = 65536
# How often a server is started whose port somebody else took meanwhile.
STARTS = 4
# Where ports are looked for, and where the kernel's own begin if it does not say (RFC 6335, section 6).
FIRST_PORT, FIRST_OF_KERNEL = 16384, 49152
_libc = ctypes.CDLL(None, use_errno=True)


class StartFailed(Problem):
    """The server did not come up; `log` is what it said."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(FAILED, message)
        self.log = log


@dataclass
class Running:
    """A started server: its port, its processes, its log."""

    contestant: Contestant
    port: int
    scratch: Path
    log: Path
    roots: list[subprocess.Popen[bytes]] = field(default_factory=list)
    host: str = "127.0.0.1"
    # In PEM, of a server that is spoken to within TLS; or ANYBODY.
    certificate: str = ""
    ready_s: float = 0.0
    pids: set[int] = field(default_factory=set)
    # Why it had to be killed at its end, or nothing.
    killed: str = ""

    def watched(self) -> list[int]:
        """The processes that are looked at, with all of theirs: those started, or whoever listens there now."""
        return [root.pid for root in self.roots] if not self.contestant.at else listeners(self.at.door)

    @property
    def at(self) -> At:
        """Where it is, and how it is spoken to."""
        return At(self.host, self.port, self.contestant.serves.scheme, self.certificate)

    def tree(self) -> list[psutil.Process]:
        """All processes: those started, and theirs."""
        found: dict[int, psutil.Process] = {}
        for root in self.roots:
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(root.pid)
                found[root.pid] = process
                found.update((child.pid, child) for child in process.children(recursive=True))
        self.pids.update(found)
        return [found[pid] for pid in sorted(found)]

    def died(self) -> str:
        """How a process of it has ended that should not have, or nothing."""
        if self.contestant.at:
            return "" if is_open(self.at.door) else f"nobody listens on {self.host}:{self.port} any more"
        for root in self.roots:
            status = root.poll()
            if status is not None:
                name = signal.Signals(-status).name if status < 0 else f"status {status}"
                return f"{Path(str(root.args[0])).name} ended with {name}"  # type: ignore[index]
        return ""

    def said(self) -> str:
        """The last lines of its log."""
        try:
            text = self.log.read_bytes()[-LOG_TAIL:].decode(errors="replace")
        except OSError:
            return ""
        lines = [line for line in text.splitlines() if line.strip()]
        return "\n".join(lines[-12:])

    def stop(self) -> float:
        """End it, kindly and then not; the seconds that it took. No process is left."""
        begun = time.monotonic()
        with unhurried():
            self._end(begun)
        return time.monotonic() - begun

    def _end(self, begun: float) -> None:
        everyone = {process.pid: process for process in self.tree()}
        for root in reversed(self.roots):
            if root.poll() is None:
                root.send_signal(signal.SIGTERM)
        end = begun + STOP_SECONDS
        for root in self.roots:
            with contextlib.suppress(subprocess.TimeoutExpired):
                root.wait(max(0.05, end - time.monotonic()))
        everyone.update((process.pid, process) for process in self.tree())
        if any(root.poll() is None for root in self.roots):
            self.killed = f"it did not stop within {STOP_SECONDS:g} s of SIGTERM, and was killed"
        for root in self.roots:
            # Whoever is still in its group, and was not asked.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(root.pid, signal.SIGKILL)
        left = [process for process in everyone.values() if process.is_running()]
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        for root in self.roots:
            # Killed, so that this is a matter of the machine's load alone.
            with contextlib.suppress(subprocess.TimeoutExpired):
                root.wait(KILLED_SECONDS)
        psutil.wait_procs(left, timeout=KILLED_SECONDS)
        reap()


def is_open(at: tuple[str, int]) -> bool:
    """Whether somebody accepts connections there."""
    try:
        socket.create_connection(at, 5).close()
    except OSError:
        return False
    return True


def listeners(at: tuple[str, int]) -> list[int]:
    """The processes of this machine that listen there, as far as this user may see them."""
    try:
        with socket.socket() as probe:
            probe.bind((at[0], 0))
    except OSError:
        # The address is another machine's, of which nothing can be seen.
        return []
    with contextlib.suppress(psutil.AccessDenied):
        found = (each for each in psutil.net_connections("tcp") if each.status == "LISTEN" and each.laddr)
        return sorted({each.pid for each in found if each.laddr.port == at[1] and each.pid})
    return []


def reap() -> None:
    """Take the exit statuses of orphans that came to us."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody has, and that the kernel gives to nobody who does not ask for it: it stays free a while."""
    try:
        end = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        end = FIRST_OF_KERNEL
    # Where the kernel's range leaves no room, one of its own.
    tried = [random.randrange(FIRST_PORT, end) for _ in range(64)] if end - FIRST_PORT >= 1000 else []
    for port in tried:
        if not taken(port, host):
            return port
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def taken(port: int, host: str) -> str:
    """Why nobody can listen there, or nothing."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.strerror or str(error)
    return ""


def port_is_free(port: int, host: str = "127.0.0.1") -> None:
    """Raises Problem with the name of who has the port."""
    why = taken(port, host)
    if not why:
        return
    holder = ""
    with contextlib.suppress(psutil.AccessDenied):
        for connection in psutil.net_connections("tcp"):
            if connection.laddr and connection.laddr.port == port and connection.status == "LISTEN" and connection.pid:
                with contextlib.suppress(psutil.NoSuchProcess):
                    holder = f" by {psutil.Process(connection.pid).name()} (pid {connection.pid})"
    raise Problem(
        SYSTEM, f"port {port} is taken{holder}: {why}", "give another with --port, or none: the lab finds one"
    )


@contextlib.contextmanager
def started(
    contestant: Contestant,
    environment: Environment,
    setting: Setting,
    log: Path,
    cpus: frozenset[int] = frozenset(),
    port: int = 0,
) -> Iterator[Running]:
    """The server, answering; ended when the block is left, whatever happens. One that runs already is left alone."""
    if contestant.at:
        host, its_port = contestant.at
        if not is_open(contestant.at):
            raise StartFailed(f"nobody listens on {host}:{its_port}")
        yield Running(contestant, its_port, Path(os.devnull), log, host=host, certificate=contestant.certificate)
        return
    if port:
        port_is_free(port, setting.address)
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with contextlib.ExitStack() as held:
        for left in reversed(range(1 if port else STARTS)):
            running, filled = _placed(held, contestant, environment, setting, log, port)
            try:
                _start(running, environment, setting, filled, cpus)
                break
            except StartFailed:
                held.close()
                # A port is free until somebody takes it, who may have been quicker.
                if not left or not taken(running.port, running.host):
                    raise
        yield running


def _placed(
    held: contextlib.ExitStack,
    contestant: Contestant,
    environment: Environment,
    setting: Setting,
    log: Path,
    port: int,
) -> tuple[Running, dict[str, str]]:
    """A server that is not started yet, with a folder and a port of its own: both end with `held`."""
    scratch = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="lab-", ignore_cleanup_errors=True)))
    filled = places(contestant, environment, setting, scratch, port or free_port(setting.address))
    prepared(contestant, filled, scratch)
    if "static" in contestant.serves.interfaces:
        from forehand_lab.reference import written

        written(scratch / "www")
    running = Running(contestant, int(filled["port"]), scratch, log, host=setting.address)
    if contestant.serves.scheme == "https":
        running.certificate = Path(filled["certificate"]).read_text()
    held.callback(running.stop)
    return running, filled


def surroundings(
    contestant: Contestant, environment: Environment, setting: Setting, filled: dict[str, str]
) -> dict[str, str]:
    """The variables that a server is started with: few, and the same for all."""
    keep = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "USER")
    made = {key: os.environ[key] for key in keep if key in os.environ}
    path = [filled["apps"], environment.site]
    made["LAB_SCRATCH"] = filled["scratch"]
    made.update({key: value.format_map(filled) for key, value in setting.environ})
    for key, value in contestant.start.environ.items():
        if key == "PYTHONPATH":
            path.append(value.format_map(filled))
        else:
            made[key] = value.format_map(filled)
    made["PYTHONPATH"] = os.pathsep.join(part for part in path if part)
    made["PYTHONDONTWRITEBYTECODE"] = "1"
    return made


def _start(
    running: Running, environment: Environment, setting: Setting, filled: dict[str, str], cpus: frozenset[int]
) -> None:
    begun = time.monotonic()
    environ = surroundings(running.contestant, environment, setting, filled)
    if setting.prepare:
        code = f"import {setting.module} as m; m.{setting.prepare}()"
        told = subprocess.run(
            [environment.python, "-c", code],
            env=environ,
            cwd=filled["apps"],
            capture_output=True,
            text=True,
            check=False,
        )
        if told.returncode:
            raise StartFailed(f"its application could not be prepared: {(told.stderr.splitlines() or [''])[-1]}")
    commands = [command(running.contestant, filled)]
    if running.contestant.start.front:
        commands.append([program("nginx") or "nginx", "-c", f"{running.scratch}/front.conf"])
    end = begun + running.contestant.start.settle
    for words in commands:
        with running.log.open("ab") as log, unhurried():
            try:
                running.roots.append(
                    subprocess.Popen(
                        words,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        env=environ,
                        cwd=filled["apps"],
                        preexec_fn=lambda: in_child(cpus),
                    )
                )
            except OSError as error:
                raise StartFailed(f"{words[0]} cannot be started: {error.strerror}") from None
        if len(commands) > 1 and len(running.roots) == 1:
            _until(running, end, lambda: os.path.exists(filled["socket"]), "its socket")
    _until(running, end, lambda: _answers(running.at), f"port {running.port}")
    running.ready_s = time.monotonic() - begun
    running.tree()


def _until(running: Running, end: float, what: object, named: str) -> None:
    while not what():  # type: ignore[operator]
        died = running.died()
        if died:
            raise StartFailed(f"it did not start: {died}", running.said())
        if time.monotonic() > end:
            raise StartFailed(
                f"it does not answer on {named} after {running.contestant.start.settle:g} s", running.said()
            )
        time.sleep(0.02)


def _answers(at: At) -> bool:
    """Whether a request gets the beginning of a reply: more than an open port, less than a right answer."""
    if at.scheme == "h2c":
        return speaks_http2(at, 2)
    try:
        with at.connected(1) as sock:
            sock.sendall(b"GET /ready HTTP/1.0\r\nHost: localhost\r\n\r\n")
            sock.settimeout(2)
            start = sock.recv(64)
    except OSError:
        return False
    # A front that does not reach what is behind it answers 502, or 504.
    return start.startswith(b"HTTP/1.") and start[9:12] not in (b"502", b"504")
