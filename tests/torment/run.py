"""One run: a server, a crowd that a seed makes, what is done to the server meanwhile, and what is wrong afterwards.

Knows: the order of things. Does not know: what clients do (`script.py`), what is right on a connection (`replies.py`,
`client.py`), what a log may say (`verdict.py`).
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from serving import HERE, Serving

from torment import looking, verdict
from torment.client import Client
from torment.crowd import Crowd
from torment.looking import Holding
from torment.script import script

#: What waits, waits so long at most; all of it is shorter than the crowd's patience.
OPTIONS = (
    "--workers", "2", "--header-timeout", "2s", "--write-timeout", "2s", "--body-grace", "3s",
    "--limit-body-rate", "20K", "--linger-timeout", "1s", "--first-byte-timeout", "3s", "--keep-alive", "3s",
    "--graceful-timeout", "20s", "--error-log-rate", "100000",
)  # fmt: skip
DRIVERS = {
    "threads": ("tormented:application",),
    "gevent": ("tormented:application", "--worker-class", "gevent"),
    "asyncio": ("tormented_asgi:app", "--loop", "asyncio"),
    "uvloop": ("tormented_asgi:app", "--loop", "uvloop"),
}
#: What is tormented in turn: a driver, and whether the application reads bodies as they arrive.
SETTINGS = (
    ("threads", False), ("threads", True), ("asyncio", False), ("gevent", False), ("gevent", True), ("uvloop", False),
)  # fmt: skip
#: What else is on, by the seed: who leads reads without the interpreter, heads make room for others all the time.
EXTRAS = (
    (),
    ("--static", "/files={folder}"),
    ("--health-paths", "/livez,/readyz", "--limit-cached-heads", "4"),
    ("--status-bind", "127.0.0.1:0", "--request-id", "--server-timing", "all"),
    ("--static", "/files={folder}", "--limit-cached-heads", "2", "--cached-head-idle", "50ms"),
)
#: Of a worker's numbers in `forehand status`, those that show work.
LEFT = ("pid", "state", "connections", "busy", "queued")
#: How long the server may take to be as it was, once everybody has left, in seconds.
SETTLES = 20.0
#: Steps of nice that a run takes before others, so that how long somebody waits is told of the server, and not of what
#: else wants a processor: beside eight processes that burn two, the bystander's p99 is 7 ms with it, and 180 without.
BEFORE_OTHERS = 4


@contextmanager
def before_others() -> Iterator[None]:
    """This thread, and what it starts, come before what else is on the machine, where the system allows that."""
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, usual - BEFORE_OTHERS)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, usual)


@dataclass(frozen=True)
class Setting:
    """What is tormented, and for how long."""

    seed: int
    driver: str = "threads"
    #: The application reads bodies as they arrive. Under an event loop it always does.
    streamed: bool = False
    #: Connections begin during so many seconds, so many in each.
    seconds: float = 4.0
    rate: int = 70
    #: So many are there at a time, but for those who stay, and the next ones come later; 0: no bound. On a machine that
    #: is too busy for their pace all would be there at last, and ask for more than the server's threads can do.
    at_a_time: int = 0

    @property
    def again(self) -> str:
        """The command that repeats it."""
        streamed = " --streamed" if self.streamed else ""
        return (
            f"{Path(sys.executable).name} tests/torment --seed {self.seed} --driver {self.driver}{streamed} "
            f"--run-seconds {self.seconds:g} --rate {self.rate} --at-a-time {self.at_a_time}"
        )


@dataclass
class Result:
    """What came of it."""

    setting: Setting
    problems: list[str] = field(default_factory=list)
    connections: int = 0
    #: The most at the same time.
    most: int = 0
    requests: int = 0
    whole: int = 0
    refused: int = 0
    cut: int = 0
    #: Clients whose last request the server has given up, as far as they know.
    given_up: int = 0
    kills: int = 0
    reloads: int = 0
    forks: int = 0
    #: Of the bystander's requests, in seconds.
    waits: list[float] = field(default_factory=list)
    before: list[Holding] = field(default_factory=list)
    after: list[Holding] = field(default_factory=list)
    peak_kib: int = 0


class Run:
    """A run under way."""

    def __init__(self, setting: Setting, *, without: Sequence[str] = ()) -> None:
        self.setting = setting
        #: Kinds of clients that are left out.
        self.without = without
        self.result = Result(setting)
        self.dice = Random(f"{setting.seed}/disturbances")
        #: Ports whose worker was killed.
        self.doomed: set[int] = set()
        self.crowd: Crowd | None = None
        #: Everybody who has ever been there, by port.
        self.guests: dict[int, Client] = {}
        self.mark = f"TORMENT={os.getpid()}.{setting.seed}.{time.monotonic_ns()}"

    def torment(self) -> Result:
        """All of it."""
        with before_others(), tempfile.TemporaryDirectory(prefix="torment") as folder:
            target, *options = DRIVERS[self.setting.driver]
            named = Path(folder) / "named"
            named.mkdir()
            options += ["--sendfile", f"/named={named}"]
            options += [option.format(folder=named) for option in EXTRAS[self.setting.seed % len(EXTRAS)]]
            if self.setting.streamed:
                options.append("--no-request-buffering")
            self.server = Serving(
                target, *OPTIONS, *options, "--pythonpath", str(HERE), "--control", f"{folder}/control",
                env={**dict([self.mark.split("=", 1)]), "TORMENT_NAMED": str(named)},
            )  # fmt: skip
            try:
                self._live()
            finally:
                self.server.kill()
                for pid in looking.marked(self.mark):
                    os.kill(pid, signal.SIGKILL)
        return self.result

    def _live(self) -> None:
        setting, result = self.setting, self.result
        # What is nameless by now is the server's own: its log, and where stacks are written to.
        self.nameless = max(one.nameless for one in self._workers(self.status()))
        # The same kind of load once before, so that what it makes a worker keep is there.
        self._crowd(setting.seed + 1_000_000, max(1.0, setting.seconds / 2), disturbed=False)
        result.before = self._settled()
        base = self.status()
        with subprocess.Popen(
            [sys.executable, str(HERE / "torment" / "bystander.py"), str(self.server.port)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as beside:  # fmt: skip
            try:
                crowd = self._crowd(setting.seed, setting.seconds, disturbed=True)
                told, _ = beside.communicate(timeout=60)
            finally:
                beside.kill()
        self._count(crowd)
        result.after = self._settled()
        crowd.release()
        end = self.status()
        self._bystander(told)
        result.problems += verdict.held(result)
        if not result.kills and not result.reloads:
            result.problems += verdict.conserved(base, end, result, len(result.waits))
            abandoned = self.status("status counters")["counters"]["requests_abandoned"]
            if result.given_up > abandoned:
                result.problems.append(
                    f"{result.given_up} last replies are missing, and {abandoned} requests were given up"
                )
        self._stop()

    def _crowd(self, seed: int, seconds: float, *, disturbed: bool) -> Crowd:
        crowd = Crowd(self.server.port, self.server.pid, self.setting.at_a_time)
        now = time.monotonic()
        # Those who stay would make the warm-up last for their sake.
        without = self.without if disturbed else (*self.without, "deaf")
        scripts = (script(seed, number, seconds) for number in range(int(self.setting.rate * seconds)))
        crowd.invite((one for one in scripts if one.kind not in without), now)
        if disturbed:
            self.crowd = crowd
            self._plan(crowd, now)
        crowd.run()
        self.guests.update((client.port, client) for client in crowd.clients)
        self.result.problems += [client.describe() for client in crowd.clients if client.wrong][:20]
        return crowd

    def _plan(self, crowd: Crowd, now: float) -> None:
        """What else happens: nothing in a third of all runs, so that counts can be compared there."""
        if self.setting.seed % 3 == 0:
            return
        for _ in range(self.dice.randint(1, 2)):
            crowd.at(now + self.dice.uniform(0.3, self.setting.seconds), self._kill)
        if self.dice.random() < 0.6:
            crowd.at(now + self.dice.uniform(0.3, self.setting.seconds), self._reload)
        crowd.at(now + self.setting.seconds, lambda: None)

    def _kill(self) -> None:
        """SIGKILL for a worker, in the midst of what it does. Who talked to it is written down first."""
        workers = self.status()["workers"]
        ready = [worker["pid"] for worker in workers if worker["state"] == "ready"]
        if len(ready) < 2:
            return  # another one has just died: what is to be seen is not a server without workers
        pid = self.dice.choice(ready)
        os.kill(pid, signal.SIGSTOP)
        looking.stopped(pid)
        ports = looking.peers(pid, self.server.port)
        sent = looking.on_their_way([self.server.pid, *(worker["pid"] for worker in workers)], self.server.port)
        os.kill(pid, signal.SIGKILL)
        looking.ended(pid)
        # Those that another worker has just sent to it have died with it.
        ports |= {client for client, _ in sent - looking.connections(self.server.pid, self.server.port)}
        self.doomed |= ports
        self.result.kills += 1
        assert self.crowd
        for client in self.crowd.there.values():
            client.doomed = client.doomed or client.port in ports

    def _reload(self) -> None:
        self.result.reloads += 1
        os.kill(self.server.pid, signal.SIGHUP)

    def _count(self, crowd: Crowd) -> None:
        result = self.result
        result.connections, result.most = len(crowd.clients), crowd.most
        for client in crowd.clients:
            result.requests += client.begun
            result.whole += client.replies.answered
            result.refused += client.replies.refused
            result.cut += client.cut
            result.given_up += client.given_up
            result.forks += any(step.asked and step.asked[0].fork for step in client.script.steps)

    def _workers(self, status: dict[str, Any]) -> list[Holding]:
        """What workers hold."""
        found = [looking.holding(worker["pid"]) for worker in status["workers"]]
        return [one for one in found if one]

    def _settled(self) -> list[Holding]:
        """What workers hold, once nothing is left to do; those who never listen are still there."""
        until = time.monotonic() + SETTLES
        while True:
            status = self.status()
            workers = status["workers"]
            states = [worker["state"] for worker in workers]
            left = sum(worker[name] for worker in workers for name in ("connections", "busy", "queued"))
            held = self._workers(status)
            bodies = sum(max(0, one.nameless - self.nameless) for one in held)
            if states == ["ready"] * 2 and not (left or bodies or status["reloading"]):
                self.result.peak_kib = max(self.result.peak_kib, *(one.peak_kib for one in held))
                return held
            if time.monotonic() > until:
                counts = [{name: worker[name] for name in LEFT} for worker in workers]
                self.result.problems.append(
                    f"{SETTLES:g} s after everybody has left or should have been thrown out: {counts}, "
                    f"{bodies} bodies in files; {self._whose(held)}"
                )
                return held
            time.sleep(0.05)

    def _whose(self, held: list[Holding]) -> str:
        """Who the clients of open connections were."""
        ports = {port for one in held for port in looking.peers(one.pid, self.server.port)}
        guests = [self.guests[port] for port in ports if port in self.guests]
        return ", ".join(
            f"connection {one.script.number} ({one.script.kind}, {one.ended or 'still there'})" for one in guests[:10]
        )

    def _bystander(self, told: str) -> None:
        if not told:
            self.result.problems.append("the bystander has ended with another's reply, or without a connection")
            return
        found = json.loads(told)
        self.result.waits = found["times"]
        for port, after in found["lost"]:
            if port not in self.doomed:
                self.result.problems.append(f"a bystander's request was lost after {after:.3f} s (port {port})")
        self.result.problems += verdict.waited(self.result.waits)

    def _stop(self) -> None:
        try:
            status = self.server.stop()
        except subprocess.TimeoutExpired:
            self.result.problems.append("the server does not stop")
            return
        if status:
            self.result.problems.append(f"the server's exit status is {status}")
        until = time.monotonic() + 5
        while (left := looking.marked(self.mark)) and time.monotonic() < until:
            time.sleep(0.02)
        if left:
            self.result.problems.append(f"processes {left} are left behind")
        self.result.problems += verdict.log(self.server.log())

    def status(self, order: str = "status") -> dict[str, Any]:
        """What the supervisor tells."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(20)
            sock.connect(self.server.control)
            sock.sendall(f"{order}\n".encode())
            lines = sock.makefile("r").read().splitlines()
        found: dict[str, Any] = json.loads(lines[-1])
        return found
