"""Serving from Python: `forehand.serve`, and `forehand.Server` beside what else a process does.

Knows: options as keywords, and how a server begins and ends in a thread. Does not know: command lines. Of what the
command offers, what would have no effect here is refused, by name.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading

from forehand import _core, certificates, contradictions, errors, forked, kinds, logs, static_names
from forehand.errors import Problem, near
from forehand.listen import Listener, kind_and_place, listen
from forehand.settings import DEFAULT, OPTIONS, Settings
from forehand.supervisor import log
from forehand.supervisor.log_files import open_log
from forehand.target import is_asgi, load

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any

    from typing_extensions import Self, Unpack

    from forehand.asgi.driver import Driver
    from forehand.listen import Lent
    from forehand.typed import Options

#: What means nothing where one process serves an application that is there already.
COMMAND_ONLY = (
    "application", "chdir", "pythonpath", "env", "env_file", "factory", "workers", "preload", "reload", "reload_dir",
    "reload_include", "reload_exclude",
    "reload_strategy", "readiness", "startup_timeout", "max_requests", "max_requests_jitter", "max_worker_age",
    "max_worker_memory", "worker_memory_kind", "control", "process_name", "pid_file", "user", "group", "umask",
    "log_file", "status_bind", "status_token_file", "metrics_app", "statsd_host", "statsd_interval", "statsd_prefix",
    "dogstatsd_tags", "slow_request", "slow_requests", "shutdown_delay", "drain_keep_alive", "trace_endpoint",
    "trace_sample", "server_timing", "computing_apart",
    "on_start", "on_worker_start", "on_worker_ready", "on_worker_exit", "on_reload", "on_stop",
)  # fmt: skip
#: What only says more about another option, and that one.
SAYS_MORE = {**contradictions.SAYS_MORE, "liveness_stall": "health_paths"}
#: What is about unix sockets.
OF_UNIX_SOCKETS = ("socket_mode", "socket_user", "socket_group")
#: How long the first request may be waited for: an ASGI application's startup has no other bound.
STARTUP = 60.0
#: How long a loop may take to let go of an application whose start is over for us.
LET_GO = 1.0


def settings_of(options: dict[str, Any], source: str) -> Settings:
    """Keywords as settings. Raises Problem for one that is not known or cannot be used."""
    known = {key: option for option in OPTIONS.values() for key in option.keys}
    settings = Settings()
    taken: dict[str, str] = {}
    for name, value in options.items():
        option = known.get(name)
        if option is None:
            from forehand.migrate import other_servers

            told = other_servers.key(name, value) or f"'{name}' is not an option{near(name, list(known))}"
            raise Problem(errors.USAGE, f"{source}: {told}")
        if option.name in taken:
            raise Problem(errors.USAGE, f"{source}: '{name}' and '{taken[option.name]}' are the same option: name one")
        taken[option.name] = name
        try:
            if option.kind == "list" and isinstance(value, str):
                # As a flag would be read; a variable's value may have commas of its own.
                value = option.validated([value]) if option.name == "env" else option.parse(value)
            settings.put(option.name, option.validated(value), source)
        except ValueError as error:
            hint = "leave it out for the default" if value is None else option.help
            raise Problem(errors.USAGE, f"{source}: {name}: {error}", hint=hint) from None
    return settings


def _callable(application: Any, source: str) -> Callable[..., Any]:
    """The application, if it is one that can be called. Raises Problem."""
    if callable(application):
        return application  # type: ignore[no-any-return]
    shown = repr(application)
    hint = "it is called with (environ, start_response) or (scope, receive, send), or named in a text: 'shop.wsgi'"
    if type(application).__name__ == "module":
        hint = f"name one in it, or the module in a text: '{application.__name__}'"
    what = shown if len(shown) <= 60 else f"{shown[:56]} ..."
    raise Problem(errors.APPLICATION, f"{source}: {what} is no application", hint=hint)


def _without_effect(settings: Settings, source: str, *, hint: str) -> None:
    for name in COMMAND_ONLY:
        harmless = (0, 1) if name == "workers" else ()
        if _said(settings, name) and settings[name] not in harmless:
            raise Problem(errors.USAGE, f"{source}: {name} has no effect for an application that is there already",
                          hint=hint)  # fmt: skip
    contradiction = contradictions.find(settings)
    if contradiction:
        raise Problem(errors.USAGE, f"{source}: {contradiction}")
    for name, other in SAYS_MORE.items():
        if _said(settings, name) and not settings[other]:
            raise Problem(errors.USAGE, f"{source}: {name} has no effect without {other}")
    if not any(kind_and_place(address)[1].startswith("unix:") for address in settings.addresses()):
        for name in OF_UNIX_SOCKETS:
            if _said(settings, name):
                raise Problem(errors.USAGE, f"{source}: {name} is about unix sockets: bind names none")


def _said(settings: Settings, name: str) -> bool:
    return settings.ranks[name] != DEFAULT and bool(settings[name] != OPTIONS[name].default)


def _fits(application: Callable[..., Any], settings: Settings, source: str) -> None:
    """What has no effect for an application that is called in this way. Raises Problem."""
    asgi = is_asgi(application, settings["interface"])
    for name in kinds.others("ASGI" if asgi else "WSGI", gevent=settings.is_gevent()):
        if _said(settings, name):
            what, whose = ("ASGI", "WSGI") if asgi else ("WSGI", "ASGI")
            raise Problem(
                errors.USAGE,
                f"{source}: {name} is for {whose} applications, and this is one of {what}",
                hint="interface='asgi' or 'wsgi' says how it is called, where it does not look like it",
            )


def _real_threads() -> None:
    """Where gevent has patched them, the engine's would meet a hub that waits for them. Raises Problem."""
    if "gevent.monkey" in sys.modules:
        from gevent import monkey

        if monkey.is_module_patched("threading"):
            raise Problem(
                errors.USAGE,
                "Server(): gevent has patched this process's threads, and a server beside them would stand still",
                hint="forehand.serve(app, worker_class='gevent') in the main thread, or the command",
            )


