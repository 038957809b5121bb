"""The supervisor's loop: it hears signals, workers and orders, and has `decisions.py` decide.

Knows: descriptors, deadlines, ends of processes. Does not know: how an action is carried out (`supervisor.py`). It runs
on one thread, waits in one place, and does no request's work.
"""

from __future__ import annotations

import os
import sys
import time

from forehand import _core
from forehand.listen import listen
from forehand.supervisor import app_metrics, decisions, hooks, log, orders, pidfile, title
from forehand.supervisor.children import Children
from forehand.supervisor.scoreboard import Scoreboard
from forehand.supervisor.signals import Signals
from forehand.supervisor.state import NEVER, READY
from forehand.supervisor.statistics import Statistics
from forehand.supervisor.supervisor import Supervisor, send_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forehand.listen import Listener
    from forehand.supervisor.children import Child
    from forehand.supervisor.control import Client

#: How often workers' memory is looked at, where it is limited (`max_worker_memory`).
MEMORY_EVERY = 5.0
#: Milliseconds for which it waits if it gives back what it does not need to wait: that takes a third of one.
REST_MS = 1000


def run(settings: dict[str, Any], adopted: dict[str, Any] | None = None) -> int:
    """Supervise until told to stop; the exit status. Raises Problem before the first request.

    `settings` is the plan of `Settings.plan`; `adopted`: what an earlier program has left
    (`upgrade.py`)."""
    supervisor = Loop(settings)
    try:
        if adopted is None:
            supervisor.begin()
        else:
            supervisor.adopt(adopted)
        return supervisor.run()
    finally:
        supervisor.end()


