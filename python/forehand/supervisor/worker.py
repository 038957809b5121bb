"""A worker's life: import, prove itself, serve, leave.

Knows: one engine and the line to the supervisor. Does not know: other workers. Runs in a child
process, on its main thread, which sleeps while the engine's threads work: it wakes for a word
from the supervisor, a signal, or a request that is overdue.

    retire  others go on: finish what runs, answer idle connections once more, then end
    stop    nobody goes on: finish what runs, then end
    quit    end at once
"""

from __future__ import annotations

import gc
import os
import sys

from forehand import _core, ending, errors, forked, logs
from forehand.driving import cut_short
from forehand.errors import Problem
from forehand.supervisor import say, title
from forehand.supervisor.channel import Channel
from forehand.target import is_asgi

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

#: Signals that a worker, or what forks workers, hears or lets pass.
NOTED = ("SIGTERM", "SIGQUIT", "SIGUSR1", "SIGINT", "SIGHUP", "SIGUSR2", "SIGTTIN", "SIGTTOU", "SIGWINCH")
#: How long what runs may go on after the supervisor has died: the port is free within a second.
ORPHAN_MS = 600
#: How long what an import has left may take to end, in seconds, where the worker cannot start.
FAILED = 1.0


class Place:
    """What a worker is given: its number, its line, the pipe that tells of the parent's death,
    its row on the board (`Board.place`), the listeners (descriptor, URL) and a file for stacks."""

    __slots__ = ("board", "generation", "life", "line", "listeners", "number", "stacks")

    def __init__(
        self,
        number: int,
        generation: int,
        fds: tuple[int, int, int],
        board: tuple[int, ...],
        listeners: list[tuple[int, str]],
    ) -> None:
        self.number = number
        self.generation = generation
        self.line, self.life, self.stacks = fds
        self.board = board
        self.listeners = listeners

    def ties(self) -> list[int]:
        """The descriptors by which workers know of each other."""
        page, _, *others = self.board
        return [page, *others]


def run(place: Place, plan: dict[str, Any], application: Callable[..., Any] | None = None) -> NoReturn:
    """Live, and end the process. `application`: where it was loaded before the fork."""
    status = errors.INTERNAL
    channel = Channel(place.line)
    try:
        title.show(plan, f"worker {place.number}", f"forehand-w{place.number}")
        _core.watch_parent(place.life, ORPHAN_MS)
        _keep(place)
        status = forked.parent_only(_live, place, plan, channel, application)
    except Problem as problem:
        channel.tell("fail", f"{problem.status} {problem.text()}")
        status = problem.status
        ending.ordered(FAILED)
    except BaseException as error:  # whatever it is, the supervisor is to know of it
        import traceback

        channel.tell("fail", f"{errors.INTERNAL} {''.join(traceback.format_exception(error))}")
        ending.ordered(FAILED)
    finally:
        ending.finish(status, plan["patience"])


def _keep(place: Place) -> None:
    """What the application forks gets none of this worker's ties."""
    for fd in (place.line, place.life, place.stacks, *place.ties(), *(fd for fd, _ in place.listeners)):
        _core.keep_from_children(fd)


def surroundings(plan: dict[str, Any]) -> None:
    """Folder, variables and module path, as the application will find them. Raises Problem."""
    os.environ.update(plan["variables"])
    try:
        os.chdir(plan["folder"])
    except OSError as error:
        raise Problem(errors.USAGE, f"the folder {plan['folder']}: {error.strerror}") from None
    sys.path[:] = plan["path"]
    if plan["log_config"] or plan["log_syslog"]:
        from forehand import log_config

        log_config.set_up(plan)


def load(plan: dict[str, Any]) -> Callable[..., Any]:
    """Import the application; a fork that an import makes never comes back here. Raises Problem."""
    from forehand import target

    us = os.getpid()
    application = target.load(plan["target"], factory=plan["factory"])
    if os.getpid() != us:
        say.say("error", f"importing '{plan['target']}' forked, and the child came back: it ends here")
        os._exit(errors.APPLICATION)
    return application


def _live(place: Place, plan: dict[str, Any], channel: Channel, application: Callable[..., Any] | None) -> int:
    from forehand.supervisor import hooks, privileges

    signals = Signals()
    facts = {"worker": place.number, "generation": place.generation, "pid": os.getpid()}
    gevent = plan["worker_class"] == "gevent"
    if application is None:
        privileges.drop(plan["user"], plan["group"])
        surroundings(plan)
        if gevent:
            from forehand import greenlets

            greenlets.patch()
        hooks.call(plan, "on_worker_start", facts)
        application = load(plan)
    else:
        if gevent:
            from forehand import greenlets

            greenlets.after_fork()
        hooks.call(plan, "on_worker_start", facts)
    engine = {
        **plan["engine"],
        "multiprocess": plan["workers"] > 1,
        "shared_listeners": True,
        "board": place.board,
        "report_fd": place.line,
        "access_log_fd": 1 if plan["access_log_file"] == "-" else open_log(plan["access_log_file"]),
        **logs.engine_settings(plan),
    }
    if gevent:
        from forehand.greenlets import worker as under_gevent

        greenlets.check(application, plan["target"], plan["interface"])
        prove(plan, application)
        _stacks_on_signal(place.stacks)
        return under_gevent.live(place, plan, application, engine, (channel, signals, facts))
    if is_asgi(application, plan["interface"]):
        from forehand.asgi import worker

        _stacks_on_signal(place.stacks)
        return worker.live(place, plan, application, engine, (channel, signals, facts))
    server = _core.Server(application, place.listeners, engine)
    prove(plan, application)
    _stacks_on_signal(place.stacks)
    if plan["engine"]["limits"]["request_timeout"] or plan["engine"]["request_timeouts"]:
        from forehand.supervisor import deadlines

        deadlines.prepare()
    forked.from_any_thread()
    gc.collect()
    server.start()
    channel.tell("ready")
    hooks.call(plan, "on_worker_ready", facts)
    life = Life(plan, channel, server, signals)
    status = life.wait()
    hooks.call(plan, "on_worker_exit", {**facts, "status": status})
    return status


