"""What a supervisor holds, and how it carries out what `decisions.py` decides.

Knows: processes and descriptors. Does not know: whether an action is right, nor when to wait: `run.py` is the loop.
Runs on the supervisor's only thread.
"""

from __future__ import annotations

import os
import select
import time
from _signal import SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV

from forehand import errors
from forehand.errors import Problem
from forehand.supervisor import children, decisions, hooks, last_words, log, oom, statistics, title
from forehand.supervisor.concerns import Concerns
from forehand.supervisor.control import Client, Control, open_for
from forehand.supervisor.notify import Notify
from forehand.supervisor.state import NEVER, Rules, State, rules_of
from forehand.supervisor.template import TemplateProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from forehand.listen import Listener
    from forehand.supervisor.children import Child, Children
    from forehand.supervisor.signals import Signals

    class Timer(Protocol):
        """Something that has to be looked at again at a time."""

        deadline: float

        def look(self, now: float) -> None:
            """Look whether it is time."""

    class Handed(Protocol):
        """What workers are handed for TLS: memory that they read, and what is in it (`tls.py`)."""

        fd: int
        settings: dict[str, Any]
        fingerprint: str

        def told(self) -> dict[str, Any]:
            """What is said of certificates to who asks."""

        def renew(self, settings: dict[str, Any] | None = None) -> tuple[bool, str]:
            """Read everything again; whether it is used from now on, and in words."""

        def left(self) -> dict[str, Any]:
            """What the next program goes on with."""

    class Answering(Protocol):
        """The process that answers `--status-bind`."""

        pid: int
        listeners: list[Listener]

        def close(self) -> None:
            """End it."""

    class Exporting(Protocol):
        """The process that exports spans."""

        def dismiss(self) -> None:
            """Have it send what it has, and end."""

        def close(self) -> None:
            """The same, and wait a moment for it."""

    class Collecting(Protocol):
        """Something that has asked workers a word, and waits for their answers to it."""

        word: str

        def came(self, child: Child, text: str) -> None:
            """Take one worker's answer."""

        def heard(self, child: Child) -> None:
            """One worker has begun to answer."""


#: Signals that a process brings upon itself.
FAULTS = (SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV)
#: What workers say now and then, for `forehand status`: by its word, how much of it is kept.
NOTES = {"threads": 10, "lanes": 1, "blocked": 1}


def explained(event: decisions.Event, actions: list[decisions.Action]) -> str:
    """What was decided, and what for, as `decisions.decide` names events and actions."""
    follows = "; ".join(" ".join(map(str, action)) for action in actions if action[0] != "say")
    said = " ".join("with new settings" if isinstance(one, Rules) else str(one) for one in event)
    return f"decided: {said} -> {follows or 'nothing'}"


def chance() -> float:
    """A number from 0 to 1, without 1, by chance. Python's own module for it would be most of what a supervisor imports
    of the standard library: 0.4 MB, held for as long as it runs."""
    return int.from_bytes(os.urandom(4), "little") / 2**32


