"""The supervisor: a loop that hears signals, workers and orders, and does what `plan.py` decides.

Knows: processes and descriptors. Does not know: whether an action is right. It runs on one
thread, waits in one place, and does no request's work.
"""

from __future__ import annotations

import os
import select
import sys
import time

from forehand import errors
from forehand.errors import Problem
from forehand.listen import Listener, listen
from forehand.supervisor import aside, children, gathering, hooks, orders, pidfile, plan, say, title
from forehand.supervisor.board import Board
from forehand.supervisor.children import Child, Children
from forehand.supervisor.control import Client, Control, path_for
from forehand.supervisor.mould import Mould
from forehand.supervisor.notify import Notify
from forehand.supervisor.signals import Signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: How often workers' memory is looked at, where it is limited (`max_worker_memory`).
MEMORY_EVERY = 5.0


def rules_of(settings: dict[str, Any]) -> plan.Rules:
    """What a plan asks of workers."""
    return plan.Rules(
        wanted=settings["workers"], startup=settings["startup_timeout"], graceful=settings["patience"],
        strategy=settings["reload_strategy"], max_age=settings["max_worker_age"],
    )  # fmt: skip


def decision(event: plan.Event, actions: list[plan.Action]) -> str:
    """What was decided, and what for, as `plan.decide` names events and actions."""
    follows = "; ".join(" ".join(map(str, action)) for action in actions if action[0] != "say")
    said = " ".join("with new settings" if isinstance(one, plan.Rules) else str(one) for one in event)
    return f"decided: {said} -> {follows or 'nothing'}"


def run(settings: dict[str, Any], adopted: dict[str, Any] | None = None) -> int:
    """Supervise until told to stop; the exit status. Raises Problem before the first request.

    `settings` is the plan of `Settings.plan`; `adopted`: what an earlier program has left
    (`upgrade.py`)."""
    supervisor = Supervisor(settings)
    try:
        if adopted is None:
            supervisor.begin()
        else:
            supervisor.adopt(adopted)
        return supervisor.live()
    finally:
        supervisor.end()