def open_log(path: str) -> int:
    """A log file, to be added to. Raises Problem."""
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        status = errors.PERMISSION if isinstance(error, PermissionError) else errors.USAGE
        raise Problem(status, f"the log {path} cannot be opened: {error.strerror}") from None


def prove(plan: dict[str, Any], application: Callable[..., Any]) -> None:
    """The readiness call: nothing is accepted before it has succeeded. Raises Problem."""
    if plan["readiness"] and not is_asgi(application, plan["interface"]):
        from forehand.supervisor import readiness

        readiness.prove(plan["readiness"], application)


def _stacks_on_signal(fd: int) -> None:
    """Stacks of all threads on a signal, without the interpreter: for one that is stuck in C."""
    import faulthandler

    faulthandler.register(_core.STACKS_SIGNAL, file=fd, all_threads=True)


class Signals:
    """A worker's signals. SIGINT comes from the terminal to all of the group, and the
    supervisor's word follows it; the others are the supervisor's and do nothing here."""

    def __init__(self) -> None:
        import _signal as signal

        self.asked: list[str] = []
        words = {"SIGTERM": "retire", "SIGQUIT": "quit", "SIGUSR1": "reopen"}
        for name in NOTED:
            word = words.get(name)
            # A function even where nothing is to be done: what the application starts does
            # not inherit functions, as it would inherit that a signal is ignored.
            signal.signal(getattr(signal, name), self._noter(word))
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.reader, writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        forked.take_signals([getattr(signal, name) for name in NOTED])
        _core.keep_from_children(self.reader)
        _core.keep_from_children(writer)

    def _noter(self, word: str | None) -> Callable[[int, object], None]:
        def note(number: int, frame: object) -> None:
            if word:
                self.asked.append(word)

        return note


class Life:
    """What the main thread does while the engine serves."""

    def __init__(self, plan: dict[str, Any], channel: Channel, server: Any, signals: Signals) -> None:
        self.plan = plan
        self.channel = channel
        self.server = server
        self.signals = signals
        self.leaving = False
        self.hurried = False
        self.us = os.getpid()

    def wait(self) -> int:
        """Until the end; the exit status."""
        import select

        poll = select.poll()
        for fd in (self.channel.fd, self.signals.reader, self.server.overdue_fd()):
            poll.register(fd, select.POLLIN)
        while not self.server.ended():
            # While leaving, the end comes without a word.
            poll.poll(20 if self.leaving else None)
            forked.stay_out(self.us, "where its parent waits for orders")
            self._drain_wakeups()
            for word in self._words():
                getattr(self, f"_{word}")()
            self._overdue()
        # What was told to end at once does not wait for threads inside the application.
        done = self.server.join(0.2 if self.hurried else 1)
        cut = self.server.counters()["requests_cut"]
        if cut or not done:
            say.say("warning", cut_short(max(cut, 1), hurried=self.hurried))
            return errors.INTERNAL
        return errors.OK

    def _drain_wakeups(self) -> None:
        try:
            os.read(self.signals.reader, 512)
        except OSError:
            pass  # nothing there

    def _words(self) -> list[str]:
        words, self.signals.asked = self.signals.asked, []
        if self.channel.open:
            words += [word for word, _ in self._heard()]
        return [word for word in words if hasattr(self, f"_{word}")]

    def _heard(self) -> list[tuple[str, str]]:
        # The engine writes to the same socket, so that it has to stay blocking.
        if not self._readable():
            return []
        heard = self.channel.hear()
        # The supervisor is gone: `watch_parent` ends this process in a moment.
        return heard if self.channel.open else [("stop", "")]

    def _readable(self) -> bool:
        import select

        return bool(select.select([self.channel.fd], [], [], 0)[0])

    def _overdue(self) -> None:
        for ticket in self.server.overdue():
            from forehand.supervisor import deadlines

            deadlines.act(self.server, *ticket)

    def _retire(self) -> None:
        self.leaving = True
        ending.ordered(self.plan["patience"])
        self.server.retire()

    def _stop(self) -> None:
        self.leaving = True
        ending.ordered(self.plan["patience"])
        self.server.stop()

    def _quit(self) -> None:
        self.leaving = self.hurried = True
        ending.hurry()
        self.server.abort()

    def _kick(self) -> None:
        self.server.kick()

    def _reopen(self) -> None:
        if self.plan["log_file"] != "-":
            try:
                fd = open_log(self.plan["log_file"])
                os.dup2(fd, 2)
                os.close(fd)
            except Problem as problem:
                say.say("error", str(problem))
        if self.plan["access_log_file"] != "-":
            try:
                fd = open_log(self.plan["access_log_file"])
            except Problem as problem:
                say.say("error", str(problem))
                return
            self.server.reopen_access_log(fd)
            os.close(fd)

    def _stacks(self) -> None:
        from forehand.supervisor import stacks

        self.channel.tell("stacks", stacks.all_threads())

    def _routes(self) -> None:
        grown = "; ".join(f"{route} +{kib} KiB in {count} requests" for route, kib, count in self.server.routes())
        self.channel.tell("routes", grown or "none stands out")
