"""What signals and the control socket can ask for.

Knows: the words. Does not know: how workers are made or ended. Runs in the supervisor.
"""

from __future__ import annotations

import os
import sys

from forehand import errors
from forehand.digits import number
from forehand.supervisor import lasting, log, rerun
from forehand.supervisor.state import DRAINING, LEAVING, READY, WAITING, rules_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forehand.supervisor.control import Client
    from forehand.supervisor.supervisor import Supervisor


def signal(supervisor: Supervisor, word: str) -> None:
    """A signal has come."""
    stopping = supervisor.state.phase == "stopping"
    if word == "stop" and supervisor.state.phase == "serving" and supervisor.state.rules.delay:
        supervisor.decide("drain")
    elif word in ("stop", "interrupt"):
        # Whoever sits at the terminal needs no load balancer to hear of it first.
        _say_stop(supervisor)
        supervisor.decide("stop")
    elif word == "quit":
        supervisor.decide("quit")
    elif stopping:
        return
    elif word == "reload":
        reload(supervisor, None)
    elif word == "upgrade":
        from forehand.supervisor import upgrade

        upgrade.begin(supervisor, None)
    elif word in ("more", "fewer"):
        supervisor.decide("wanted", supervisor.state.rules.wanted + (1 if word == "more" else -1))
    elif word == "reopen":
        reopen(supervisor)
    elif word == "rest":
        # gunicorn ends the workers of a daemon here; a terminal sends the same signal whenever
        # its window changes, so that a server that belongs to one must not do so.
        if not sys.stderr.isatty():
            log.write("info", "SIGWINCH is ignored; SIGTTOU removes a worker, SIGTERM stops the server")


def _say_stop(supervisor: Supervisor, *, at_once: bool = False) -> None:
    running = supervisor.state.phase != "stopping" and not at_once
    graceful_timeout = supervisor.settings["graceful_timeout"]
    what = f"stopping: waiting up to {graceful_timeout:g} s for running requests (signal again to stop at once)"
    log.write("plain", f"forehand: {what if running else 'stopping at once'}")


def reload(supervisor: Supervisor, client: Client | None) -> None:
    """Read the configuration again, then bring up a new generation."""
    command_line = supervisor.settings.get("command_line")
    if client is not None:
        supervisor.waiting.append(client)
    if supervisor.state.phase in ("stopping", DRAINING):
        supervisor.decide("reload", None)
        return
    if command_line is None:
        # Started from Python: there is no command line to read again.
        _reload_with(supervisor, supervisor.settings)
        return
    log.write("info", "reload: reading the configuration again")
    supervisor.notify.reloading()
    rerun.Rerun(supervisor, ["--print-plan"], lambda code, output: _replanned(supervisor, code, output), command_line)


def _replanned(supervisor: Supervisor, code: int, output: bytes) -> None:
    if supervisor.state.phase not in ("beginning", "serving", WAITING):
        # Who waits is told with the end.
        return
    mark = output.find(b"PLAN\n")
    if code != 0 or mark < 0:
        text = output.decode(errors="replace").strip() or f"reading the configuration ended with status {code}"
        supervisor.carry_out([("reloaded", False, text.removeprefix("forehand: "), code or errors.INTERNAL)])
        return
    import marshal

    settings = marshal.loads(output[mark + 5 :])
    old = supervisor.settings
    for text in lasting.keep(settings, old):
        supervisor.not_reloaded.append(text)
        log.write("warning", f"reload: {text}")
    settings["command_line"] = old["command_line"]
    for line in settings["doubts"]:
        log.write("warning", f"reload: {line}")
    if supervisor.exporter is None or settings["tracing"] is None:
        settings["tracing"] = old["tracing"]
    if supervisor.tls is not None:
        used, text = supervisor.tls.renew(settings)
        if not used:
            supervisor.not_reloaded.append(text)
        settings["tls"] = supervisor.tls.settings["tls"]
        settings["tls_fingerprint"] = supervisor.tls.fingerprint
    else:
        settings["tls"] = None
    _reload_with(supervisor, settings)


def _reload_with(supervisor: Supervisor, settings: dict[str, Any]) -> None:
    # The plan of the generation that the decision is about to begin, or of the one after it.
    coming = supervisor.state.generations + 1
    supervisor.plans[coming] = settings
    supervisor.decide("reload", rules_of(settings))


def reopen(supervisor: Supervisor) -> None:
    """Log files are opened again, after they were moved away (logrotate)."""
    from forehand.supervisor import log_files

    log_files.open_own(supervisor.settings)
    assert supervisor.children is not None
    for child in supervisor.children.all.values():
        child.channel.tell("reopen")
    log.write("info", "log files were opened again")


