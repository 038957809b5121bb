"""A server's life in this process: bind, start, tell, wait, stop.

Knows: the order, and the signals. Does not know: options' sources or HTTP. Runs on the main
thread, which waits in the kernel while the engine's threads work. A supervisor needs none of it.
"""

from __future__ import annotations

import gc
import os
import sys

from forehand import (
    __version__,
    _core,
    certificates,
    descriptors,
    ending,
    errors,
    forked,
    kinds,
    lines,
    logs,
    static_names,
    target,
)
from forehand.ending import STOPPING, cut_message
from forehand.listen import Listener, listen
from forehand.supervisor import log
from forehand.supervisor.log_files import open_log
from forehand.target import is_asgi

#: How long threads may take to let go of an engine that was cut, in seconds.
LET_GO = 1.0

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def alone(plan: dict[str, Any]) -> int:
    """Load the application that a plan names, and serve it without a supervisor, or only check it; the exit status.
    Raises Problem."""
    sys.path[:] = plan["path"]
    if plan["tls"] is not None:
        # Before rights are dropped: keys belong to root.
        certificates.for_one_process(plan)
    if plan["worker_class"] == "gevent":
        from forehand import greenlets

        greenlets.patch()
    if plan["user"] or plan["group"]:
        from forehand.supervisor import privileges

        privileges.drop(plan["user"], plan["group"])
    if not plan["check"]:
        from forehand.supervisor import hooks

        for name in ("on_start", "on_worker_start"):
            hooks.call(plan, name, {"pid": os.getpid(), "worker": 0, "workers": 0, "generation": 1})
    application = forked.parent_only(lambda: target.load(plan["target"], factory=plan["factory"]))
    if plan["worker_class"] == "gevent":
        greenlets.check(application, plan["target"], plan["interface"])
    if plan["check"]:
        from forehand import checking

        checking.prove(plan)
        _doubt(application, plan)
        _prove(application, plan)
        print(f"forehand: {plan['target']} loads, and all settings can be used")
        return errors.OK
    return _unsupervised(application, plan)


def _prove(application: Callable[..., Any], plan: dict[str, Any]) -> None:
    """The readiness call, outside a worker. Raises Problem."""
    if is_asgi(application, plan["interface"]) and plan["readiness"].startswith("/"):
        from forehand.asgi import readiness as asynchronous

        asynchronous.check(plan["readiness"], application, plan["lifespan"])
    else:
        from forehand.supervisor import readiness

        readiness.prove(plan["readiness"], application)


def _doubt(application: Callable[..., Any], plan: dict[str, Any], *, left_out: tuple[str, ...] = ()) -> None:
    """Say what has no effect for such an application."""
    kind = "ASGI" if is_asgi(application, plan["interface"]) else "WSGI"
    for line in kinds.without_effect(plan, kind, left_out=left_out):
        log.write("warning", line)


def _unsupervised(application: Callable[..., Any], plan: dict[str, Any]) -> int:
    """`--workers 0`: this process is supervisor and worker in one. Raises Problem."""
    from forehand.supervisor import hooks, pidfile, title

    title.show(plan, "server", "forehand")
    _doubt(application, plan, left_out=kinds.SAID_BY_ENGINE)
    facts = {"pid": os.getpid(), "worker": 0, "generation": 1}
    pidfile.write(plan["pid_file"])
    status = errors.INTERNAL
    try:
        _prove(application, plan)
        plan["on_ready"] = lambda: hooks.call(plan, "on_worker_ready", facts)
        status = run(application, plan["target"], plan)
    finally:
        hooks.call(plan, "on_worker_exit", {**facts, "status": status})
        hooks.call(plan, "on_stop", {**facts, "status": status})
        pidfile.remove(plan["pid_file"])
    if ending.process_ends:
        ending.finish(status, plan["graceful_timeout"])
    return status


def run(application: Callable[..., Any], name: str, plan: dict[str, Any]) -> int:
    """Serve until told to stop; the exit status. Raises Problem before the first request.

    An ASGI application goes the way of `forehand.asgi`.
    `plan` is that of `Settings.plan`, with `ready_fd` where somebody waits for readiness.
    """
    asynchronous = is_asgi(application, plan["interface"])
    if plan["worker_class"] == "gevent":
        from forehand import greenlets

        greenlets.check(application, name, plan["interface"])
    if plan["tls"] is not None:
        certificates.for_one_process(plan)
    listeners = listen(plan)
    descriptors.make_room(listeners[0].socket.fileno())
    for listener in listeners:
        _core.keep_from_children(listener.socket.fileno())
    try:
        engine = {
            **plan["engine"],
            "access_log_fd": 1 if plan["access_log_file"] == "-" else open_log(plan["access_log_file"]),
            **logs.engine_settings(plan),
            **static_names.engine_settings(plan),
        }
        if asynchronous:
            from forehand.asgi import serve

            return serve(
                application, listeners, engine, plan, lambda work: _announce(plan, listeners, f"{name} (ASGI)", work)
            )
        if plan["worker_class"] == "gevent":
            from forehand.greenlets.driver import serve as serve_greenlets

            said = f"{name} (WSGI, gevent)"
            return serve_greenlets(
                application, listeners, engine, plan, lambda work: _announce(plan, listeners, said, work)
            )
        server = _core.Server(application, [listener.lent() for listener in listeners], engine)
        waiting = SignalWait(server, plan["graceful_timeout"])
        forked.from_any_thread()
        # What loading has left goes back to the system when the server starts.
        gc.collect()
        server.start()
        at_exit = ending.StopAtExit(server.stop, server.abort, plan["graceful_timeout"])
        try:
            _announce(plan, listeners, f"{name} (WSGI)", f"up to {plan['threads']} threads")
            return waiting.wait()
        finally:
            if not server.ended():
                # Something was raised in the main thread, by a handler of somebody else's.
                server.abort()
                server.join(LET_GO)
            at_exit.done()
            waiting.give_signals_back()
    finally:
        for listener in listeners:
            _core.release(listener.socket.fileno())
            listener.close()


