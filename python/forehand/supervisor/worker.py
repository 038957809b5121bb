"""A worker from its first line to its last: import the application, prove that it answers, serve, end.

Knows: in which order, and which kind of engine an application wants. Does not know: other workers. Runs in a child
process, on its main thread.
"""

from __future__ import annotations

import gc
import os
import sys

from forehand import _core, descriptors, ending, errors, forked, logs, static_names
from forehand.errors import Problem
from forehand.supervisor import app_metrics, handed_tls, log, title
from forehand.supervisor.channel import Channel
from forehand.supervisor.log_files import open_log
from forehand.supervisor.worker_control import WorkerControl
from forehand.supervisor.worker_process import WorkerProcess
from forehand.target import is_asgi

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from forehand.supervisor.worker_process import Inherited

#: How long what runs may go on after the supervisor has died: the port is free within a second.
ORPHAN_MS = 600
#: With more than so many the stack of one that has faulted is noted alone: `faulthandler` tells of the newest hundred.
MOST_THREADS = 64
#: How long what an import has left may take to end, in seconds, where the worker cannot start.
FAILED = 1.0


def run(inherited: Inherited, plan: dict[str, Any], application: Callable[..., Any] | None = None) -> NoReturn:
    """Serve, and end the process. `application`: where it was loaded before the fork."""
    status = errors.INTERNAL
    channel = Channel(inherited.channel_fd, takes=True)
    try:
        title.show(plan, f"worker {inherited.number}", f"forehand-w{inherited.number}")
        descriptors.make_room(inherited.parent_pipe)
        _core.watch_parent(inherited.parent_pipe, ORPHAN_MS)
        _keep_from_children(inherited)
        status = forked.parent_only(_serve, inherited, WorkerProcess(inherited, plan, channel), application)
    except Problem as problem:
        channel.tell("fail", f"{problem.status} {problem.text()}")
        status = problem.status
        ending.begin(FAILED)
    except BaseException as error:  # whatever it is, the supervisor is to know of it
        import traceback

        channel.tell("fail", f"{errors.INTERNAL} {''.join(traceback.format_exception(error))}")
        ending.begin(FAILED)
    finally:
        ending.finish(status, plan["graceful_timeout"])


def _keep_from_children(inherited: Inherited) -> None:
    """What the application forks has none of these descriptors."""
    for fd in inherited.fds():
        _core.keep_from_children(fd)


def set_up_environment(plan: dict[str, Any]) -> None:
    """Folder, variables and module path, as the application will find them. Raises Problem."""
    os.environ.update(plan["variables"])
    try:
        os.chdir(plan["folder"])
    except OSError as error:
        raise Problem(errors.USAGE, f"the folder {plan['folder']}: {error.strerror}") from None
    sys.path[:] = plan["path"]
    app_metrics.choose_anew()
    if plan["log_config"] or plan["log_syslog"]:
        from forehand import log_config

        log_config.set_up(plan)


def load(plan: dict[str, Any]) -> Callable[..., Any]:
    """Import the application; a fork that an import makes never comes back here. Raises Problem."""
    from forehand import target

    us = os.getpid()
    application = target.load(plan["target"], factory=plan["factory"])
    if os.getpid() != us:
        log.write("error", f"importing '{plan['target']}' forked, and the child came back: it ends here")
        os._exit(errors.APPLICATION)
    return application


def _serve(inherited: Inherited, process: WorkerProcess, application: Callable[..., Any] | None) -> int:
    """From the import to the end; the exit status."""
    plan = process.plan
    gevent = plan["worker_class"] == "gevent"
    application = _prepared(process, application, gevent=gevent)
    engine = {
        **plan["engine"],
        "multiprocess": plan["workers"] > 1,
        "shared_listeners": True,
        "scoreboard": inherited.scoreboard,
        "statistics": (inherited.statistics, inherited.scoreboard[1]),
        "tracing": _tracing(inherited, plan),
        "report_fd": inherited.channel_fd,
        "access_log_fd": 1 if plan["access_log_file"] == "-" else open_log(plan["access_log_file"]),
        **logs.engine_settings(plan),
        **static_names.engine_settings(plan),
        "tls": handed_tls.get(inherited.tls_fd),
    }
    if gevent:
        from forehand import greenlets
        from forehand.greenlets import worker as under_gevent

        greenlets.check(application, plan["target"], plan["interface"])
        prove(plan, application)
        _stacks_on_signal(inherited.stacks)
        return under_gevent.serve(process, application, inherited.listeners, engine)
    if is_asgi(application, plan["interface"]):
        from forehand.asgi import worker as under_asyncio

        _stacks_on_signal(inherited.stacks)
        return under_asyncio.serve(process, application, inherited.listeners, engine)
    server = _core.Server(application, inherited.listeners, engine)
    prove(plan, application)
    _stacks_on_signal(inherited.stacks, engine["threads"])
    return _on_threads(process, server)


def _tracing(inherited: Inherited, plan: dict[str, Any]) -> tuple[int, int, float, bool] | None:
    """Where spans are left, and of which requests."""
    if inherited.spans < 0 or plan["tracing"] is None:
        return None
    return inherited.spans, inherited.scoreboard[1], plan["tracing"]["ratio"], plan["tracing"]["by_parent"]


def _prepared(process: WorkerProcess, application: Callable[..., Any] | None, *, gevent: bool) -> Callable[..., Any]:
    """The application, imported here unless that was done before the fork. Raises Problem."""
    from forehand.supervisor import hooks, privileges

    if gevent:
        from forehand import greenlets
    if application is not None:
        if gevent:
            greenlets.after_fork()
        hooks.call(process.plan, "on_worker_start", process.facts)
        return application
    privileges.drop(process.plan["user"], process.plan["group"])
    set_up_environment(process.plan)
    if gevent:
        greenlets.patch()
    hooks.call(process.plan, "on_worker_start", process.facts)
    return load(process.plan)


def _on_threads(process: WorkerProcess, server: _core.Server) -> int:
    """WSGI on the engine's own threads; the exit status."""
    engine = process.plan["engine"]
    if engine["limits"]["request_timeout"] or engine["request_timeouts"]:
        from forehand.supervisor import deadlines

        deadlines.prepare()
    forked.from_any_thread()
    gc.collect()
    server.start()
    process.ready()
    status = WorkerControl(process, server).wait()
    process.exits(status)
    return status


def prove(plan: dict[str, Any], application: Callable[..., Any]) -> None:
    """The readiness call: nothing is accepted before it has succeeded. Raises Problem."""
    # `auto` is for Django alone: a worker without it does not hold what would ask.
    nothing = plan["readiness"] == "auto" and "django.conf" not in sys.modules
    if plan["readiness"] and not nothing and not is_asgi(application, plan["interface"]):
        from forehand.supervisor import readiness

        readiness.prove(plan["readiness"], application)


def _stacks_on_signal(fd: int, threads: int = 0) -> None:
    """Stacks of all threads on a signal, without the interpreter: for one that is stuck in C."""
    import faulthandler

    faulthandler.register(_core.STACKS_SIGNAL, file=fd, all_threads=True)
    # And that of the thread that a fault in C ends, for the supervisor's line about it (`last_words.py`); with those of
    # the others, as only then it is said which thread it is. What the application or PYTHONFAULTHANDLER wants goes
    # first.
    if not faulthandler.is_enabled():
        faulthandler.enable(file=fd, all_threads=threads <= MOST_THREADS)