def carry_out(supervisor: Supervisor, client: Client, order: str) -> None:
    """An order has come over the control socket."""
    word, _, rest = order.partition(" ")
    if word == "status" and rest == "counters":
        from forehand.supervisor.counter_collection import CounterCollection

        CounterCollection(supervisor, client).begin()
    elif word == "status":
        from forehand.supervisor.status import status

        client.tell(ok=True, **status(supervisor))
        supervisor.close_client(client)
    elif word == "reload":
        reload(supervisor, client)
    elif word == "upgrade":
        from forehand.supervisor import upgrade

        upgrade.begin(supervisor, client)
    elif word == "stop":
        client.waits_for_the_end = True
        supervisor.waiting.append(client)
        if rest == "now" or supervisor.state.phase != "serving" or not supervisor.state.rules.delay:
            _say_stop(supervisor, at_once=rest == "now")
        supervisor.decide("quit" if rest == "now" else "drain")
    elif word == "workers":
        _scale(supervisor, client, rest)
    elif word == "stacks":
        from forehand.supervisor.stack_collection import StackCollection

        StackCollection(supervisor, client).begin()
    elif word == "tls":
        _renew_tls(supervisor, client)
    elif word in ("profile", "heap"):
        _pass_on(supervisor, client, word, rest)
    elif word == "statistics":
        _give_statistics(supervisor, client)
    elif word == "reopen":
        reopen(supervisor)
        client.tell(ok=True, text="log files were opened again")
        supervisor.close_client(client)
    else:
        client.tell(ok=False, text=f"'{order}' is not a command of this server")
        supervisor.close_client(client)


def _renew_tls(supervisor: Supervisor, client: Client) -> None:
    """`forehand tls reload`."""
    if supervisor.tls is None:
        client.tell(ok=False, text="no address of this server speaks HTTPS", status=errors.USAGE)
    else:
        used, text = supervisor.tls.renew()
        client.tell(ok=used, text=text, **({} if used else {"status": errors.CONFIG}))
    supervisor.close_client(client)


def _give_statistics(supervisor: Supervisor, client: Client) -> None:
    """Who asks reads by itself, so that a server that is busy is not asked twice."""
    assert supervisor.children is not None
    all_workers = supervisor.children.all.values()
    workers = [{"worker": one.number, "pid": one.pid, "row": one.row} for one in all_workers]
    # What can be written stays here.
    fd = os.open(f"/proc/self/fd/{supervisor.children.statistics.fd}", os.O_RDONLY)
    try:
        client.give(fd, ok=True, workers=workers)
    finally:
        os.close(fd)
    supervisor.close_client(client)


def _pass_on(supervisor: Supervisor, client: Client, word: str, rest: str) -> None:
    """An order for one worker, which answers to the descriptor that came with it: nobody here waits for it."""
    assert supervisor.children is not None
    name, _, text = rest.partition(" ")
    serving = {
        str(one.number): one
        for one in supervisor.children.all.values()
        if one.pid and supervisor.state.workers[one.number].state in (READY, LEAVING)
    }
    child = serving.get(name)
    if not client.given:
        client.tell(
            ok=False, text=f"`forehand {word}` says where the answer goes, and nothing was said", status=errors.USAGE
        )
    elif child is None:
        found = f"those that do are {', '.join(serving)}" if serving else "none does"
        client.tell(ok=False, text=f"there is no worker {name} that serves: {found}", status=errors.USAGE)
    elif not child.channel.tell(word, text, client.given[0]):
        client.tell(ok=False, text=f"worker {name} does not listen", status=errors.INTERNAL)
    else:
        client.tell(ok=True, worker=child.number, pid=child.pid)
    supervisor.close_client(client)


def _scale(supervisor: Supervisor, client: Client, rest: str) -> None:
    now = supervisor.state.rules.wanted
    try:
        count = now + int(number(rest)) if rest[:1] in "+-" else int(number(rest))
    except ValueError:
        text = f"'{rest}' is not a number of workers: give +1, -1 or a number"
        client.tell(ok=False, text=text, status=errors.USAGE)
    else:
        supervisor.decide("wanted", count)
        wanted = supervisor.state.rules.wanted
        # What was asked for is not always what may be.
        bound = " (there is always one: `forehand stop` ends the server)" if count < wanted else ""
        bound = " (there are never more)" if count > wanted else bound
        are = "worker is" if wanted == 1 else "workers are"
        client.tell(ok=True, text=f"{wanted} {are} wanted now{bound}; there {'was' if now == 1 else 'were'} {now}")
    supervisor.close_client(client)