class Supervisor:
    """One server's supervisor."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        #: What each generation runs with.
        self.plans: dict[int, dict[str, Any]] = {1: settings}
        self.moulds: dict[int, Mould] = {}
        import random

        self.state = plan.State(rules_of(settings), spread=random.random)
        self.notify = Notify()
        self.signals: Signals | None = None
        self.control: Control | None = None
        self.children: Children | None = None
        self.poll = select.poll()
        self.ears: dict[int, Callable[[], None]] = {}
        #: Those who wait for the end of a reload, an upgrade or a stop.
        self.waiting: list[Client] = []
        self.next_memory = plan.NEVER
        self.started = time.time()
        self.status: int | None = None
        self.aside: dict[int, aside.Aside] = {}
        self.gathering: list[gathering.Stacks] = []
        self.banner_due = True
        #: What a reload has found changed and could not change, for whoever has asked for it.
        self.unheeded: list[str] = []
        #: Events that are being decided, or wait for it.
        self.events: list[tuple[Any, ...]] = []
        #: The process that watches files; zero: none.
        self.watcher = 0

    # The beginning.

    def begin(self) -> None:
        """Open what is to be open, and start the first workers. Raises Problem."""
        self.prepare()
        settings = self.settings
        hooks.call(settings, "on_start", {"pid": os.getpid(), "workers": settings["workers"]})
        listeners = listen(settings)
        self.hold(Children(listeners, Board(), os.pipe()), listeners)
        pidfile.write(settings["pid_file"])
        self.carry_out([("load", 1)])
        self.decide("tick")
        self.watch()

    def prepare(self) -> None:
        """What any beginning needs."""
        from forehand import _core

        title.show(self.settings, "supervisor", "forehand")
        self.signals = Signals()
        self.hear(self.signals.reader, self._on_signal)
        say.set_up(self.settings)
        # Workers out of a mould become our children when the process between has ended.
        _core.take_orphans()

    def hold(self, kept: Children, listeners: list[Listener]) -> None:
        """Take what children share, and open the control socket beside it."""
        self.children = kept
        url = listeners[0].url
        path = path_for(self.settings["control"], url)
        if self.settings.get("ready_fd") is not None:
            # Whoever waits for its end waits for the supervisor alone.
            self.children.private.add(self.settings["ready_fd"])
            os.set_inheritable(self.settings["ready_fd"], False)
        if path and self.control is None:
            try:
                self.control = Control(path)
            except Problem as problem:
                if self.settings["control"] != "auto" or "another server" in str(problem):
                    raise
                # Nobody has asked for it: the server is worth more than its control socket.
                say.say("warning", f"no control socket: {problem}")
        if self.control is not None:
            self.hear(self.control.fileno(), self._on_client)
        self.next_memory = time.monotonic() if self.settings["max_worker_memory"] else plan.NEVER

    def adopt(self, adopted: dict[str, Any]) -> None:
        """Take over from the program that was here before (`upgrade.py`). Raises Problem."""
        from forehand.supervisor import upgrade

        self.prepare()
        upgrade.adopt(self, adopted)
        self.watch()

    def watch(self) -> None:
        """Start watching files, where that is asked for."""
        if self.settings["reload"] and self.children is not None:
            from forehand.supervisor import watch

            self.watcher = watch.start(self.children, self.settings)

    # The loop.

    def hear(self, fd: int, what: Callable[[], None]) -> None:
        """Call `what` whenever the descriptor has something."""
        self.ears[fd] = what
        self.poll.register(fd, select.POLLIN)
        if self.children is not None:
            self.children.private.add(fd)

    def unhear(self, fd: int) -> None:
        """Stop listening to a descriptor that is about to be closed."""
        if self.ears.pop(fd, None) is not None:
            self.poll.unregister(fd)
        if self.children is not None:
            self.children.private.discard(fd)

    def live(self) -> int:
        """The loop, until an action ends it; the exit status."""
        while self.status is None:
            now = time.monotonic()
            due = min(plan.next_look(self.state, now), self.notify.alive(now), self.next_memory)
            due = min([due, *(one.deadline for one in self.aside.values()), *(one.deadline for one in self.gathering)])
            wait = None if due == plan.NEVER else max(0, min(3_600_000, int((due - now) * 1000) + 1))
            for fd, _ in self.poll.poll(wait):
                ear = self.ears.get(fd)
                if ear is not None:
                    ear()
            self._reap()
            now = time.monotonic()
            for process in [one for one in self.aside.values() if one.deadline <= now]:
                process.too_late()
            for stacks in list(self.gathering):
                stacks.look(now)
            if now >= self.next_memory:
                self._look_at_memory(now)
            self.decide("tick")
        return self.status

    def decide(self, *event: Any) -> None:
        """Let the plan decide, and carry it out. What happens meanwhile has its turn after it."""
        self.events.append(event)
        if len(self.events) > 1:
            return
        while self.events:
            actions = plan.decide(self.state, self.events[0], time.monotonic())
            if say.tells_decisions() and (actions or self.events[0] != ("tick",)):
                say.say("debug", decision(self.events[0], actions))
            self.carry_out(actions)
            self.events.pop(0)

    def carry_out(self, actions: list[plan.Action]) -> None:
        """Does what was decided, in order."""
        for name, *details in actions:
            getattr(self, f"_do_{name}")(*details)

    # Actions.

    def _do_spawn(self, number: int, generation: int) -> None:
        assert self.children is not None
        settings = self.plans[generation] if generation in self.plans else self.settings
        try:
            if settings["preload"]:
                child = self.children.from_mould(self._mould(generation), number, generation)
            else:
                child = self.children.fork(number, generation, settings)
        except OSError as error:
            self.decide("died", number, f"could not be started: {error.strerror}", True, None)
            return
        self.hear(child.channel.fd, lambda: self._on_child(child))

    def _mould(self, generation: int) -> Mould:
        assert self.children is not None
        mould = self.moulds.get(generation)
        if mould is None or not mould.channel.open:
            mould = Mould(self.children, generation, self.plans.get(generation, self.settings))
            self.moulds[generation] = mould
            self.hear(mould.channel.fd, lambda: self._on_mould(mould))
        return mould

    def _do_load(self, generation: int) -> None:
        if self.plans.get(generation, self.settings)["preload"]:
            self._mould(generation)

    def _do_forget(self, generation: int) -> None:
        mould = self.moulds.pop(generation, None)
        if mould is not None:
            self.unhear(mould.channel.fd)
            mould.close()
            # It may hang in an import.
            _signal(mould.pid, "SIGKILL")
        if len(self.plans) > 1:
            self.plans.pop(generation, None)
        self.settings = self.plans.get(self.state.generation, self.settings)

    def _tell(self, number: int, word: str) -> Child | None:
        assert self.children is not None
        child = self.children.all.get(number)
        if child is not None:
            child.channel.tell(word)
        return child

    def _do_retire(self, number: int, why: str) -> None:
        if self._tell(number, "retire") is not None:
            say.say("info", f"worker {number} leaves: {why}")

    def _do_stop(self, number: int) -> None:
        self._tell(number, "stop")

    def _do_quit(self, number: int) -> None:
        self._tell(number, "quit")

    def _do_kill(self, number: int, why: str) -> None:
        assert self.children is not None
        child = self.children.all.get(number)
        if child is None:
            return
        if why:
            say.say("error", f"worker {number} (process {child.pid}) is killed: {why}")
        if child.pid:
            _signal(child.pid, "SIGKILL")
        else:
            # Out of a mould that has not made it yet: without its line it ends by itself.
            self._gone(child, "was not wanted any more", False)

    def _do_say(self, level: str, text: str) -> None:
        say.say(level, text if level != "plain" else orders.plain(text))

    def _do_serving(self) -> None:
        assert self.children is not None
        if self.banner_due:
            self.banner_due = False
            orders.banner(self)
        self.notify.ready(f"{self.state.rules.wanted} workers serve")

    def _do_reloaded(self, ok: bool, text: str, status: int = errors.APPLICATION) -> None:
        say.say("info" if ok else "error", f"reload: {text}" if ok else f"the reload was given up: {text}")
        if ok:
            self.settings = self.plans.get(self.state.generation, self.settings)
            self.next_memory = time.monotonic() if self.settings["max_worker_memory"] else plan.NEVER
        self.notify.ready(f"{self.state.rules.wanted} workers serve")
        hooks.call(self.settings, "on_reload", {"pid": os.getpid(), "ok": ok, "generation": self.state.generation})
        unheeded, self.unheeded = self.unheeded, []
        self.answer(ok, "\n".join([text, *(f"warning: {line}" for line in unheeded)]) if ok else text, status)

    def _do_exit(self, status: int) -> None:
        self.status = status
        self.answer(status == 0, "the server has stopped")

    def answer(self, ok: bool, text: str, status: int = errors.APPLICATION) -> None:
        """The last line to all who wait for the end of something. `status`: how the order's command ends where it
        was not carried out."""
        waiting, self.waiting = self.waiting, []
        for client in waiting:
            client.tell(ok=ok, text=text, **({} if ok else {"status": status}))
            self.dismiss(client)

    # What comes in.

    def _on_signal(self) -> None:
        assert self.signals is not None
        for word in self.signals.take():
            orders.signal(self, word)

    def _on_child(self, child: Child) -> None:
        for word, text in child.channel.hear():
            if word == "ready":
                self.settings["interface_name"] = text or "WSGI"
                self.decide("ready", child.number)
            elif word == "pid":
                child.pid = int(text)
            elif word == "fail":
                status, _, cause = text.partition(" ")
                child.told = (int(status) if status.isdigit() else errors.INTERNAL, cause)
            elif word == "stale":
                self.decide("stale", child.number, text)
            elif word == "routes":
                say.say("info", f"worker {child.number}: routes that grew most: {text}")
            elif word == "stacks":
                for stacks in list(self.gathering):
                    stacks.came(child, text)
        if not child.channel.open and child.number in (self.children.all if self.children else {}):
            self.unhear(child.channel.fd)
            if not child.pid:
                self._gone(child, "never began", True)

    def _on_mould(self, mould: Mould) -> None:
        for word, text in mould.channel.hear():
            if word == "warn":
                say.say("warning", text)
            elif word == "fail":
                status, _, cause = text.partition(" ")
                number = int(status) if status.isdigit() else errors.INTERNAL
                self.decide("unloadable", mould.generation, (number, cause))
            elif word == "loaded":
                mould.loaded = True
        if not mould.channel.open:
            self.unhear(mould.channel.fd)
            if self.moulds.get(mould.generation) is mould:
                self.moulds.pop(mould.generation)
            mould.close()

    def _on_client(self) -> None:
        assert self.control is not None
        client = self.control.accept()
        if client is not None:
            self.hear(client.fd, lambda: self._on_order(client))

    def _on_order(self, client: Client) -> None:
        assert self.control is not None
        order = self.control.read(client)
        if order is None:
            return
        if order == "":
            self.dismiss(client)
            return
        orders.carry_out(self, client, order)

    def dismiss(self, client: Client) -> None:
        """Ends with a client whose answer is complete."""
        if client in self.waiting:
            self.waiting.remove(client)
        if client.fd >= 0:
            self.unhear(client.fd)
        if self.control is not None:
            self.control.forget(client)

    def _reap(self) -> None:
        assert self.children is not None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            child = self.children.by_pid(pid)
            if child is not None:
                # Its last words may still be in the line.
                if child.channel.open and child.channel.fd in self.ears:
                    self._on_child(child)
                self._gone(child, *children.how(status))
            elif pid in self.aside:
                self.aside.pop(pid).ended(status)
            else:
                self._mould_gone(pid, status)

    def _gone(self, child: Child, how: str, crashed: bool) -> None:
        assert self.children is not None
        self.unhear(child.channel.fd)
        self.children.drop(child)
        # A connection whose waking that worker has taken with it is looked for by the others.
        for other in self.children.all.values():
            other.channel.tell("kick")
        pid = f" (process {child.pid})" if child.pid else ""
        self.decide("died", child.number, f"{how}{pid}", crashed, child.told)

    def _mould_gone(self, pid: int, status: int) -> None:
        for mould in list(self.moulds.values()):
            if mould.pid == pid:
                if mould.channel.open and mould.channel.fd in self.ears:
                    self._on_mould(mould)
                self.moulds.pop(mould.generation, None)
                how, crashed = children.how(status)
                if crashed and not mould.loaded:
                    cause = (errors.APPLICATION, f"the process that preloads the application {how}")
                    self.decide("unloadable", mould.generation, cause)

    def _look_at_memory(self, now: float) -> None:
        from forehand.supervisor import memory

        assert self.children is not None
        self.next_memory = now + MEMORY_EVERY
        most, kind = self.settings["max_worker_memory"] // 1024, self.settings["worker_memory_kind"]
        for child in list(self.children.all.values()):
            held = memory.kib(child.pid, kind) if child.pid else 0
            if held > most:
                worker = self.state.workers.get(child.number)
                if worker is not None and worker.state == plan.READY and not worker.stale:
                    child.channel.tell("routes")
                    why = f"it holds {held} KiB of {kind.upper()} (--max-worker-memory {most} KiB)"
                    self.decide("stale", child.number, why)

    # The end.

    def end(self) -> None:
        """Close what is open. Workers that are left, after a failure of ours, end by the pipe."""
        self.notify.stopping()
        if self.watcher:
            _signal(self.watcher, "SIGKILL")
        if self.children is not None:
            hooks.call(self.settings, "on_stop", {"pid": os.getpid(), "status": self.status})
            for mould in self.moulds.values():
                mould.close()
                _signal(mould.pid, "SIGKILL")
            for listener in self.children.listeners:
                listener.close()
        if self.control is not None:
            self.control.close()
        pidfile.remove(self.settings["pid_file"])
        sys.stdout.flush()


def _signal(pid: int, name: str) -> None:
    import _signal as signal

    try:
        os.kill(pid, getattr(signal, name))
    except OSError:
        pass  # it has ended by itself