def serve(application: str | Callable[..., Any], options: dict[str, Any]) -> int:
    """`forehand.serve`. Raises Problem."""
    settings = settings_of(options, "serve()")
    if isinstance(application, str):
        return _command(application, settings)
    _without_effect(settings, "serve()", hint='name the application as a target, such as serve("shop.wsgi", workers=2)')
    name = getattr(application, "__qualname__", type(application).__name__)
    _callable(application, "serve()")
    _fits(application, settings, "serve()")
    if "asyncio" in sys.modules and is_asgi(application, settings["interface"]):
        from forehand.asgi.driver import outside_a_loop

        outside_a_loop()
    if settings.is_gevent():
        from forehand import greenlets

        greenlets.require_patched()
    from forehand.run import run

    plan = settings.plan()
    _log(plan)
    return run(application, name, plan)


def _log(plan: dict[str, Any]) -> None:
    """Where lines go, and how they look, in a process that is no command's. Raises Problem."""
    log.set_up(plan)
    if plan["log_config"] or plan["log_syslog"]:
        from forehand import log_config

        log_config.set_up(plan)
    for line in plan["doubts"]:
        log.write("warning", line)


def _log_settings(plan: dict[str, Any]) -> dict[str, Any]:
    """What the engine is told of logs, with the file of its own that is closed behind it. Raises Problem."""
    found = logs.engine_settings(plan)
    if plan["access_log_file"] != "-" and "access_log_fd" not in found:
        found["access_log_fd"] = open_log(plan["access_log_file"])
    return found


def _command(target: str, settings: Settings) -> int:
    """A target, as the command serves it, in this process. Raises Problem."""
    from forehand.launch import launch
    from forehand.sources import take_env_file
    from forehand.supervisor import watch

    if settings.ranks["application"] != DEFAULT:
        named = f"'{target}' and application '{settings['application']}'"
        raise Problem(errors.USAGE, f"serve(): the application is named twice: {named}")
    folder = os.path.abspath(settings["chdir"] or os.curdir)
    take_env_file(settings, folder)
    if threading.current_thread() is not threading.main_thread():
        if settings.sources["workers"] != "default" and settings["workers"] != 0:
            raise Problem(
                errors.USAGE,
                "serve(): workers need the main thread, which hears the signals",
                hint="leave workers out: this process then serves alone",
            )
        settings.put("workers", 0, "serve()")
    contradiction = contradictions.find(settings, target)
    if contradiction:
        raise Problem(errors.USAGE, f"serve(): {contradiction}")
    if settings["reload"]:
        watch.check()
    first = [os.path.abspath(part) for part in settings["pythonpath"].split(",") if part]
    plan: dict[str, Any] = settings.plan()
    plan |= {"target": target, "factory": settings["factory"], "check": False, "ready_fd": None, "adopt": None}
    plan |= {"folder": folder, "path": [*first, folder, *(path for path in sys.path if path not in ("", folder))]}
    plan |= {"interface_name": "WSGI", "for_one_kind": contradictions.for_one_kind(settings)}
    plan["doubts"] += contradictions.doubts(settings, plan)
    os.chdir(folder)
    return launch(plan)