class Supervisor:
    """One server's supervisor."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        #: What each generation runs with.
        self.plans: dict[int, dict[str, Any]] = {1: settings}
        self.templates: dict[int, TemplateProcess] = {}
        self.state = State(rules_of(settings), spread=chance)
        self.notify = Notify()
        self.signals: Signals | None = None
        self.control: Control | None = None
        self.children: Children | None = None
        self.poll = select.poll()
        self.readers: dict[int, Callable[[], None]] = {}
        #: Those who wait for the end of a reload, an upgrade or a stop.
        self.waiting: list[Client] = []
        self.next_memory = NEVER
        self.started = time.time()
        self.status: int | None = None
        self.timers: list[Timer] = []
        #: Processes that are neither workers nor templates, and what is called with their wait status.
        self.other_processes: dict[int, Callable[[int], None]] = {}
        #: What is being collected from all workers.
        self.collections: list[Collecting] = []
        #: More threads were advised, which is said once.
        self.advised = False
        self.banner_due = True
        #: What a reload has found changed and could not change, for whoever has asked for it.
        self.not_reloaded: list[str] = []
        #: Events that are being decided, or wait for it.
        self.events: list[tuple[Any, ...]] = []
        #: The process that answers `--status-bind`.
        self.panel: Answering | None = None
        #: The process that exports spans.
        self.exporter: Exporting | None = None
        #: The process that watches files; zero: none.
        self.watcher = 0
        #: What is not as it should be, for `forehand status`.
        self.concerns = Concerns()
        self.oom_killer = oom.OomKiller()
        #: What workers are handed for TLS, where an address speaks it.
        self.tls: Handed | None = None

    def add_reader(self, fd: int, what: Callable[[], None]) -> None:
        """Call `what` whenever the descriptor has something."""
        self.readers[fd] = what
        self.poll.register(fd, select.POLLIN)
        if self.children is not None:
            self.children.private.add(fd)

    def remove_reader(self, fd: int) -> None:
        """Stop listening to a descriptor that is about to be closed."""
        if self.readers.pop(fd, None) is not None:
            self.poll.unregister(fd)
        if self.children is not None:
            self.children.private.discard(fd)

    def hold(self, kept: Children, listeners: list[Listener]) -> None:
        """Take what children share, and open the control socket beside it."""
        self.children = kept
        kept.tls_fd = self.tls.fd if self.tls is not None else -1
        url = listeners[0].url
        if self.settings.get("ready_fd") is not None:
            # Whoever waits for its end waits for the supervisor alone.
            self.children.private.add(self.settings["ready_fd"])
            os.set_inheritable(self.settings["ready_fd"], False)
        if self.control is None:
            try:
                self.control = open_for(self.settings["control"], url)
            except Problem as problem:
                if self.settings["control"] != "auto":
                    raise
                # Nobody has asked for it: the server is worth more than its control socket.
                log.write("warning", f"no control socket: {problem}")
        self.next_memory = time.monotonic() if self.settings["max_worker_memory"] else NEVER

    def decide(self, *event: Any) -> None:
        """Let the plan decide, and carry it out. What happens meanwhile has its turn after it."""
        self.events.append(event)
        if len(self.events) > 1:
            return
        while self.events:
            actions = decisions.decide(self.state, self.events[0], time.monotonic())
            if log.is_debug() and (actions or self.events[0] != ("tick",)):
                log.write("debug", explained(self.events[0], actions))
            self.carry_out(actions)
            self.events.pop(0)

    def carry_out(self, actions: list[decisions.Action]) -> None:
        """Does what was decided, in order."""
        for name, *details in actions:
            getattr(self, f"_do_{name}")(*details)

    # Actions.

    def _do_spawn(self, number: int, generation: int) -> None:
        assert self.children is not None
        settings = self.plans[generation] if generation in self.plans else self.settings
        try:
            if settings["preload"]:
                child = self._template(generation).fork(self.children, number)
            else:
                child = self.children.fork(number, generation, settings)
        except OSError as error:
            if generation in self.templates:
                # Where that has just ended, what it has said of it is the cause, and this follows from it.
                self.on_template(self.templates[generation])
            self.decide("died", number, f"could not be started: {error.strerror}", True, None)
            return
        self.add_reader(child.channel.fd, lambda: self.on_child(child))

    def _template(self, generation: int) -> TemplateProcess:
        assert self.children is not None
        template = self.templates.get(generation)
        if template is None or not template.channel.open:
            template = TemplateProcess(self.children, generation, self.plans.get(generation, self.settings))
            self.templates[generation] = template
            self.add_reader(template.channel.fd, lambda: self.on_template(template))
        return template

    def _do_load(self, generation: int) -> None:
        if self.plans.get(generation, self.settings)["preload"]:
            try:
                self._template(generation)
            except OSError:
                pass  # its first worker asks for it again, and is told

    def _do_forget(self, generation: int) -> None:
        template = self.templates.pop(generation, None)
        if template is not None:
            self.remove_reader(template.channel.fd)
            template.close()
            # It may hang in an import.
            send_signal(template.pid, "SIGKILL")
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
            log.write("info", f"worker {number} leaves: {why}")

    def _do_announce_end(self, number: int) -> None:
        self._tell(number, "announce_end")

    def _do_stop(self, number: int) -> None:
        self._tell(number, "stop")
        # Workers answer who has come, and close their ends as well: who comes later is refused at once.
        assert self.children is not None
        for listener in self.children.listeners:
            listener.close()
        for generation in list(self.templates):
            self._do_forget(generation)

    def _do_quit(self, number: int) -> None:
        self._tell(number, "quit")

    def _do_kill(self, number: int, why: str) -> None:
        assert self.children is not None
        child = self.children.all.get(number)
        if child is None:
            return
        if why:
            log.write("error", f"worker {number} (process {child.pid}) is killed: {why}")
        if child.pid:
            child.killed = why
            send_signal(child.pid, "SIGKILL")
        else:
            # Out of a template process that has not made it yet: without its line it ends by itself.
            self.gone(child, "was not wanted any more", False)

    def _do_say(self, level: str, text: str) -> None:
        if level == "failed":
            log.fail(_plain(text))
        else:
            log.write(level, text if level != "plain" else _plain(text))

    def _do_unbegun(self, text: str) -> None:
        log.fail(_plain(text))
        log.write("plain", "forehand: the application has not come up; waiting for a change of its files (--reload)")
        self.concerns.note_reload(text)

    def _do_serving(self) -> None:
        assert self.children is not None
        # Whoever hears that it is ready may ask /readyz at once.
        self.children.statistics.show(self.state, self.started)
        if self.banner_due:
            self.banner_due = False
            # Here, so that the first workers, which have been forked by now, do not hold them.
            from forehand import kinds
            from forehand.supervisor import banner

            control = self.control.path if self.control is not None else ""
            status = [one.url for one in self.panel.listeners] if self.panel is not None else []
            banner.tell(self.settings, self.children, self.state.rules.wanted, control, status)
            kind = self.settings["interface_name"][:4]
            for line in kinds.without_effect(self.settings, kind, left_out=kinds.SAID_BY_ENGINE):
                log.write("warning", line)
        self.notify.ready(f"{self.state.rules.wanted} workers serve")

    def _do_reloaded(self, ok: bool, text: str, status: int = errors.APPLICATION) -> None:
        if self.children is not None:
            self.children.statistics.shared.count("reloads_done" if ok else "reloads_failed")
        self.concerns.note_reload("" if ok else text)
        if not ok and self.state.phase == "serving":
            # What has failed says of its worker that it takes no requests: that is not the server.
            text = f"{text.rstrip()}\n  generation {self.state.generation} goes on serving"
        log.write("info" if ok else "error", f"reload: {text}" if ok else f"the reload was given up: {text}")
        if ok:
            self.settings = self.plans.get(self.state.generation, self.settings)
            log.set_up(self.settings)
            title.show(self.settings, "supervisor", "forehand")
            self.next_memory = time.monotonic() if self.settings["max_worker_memory"] else NEVER
        self.notify.ready(f"{self.state.rules.wanted} workers serve")
        hooks.call(self.settings, "on_reload", {"pid": os.getpid(), "ok": ok, "generation": self.state.generation})
        not_reloaded, self.not_reloaded = self.not_reloaded, []
        told = "\n".join([text, *(f"warning: {line}" for line in not_reloaded)]) if ok else text
        self.answer(ok, told, status, [client for client in self.waiting if not client.waits_for_the_end])

    def _do_exit(self, status: int) -> None:
        self.status = status
        self.answer(status == 0, "the server has stopped")

    def answer(
        self, ok: bool, text: str, status: int = errors.APPLICATION, clients: list[Client] | None = None
    ) -> None:
        """The last line to those who wait for the end of something, to all where none are named. `status`: how the
        order's command ends where it was not carried out."""
        for client in list(self.waiting) if clients is None else clients:
            client.tell(ok=ok, text=text, **({} if ok else {"status": status}))
            self.close_client(client)

    # What comes in.

    def on_child(self, child: Child) -> None:
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
            elif word == "closed":
                self.decide("closed", child.number)
            elif word in NOTES:
                child.note(word, text, NOTES[word])
            elif word == "advice":
                # Workers have the same settings, and so have those that come after them.
                if not self.advised:
                    log.write("info", text)
                self.advised = True
            elif word == "heard":
                for collection in [one for one in self.collections if one.word == text]:
                    collection.heard(child)
            elif word == "routes":
                log.write("info", f"worker {child.number}: routes that grew most: {text}")
            else:
                for collection in [one for one in self.collections if one.word == word]:
                    collection.came(child, text)
        if not child.channel.open and child.number in (self.children.all if self.children else {}):
            self.remove_reader(child.channel.fd)
            if not child.pid:
                self.gone(child, "never began", True)

    def on_template(self, template: TemplateProcess) -> None:
        for word, text in template.channel.hear():
            if word == "warn":
                log.write("warning", text)
            elif word == "fail":
                status, _, cause = text.partition(" ")
                number = int(status) if status.isdigit() else errors.INTERNAL
                self.decide("unloadable", template.generation, (number, cause))
            elif word == "loaded":
                template.loaded = True
        if not template.channel.open:
            self.remove_reader(template.channel.fd)
            if self.templates.get(template.generation) is template:
                self.templates.pop(template.generation)
            template.close()

    def close_client(self, client: Client) -> None:
        """Ends with a client whose answer is complete."""
        if client in self.waiting:
            self.waiting.remove(client)
        if client.fd >= 0:
            self.remove_reader(client.fd)
        if self.control is not None:
            self.control.forget(client)

    def gone(self, child: Child, how: str, crashed: bool) -> None:
        assert self.children is not None
        self.remove_reader(child.channel.fd)
        worker = self.state.workers.get(child.number)
        reason = statistics.reason(how, worker.stale if worker else "")
        inside = self.children.drop(child, self.children.statistics.shared.count_exit(reason))
        if crashed and inside:
            log.write("error", statistics.crash_report(child.number, child.pid, how, inside, child.queued))
        # Whom this server has killed without a reason to tell was not wanted any more, and what failed before it was
        # ready ends the start or the reload that it was part of.
        has_served = worker is not None and worker.ready_at > 0
        if crashed and child.killed != "" and (has_served or "with status" not in how):
            why = f"was killed: {child.killed}" if child.killed else how
            self.concerns.note_death(child.number, child.pid, why, inside)
        # A connection whose waking that worker has taken with it is looked for by the others.
        for other in self.children.all.values():
            other.channel.tell("check_listeners")
        pid = f" (process {child.pid})" if child.pid else ""
        self.decide("died", child.number, f"{how}{pid}", crashed, child.told)

    def how_ended(self, status: int, peak_kib: int, child: Child | None) -> tuple[str, bool]:
        """A wait status in words, and whether it was a failure; of a worker where it stood as well, if it was one of
        its own."""
        how, failed = children.described(status)
        signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        if signal == SIGKILL and (child is None or child.killed is None):
            killed = self.oom_killer.has_killed(time.monotonic())
            how = oom.told(killed, peak_kib, self.oom_killer.allowed())
        elif signal in FAULTS and child is not None:
            text = last_words.read(child.stacks)
            how += last_words.place(text)
            child.faulty = last_words.thread(text)
        return how, failed

    def template_gone(self, pid: int, status: int, peak_kib: int) -> None:
        if self.children is not None:
            self.children.statistics.fold_metrics(pid)
        for template in list(self.templates.values()):
            if template.pid == pid:
                if template.channel.open and template.channel.fd in self.readers:
                    self.on_template(template)
                self.templates.pop(template.generation, None)
                how, crashed = self.how_ended(status, peak_kib, None)
                if crashed and not template.loaded:
                    cause = (errors.APPLICATION, f"the process that preloads the application {how}")
                    self.decide("unloadable", template.generation, cause)


def send_signal(pid: int, name: str) -> None:
    import _signal as signal

    try:
        os.kill(pid, getattr(signal, name))
    except OSError:
        pass  # it has ended by itself


def _plain(text: str) -> str:
    """A failure as the command line shows it."""
    return text if "forehand: " in text else f"forehand: {text}"