def _announce(plan: dict[str, Any], listeners: list[Listener], name: str, work: str) -> None:
    """Tell people and whoever waits for it that requests are answered."""
    if not plan["quiet"]:
        _banner(listeners, name, work, plan.get("tls_fingerprint", ""))
    if plan.get("ready_fd") is not None:
        _ready(plan["ready_fd"], listeners)
    plan.get("on_ready", int)()


def _banner(listeners: list[Listener], name: str, work: str, fingerprint: str) -> None:
    bold, plain = ("\033[1m", "\033[0m") if log.form == lines.COLOUR else ("", "")
    python = ".".join(map(str, sys.version_info[:3]))
    urls = "  ".join(listener.url for listener in listeners)
    log.write(
        "plain",
        f"{bold}Forehand {__version__}{plain}  {bold}{urls}{plain}\n"
        f"  application  {name}\n"
        f"  Python       {python}, {work}, process {os.getpid()}\n"
        f"{lines.certificate(fingerprint)}"
        "  Ctrl-C stops",
    )


def _ready(fd: int, listeners: list[Listener]) -> None:
    """Tell a supervisor or a test, in one JSON line, that requests are answered."""
    urls = ", ".join('"' + listener.url.replace("\\", "\\\\").replace('"', '\\"') + '"' for listener in listeners)
    os.write(fd, f'{{"pid": {os.getpid()}, "listeners": [{urls}]}}\n'.encode(errors="backslashreplace"))
    os.close(fd)


class SignalWait:
    """Waits for the word to stop: a signal in the main thread, the engine's end elsewhere."""

    def __init__(self, server: _core.Server, graceful_timeout: float) -> None:
        self.server = server
        self.graceful_timeout = graceful_timeout
        self.asked = 0
        self.wake: tuple[int, int] | None = None
        self.before: dict[int, Any] = {}
        self._take_signals()

    def _take_signals(self) -> None:
        import _signal as signal  # the module `signal` would bring `enum`

        before = ending.handlers((signal.SIGTERM, signal.SIGINT))
        try:
            for number in before:
                signal.signal(number, self._signalled)
        except ValueError:
            return  # not the main thread: the process's signals are somebody else's
        self.before = before
        # The handler runs when the main thread runs; a byte in this pipe makes it run.
        self.wake = os.pipe()
        for fd in self.wake:
            os.set_blocking(fd, False)
            _core.keep_from_children(fd)
        signal.set_wakeup_fd(self.wake[1])
        forked.take_signals([signal.SIGTERM, signal.SIGINT])

    def give_signals_back(self) -> None:
        """Nobody waits any more."""
        if self.wake is None:
            return
        import _signal as signal

        ending.give_back(self.before)
        signal.set_wakeup_fd(-1)
        for fd in self.wake:
            _core.release(fd)
            os.close(fd)

    def _signalled(self, number: int, frame: object) -> None:
        self.asked += 1

    def wait(self) -> int:
        """Wait for the end; the exit status."""
        if self.wake is None:
            self.server.join()
            return errors.OK
        import select

        us = os.getpid()
        poll = select.poll()
        poll.register(self.wake[0], select.POLLIN)
        poll.register(self.server.overdue_fd(), select.POLLIN)
        while self.asked == 0:
            poll.poll()
            forked.stay_out(us, "where its parent waits for signals")
            try:
                os.read(self.wake[0], 64)
            except BlockingIOError:
                pass  # a request is overdue, and no signal has come
            for ticket in self.server.overdue():
                from forehand.supervisor import deadlines

                deadlines.interrupt(self.server, *ticket)
        log.write("plain", f"forehand: {STOPPING.format(self.graceful_timeout)}")
        ending.begin(self.graceful_timeout)
        self.server.stop()
        # The engine keeps the time; a second signal, or its end, ends the waiting.
        while self.asked == 1 and not self.server.ended():
            self.server.join(0.05)
        if self.asked > 1:
            ending.hurry()
            self.server.abort()
        return self._end()

    def _end(self) -> int:
        done = self.server.join(1)
        cut = self.server.counters()["requests_cut"]
        if done and not cut:
            return errors.OK
        log.write("plain", f"forehand: {cut_message(max(cut, 1), hurried=self.asked > 1)}")
        return errors.INTERNAL