class Server:
    """A server in threads of its own, beside what else this process does: tests, notebooks, an event loop that runs.

        with forehand.Server(app) as server:
            requests.get(server.url)

    `application`: a WSGI or ASGI application, or a target such as `"shop.wsgi"`, which is imported here. `options` are
    those of `forehand.serve`; without `bind` it listens on a free port of 127.0.0.1. Signals are left alone. It may be
    started and stopped from any thread, once.
    """

    def __init__(self, application: str | Callable[..., Any], **options: Unpack[Options]) -> None:
        settings = settings_of(dict(options), "Server()")
        if all(settings.sources[name] == "default" for name in ("bind", "host", "port")):
            settings.put("bind", ["127.0.0.1:0"], "Server()")
        if settings.is_gevent():
            raise Problem(
                errors.USAGE,
                "Server(): worker_class gevent needs the hub of a thread of its own",
                hint="forehand.serve(app, worker_class='gevent') in the main thread, or the command",
            )
        _real_threads()
        _without_effect(settings, "Server()", hint='the command and forehand.serve("shop.wsgi") have it')
        self._application = load(application) if isinstance(application, str) else _callable(application, "Server()")
        _fits(self._application, settings, "Server()")
        self._settings = settings
        self._listeners: list[Listener] = []
        self._life: _Life | None = None
        self._engine: dict[str, Any] = {}
        self._process = 0
        self._lock = threading.Lock()
        self._stopped = False
        self._counted: dict[str, int] = {}

    @property
    def urls(self) -> list[str]:
        """Where it listens, one for each address; empty before it has started."""
        return [listener.url for listener in self._listeners]

    @property
    def url(self) -> str:
        """The first address, such as `http://127.0.0.1:40123`. RuntimeError: it has not started."""
        if not self._listeners:
            raise RuntimeError("the server has not been started: server.start(), or `with` it")
        return self._listeners[0].url

    @property
    def port(self) -> int:
        """The port of the first address; 0 for a unix socket."""
        port = self.url.rpartition(":")[2]
        return int(port) if "://" in self.url and port.isdigit() else 0

    def start(self) -> Self:
        """Bind, start, and return when requests are answered. Raises Problem; RuntimeError where it was started
        before."""
        with self._lock:
            if self._life is not None or self._stopped:
                raise RuntimeError("this server was started before: make another one")
            plan = self._settings.plan()
            certificates.for_one_process(plan)
            _log(plan)
            self._listeners = listen(plan)
            for listener in self._listeners:
                _core.keep_from_children(listener.socket.fileno())
            try:
                self._engine = {**plan["engine"], **_log_settings(plan), **static_names.engine_settings(plan)}
                pairs = [listener.lent() for listener in self._listeners]
                kind = _Loop if is_asgi(self._application, plan["interface"]) else _Threads
                self._life = kind(self._application, plan, self._engine, pairs)
                self._process = os.getpid()
            except BaseException:
                self._close()
                raise
            atexit.register(self.stop)
            return self

    def stop(self, timeout: float | None = None) -> bool:
        """Finish what runs, for at most `timeout` seconds (without one: `graceful_timeout`), then cut it. True: nothing
        was cut. Of a server that does not run, nothing is left to stop; nor in a forked child: it is the parent's.
        RuntimeError: it was called in the server's own event loop, which it would wait for."""
        if self._process not in (0, os.getpid()):
            # Nothing would come of it here, and the lock may be held by a thread that this process does not have.
            return True
        life = self._life
        if life is not None and life.is_here():
            raise RuntimeError(
                "stop() waits for requests to end, and this is one, or their loop: "
                "threading.Thread(target=server.stop).start()"
            )
        with self._lock:
            life, self._life = self._life, None
            if life is None:
                return True
            self._stopped = True
            atexit.unregister(self.stop)
            try:
                return life.stop(self._settings["graceful_timeout"] if timeout is None else timeout)
            finally:
                self._counted = life.counters()
                self._close()

    def counters(self) -> dict[str, int]:
        """What has happened how often since the start, by the names of docs/settings.md; after `stop` as it was then.
        Empty: it has not started."""
        with self._lock:
            return self._counted if self._life is None else self._life.counters()

    def _close(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners = []
        engine, self._engine = self._engine, {}
        if "log_fd" in engine:
            from forehand import log_config

            log_config.close(engine)
        elif "access_log_fd" in engine:
            os.close(engine["access_log_fd"])

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _Life:
    """A server while it runs, from the moment in which it is made. `pairs`: each listener's descriptor and address."""

    def __init__(
        self,
        application: Callable[..., Any],
        plan: dict[str, Any],
        engine: dict[str, Any],
        pairs: list[Lent],
    ) -> None:
        self.application, self.plan, self.engine, self.pairs = application, plan, engine, pairs
        self.begin()

    def begin(self) -> None:
        """Serve; returns when requests are answered."""
        raise NotImplementedError

    def stop(self, timeout: float) -> bool:
        """Finish what runs, for at most so many seconds; True: nothing was cut."""
        raise NotImplementedError

    def is_here(self) -> bool:
        """Whether this thread is one that `stop` would wait for in vain."""
        return False

    def counters(self) -> dict[str, int]:
        """What has happened how often, by name."""
        raise NotImplementedError


class _Threads(_Life):
    """A WSGI application: the engine's own threads."""

    def begin(self) -> None:
        forked.from_any_thread()
        self.server = _core.Server(self.application, self.pairs, self.engine)
        gc.collect()
        self.server.start()
        if self.engine["limits"]["request_timeout"] or self.engine["request_timeouts"]:
            threading.Thread(target=self._watch, name="forehand-deadlines", daemon=True).start()

    def _watch(self) -> None:
        """Requests that are overdue have their exception raised by whoever has Python."""
        import select

        from forehand.supervisor import deadlines

        poll = select.poll()
        poll.register(self.server.overdue_fd(), select.POLLIN)
        while not self.server.ended():
            poll.poll(200)
            for ticket in self.server.overdue():
                deadlines.interrupt(self.server, *ticket)

    def stop(self, timeout: float) -> bool:
        self.server.stop()
        ended = self.server.join(timeout)
        if not ended:
            self.server.abort()
            self.server.join(1)
        self.server.flush_logs()
        return ended and not self.server.counters()["requests_cut"]

    def counters(self) -> dict[str, int]:
        return self.server.counters()


class _Loop(_Life):
    """An ASGI application: an event loop in a thread of its own."""

    def begin(self) -> None:
        from forehand.asgi import driver

        self.loop: asyncio.AbstractEventLoop
        self.loop, _ = driver.new_loop(self.plan["loop"])
        self.driver: Driver = driver.Driver(self.application, self.plan)
        self.ready = threading.Event()
        self.failure: BaseException | None = None
        serving = self.driver.serve(self.pairs, self.engine, driver.Orders(), self.ready.set)

        def live() -> None:
            try:
                driver.run(self.loop, serving)
            except BaseException as error:  # told to whoever has started it
                self.failure = error
            finally:
                self.ready.set()

        self.thread = threading.Thread(target=live, name="forehand-loop", daemon=True)
        try:
            self.thread.start()
            if not self.ready.wait(STARTUP):
                raise Problem(errors.APPLICATION, f"the application's startup did not end within {STARTUP:g} s")
        except BaseException:
            # Ctrl-C, too: nobody has a server to stop, so that what has started by then is ended here.
            self._order("quit")
            if self.thread.ident is not None:
                self.thread.join(LET_GO)
            raise
        if self.failure is not None:
            self.thread.join()
            raise self.failure

    def is_here(self) -> bool:
        return threading.current_thread() is self.thread

    def _order(self, order: str) -> None:
        try:
            self.loop.call_soon_threadsafe(self.driver.stop, order)
        except RuntimeError:
            pass  # the loop has ended

    def stop(self, timeout: float) -> bool:
        self.driver.graceful_timeout = timeout
        self._order("stop")
        self.thread.join(timeout + 3)
        if self.thread.is_alive():
            self._order("quit")
            self.thread.join(1)
            return False
        return not self.driver.cut

    def counters(self) -> dict[str, int]:
        return self.driver.server.counters() if self.driver.server is not None else {}