class Loop(Supervisor):
    """The supervisor and what it waits for."""

    # The beginning.

    def begin(self) -> None:
        """Open what is to be open, and start the first workers. Raises Problem."""
        self.prepare()
        settings = self.settings
        hooks.call(settings, "on_start", {"pid": os.getpid(), "workers": settings["workers"]})
        if settings["tls"] is not None:
            from forehand.supervisor import tls

            tls.begin(self, None)
        listeners = listen(settings)
        statistics = Statistics()
        self.hold(Children(listeners, Scoreboard(), statistics, os.pipe()), listeners)
        statistics.metrics = app_metrics.prepare(settings)
        self._hear_control()
        self.open_panel()
        self.open_exporter()
        pidfile.write(settings["pid_file"])
        self.carry_out([("load", 1)])
        self.decide("tick")
        self.watch()

    def prepare(self) -> None:
        """What any beginning needs."""
        from forehand import _core

        title.show(self.settings, "supervisor", "forehand")
        self.signals = Signals()
        self.add_reader(self.signals.reader, self._on_signal)
        log.set_up(self.settings)
        # Workers out of a template process become our children when the process between has ended.
        _core.become_subreaper()

    def adopt(self, adopted: dict[str, Any]) -> None:
        """Take over from the program that was here before (`upgrade.py`). Raises Problem."""
        from forehand.supervisor import upgrade

        self.prepare()
        upgrade.adopt(self, adopted)
        self.open_panel(upgrade.panel_listeners(adopted))
        self.open_exporter(adopted.get("spans", -1))
        self._hear_control()
        self.decide("reload", None)
        self.watch()

    def open_panel(self, listeners: list[Listener] | None = None) -> None:
        """Answer `--status-bind` and send to `--statsd-host`, where that is asked for. Raises Problem."""
        wanted = self.settings["status_bind"] or self.settings["statsd_host"]
        if wanted and self.children is not None:
            from forehand.supervisor.panel import Panel

            panel = Panel(self, listeners)
            self.panel = panel
            self.timers.append(panel)

    def open_exporter(self, left: int = -1) -> None:
        """Export spans, where that is asked for. `left`: the descriptor of the program before."""
        if self.settings["tracing"] is not None and self.children is not None:
            from forehand.supervisor import tracing

            self.children.spans_fd = tracing.memory(left)
            self.exporter = tracing.Exporter(self)
            self.timers.append(self.exporter)
        elif left >= 0:
            os.close(left)

    def watch(self) -> None:
        """Start watching files, where that is asked for."""
        if self.settings["reload"] and self.children is not None:
            from forehand.supervisor import watch

            self.watcher = watch.start(self.children, self.settings, self.started)

    # The loop.

    def run(self) -> int:
        """The loop, until an action ends it; the exit status."""
        assert self.children is not None
        while self.status is None:
            now = time.monotonic()
            due = min(decisions.next_look(self.state, now), self.notify.alive(now), self.next_memory)
            due = min([due, *(timer.deadline for timer in self.timers)])
            wait = None if due == NEVER else max(0, min(3_600_000, int((due - now) * 1000) + 1))
            self.children.statistics.rests(wait)
            if self.state.phase == "serving" and (wait is None or wait > REST_MS):
                # What it has just done is done again in a while, or never.
                _core.give_back_memory()
            happened = self.poll.poll(wait)
            self.children.statistics.looks()
            for fd, _ in happened:
                reader = self.readers.get(fd)
                if reader is not None:
                    reader()
            self._reap()
            now = time.monotonic()
            self.oom_killer.look(now)
            for timer in list(self.timers):
                timer.look(now)
            if now >= self.next_memory:
                self._look_at_memory(now)
            self.decide("tick")
            self.children.statistics.show(self.state, self.started)
            certificate = self.tls.told() if self.tls is not None else None
            self.children.statistics.tell(self.concerns.numbers(certificate))
        return self.status

    # What comes in.

    def _on_signal(self) -> None:
        assert self.signals is not None
        for word in self.signals.take():
            orders.signal(self, word)

    def _hear_control(self) -> None:
        """Take orders over the control socket, and hear clients that an earlier program has left."""
        if self.control is None:
            return
        self.add_reader(self.control.fileno(), self._on_client)
        for client in self.waiting:
            self.add_reader(client.fd, lambda client=client: self._on_order(client))  # type: ignore[misc]

    def _on_client(self) -> None:
        assert self.control is not None
        client = self.control.accept()
        if client is not None:
            self.add_reader(client.fd, lambda: self._on_order(client))

    def _on_order(self, client: Client) -> None:
        assert self.control is not None
        order = self.control.read(client)
        if order is None:
            return
        if order == "":
            self.close_client(client)
            return
        orders.carry_out(self, client, order)

    def _reap(self) -> None:
        assert self.children is not None
        while True:
            try:
                # To be told what it has used brings a module, which nobody needs who has not lost a child.
                if hasattr(os, "waitid") and not os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    return
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            child = self.children.by_pid(pid) or self._just_born(pid)
            if child is not None:
                # Its last words may still be in the line.
                if child.channel.open and child.channel.fd in self.readers:
                    self.on_child(child)
                self.gone(child, *self.how_ended(status, used.ru_maxrss, child))
            elif pid in self.other_processes:
                self.other_processes.pop(pid)(status)
            else:
                self.template_gone(pid, status, used.ru_maxrss)

    def _just_born(self, pid: int) -> Child | None:
        """The child that a process is which a template process has made, and whose word of that may be unread: it came
        after the last look, and the process has ended since."""
        assert self.children is not None
        for child in list(self.children.all.values()):
            if not child.pid and child.channel.open and child.channel.fd in self.readers:
                self.on_child(child)
        return self.children.by_pid(pid)

    def _look_at_memory(self, now: float) -> None:
        from forehand.supervisor import memory

        assert self.children is not None
        self.next_memory = now + MEMORY_EVERY
        most, kind = self.settings["max_worker_memory"] // 1024, self.settings["worker_memory_kind"]
        for child in list(self.children.all.values()):
            held = memory.kib(child.pid, kind) if child.pid else 0
            if held > most:
                worker = self.state.workers.get(child.number)
                if worker is not None and worker.state == READY and not worker.stale:
                    child.channel.tell("routes")
                    why = f"it holds {held} KiB of {kind.upper()} (--max-worker-memory {most} KiB)"
                    self.decide("stale", child.number, why)

    # The end.

    def end(self) -> None:
        """Close what is open. Workers that are left, after a failure of ours, end by the pipe."""
        self.notify.stopping()
        if self.panel is not None:
            self.panel.close()
        if self.exporter is not None:
            self.exporter.close()
        if self.watcher:
            send_signal(self.watcher, "SIGKILL")
        if self.children is not None:
            hooks.call(self.settings, "on_stop", {"pid": os.getpid(), "status": self.status})
            for template in self.templates.values():
                template.close()
                send_signal(template.pid, "SIGKILL")
            for listener in self.children.listeners:
                listener.close()
            app_metrics.remove(self.children.statistics.metrics)
        if self.control is not None:
            self.control.close()
        pidfile.remove(self.settings["pid_file"])
        if self.signals is not None:
            self.signals.give_back()
        sys.stdout.flush()
