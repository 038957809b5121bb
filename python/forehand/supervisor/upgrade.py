"""SIGUSR2, `forehand upgrade`: the program itself is replaced, with its sockets open.

Knows: what has to survive exec(3). Does not know: what the new program does with it. The
process stays the same one, so that service managers, containers and pid files see nothing: the
new program first tries its whole start in a process of its own (`--check`); then this process
becomes the new program, which adopts listeners and workers, brings up a generation of its own,
and only then lets the old workers go. Where its generation does not come up, the old workers
go on serving.
"""

from __future__ import annotations

import os
import sys
import time

from forehand.listen import Listener
from forehand.supervisor import app_metrics, log, rerun, signals
from forehand.supervisor.children import Child, Children
from forehand.supervisor.control import Client, Control
from forehand.supervisor.scoreboard import Scoreboard
from forehand.supervisor.state import LEAVING, NEVER, READY, Worker
from forehand.supervisor.statistics import Statistics

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forehand.supervisor.supervisor import Supervisor

#: What one program leaves for the next has this form.
FORM = 2


def begin(supervisor: Supervisor, client: Client | None) -> None:
    """Check the new program; what follows is `_checked`."""
    command_line = supervisor.settings.get("command_line")
    if client is not None:
        supervisor.waiting.append(client)
    if command_line is None:
        supervisor.carry_out([("reloaded", False, "a server that was started from Python cannot be upgraded")])
        return
    if supervisor.state.phase != "serving" or supervisor.state.coming is not None:
        supervisor.carry_out([("reloaded", False, "a start, stop or reload is under way; try again")])
        return
    log.write("info", "upgrade: checking the new program")
    rerun.Rerun(supervisor, ["--check"], lambda code, output: _checked(supervisor, code, output), command_line)


def _checked(supervisor: Supervisor, code: int, output: bytes) -> None:
    if code != 0:
        text = output.decode(errors="replace").strip() or f"the new program's check ended with status {code}"
        supervisor.carry_out([("reloaded", False, text)])
        return
    if supervisor.state.phase != "serving" or supervisor.state.coming is not None:
        supervisor.carry_out([("reloaded", False, "a stop or reload came first; try again")])
        return
    _become(supervisor)


def _become(supervisor: Supervisor) -> None:
    """Leave everything where the new program finds it, and become it."""
    import json

    kept = supervisor.children
    assert kept is not None and supervisor.signals is not None
    for template in supervisor.templates.values():
        template.close()
    if supervisor.watcher:
        os.kill(supervisor.watcher, 9)
    if supervisor.panel is not None and supervisor.panel.pid:
        os.kill(supervisor.panel.pid, 9)
    if supervisor.exporter is not None:
        supervisor.exporter.dismiss()
    state = _left(supervisor, kept)
    fds = [
        *kept.parent_pipe,
        *kept.scoreboard.fds,
        *kept.scoreboard.apart,
        kept.statistics.fd,
        *(one["fd"] for one in state["listeners"] + state["panel"]),
    ]
    fds += [fd for one in state["workers"] for fd in (one["line"], one["stacks"])]
    fds += [fd for fd in (state["control"], *state["clients"]) if fd >= 0]
    fds += [state["tls"]["fd"]] if state["tls"] else []
    fds += [kept.spans_fd] if kept.spans_fd >= 0 else []
    note = os.memfd_create("forehand-upgrade")
    os.write(note, json.dumps(state).encode())
    for fd in [*fds, note]:
        os.set_inheritable(fd, True)
    signals.hold()
    command_line = supervisor.settings["command_line"]
    for name in supervisor.settings["file_variables"]:
        os.environ.pop(name, None)  # the file is read again
    os.environ.update(supervisor.notify.variables())
    os.chdir(command_line["folder"])
    log.write("info", "upgrade: the new program takes over")
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "forehand", *command_line["arguments"], "--adopt", str(note)])


def _left(supervisor: Supervisor, kept: Children) -> dict[str, Any]:
    workers = []
    for number, worker in supervisor.state.workers.items():
        child = kept.all.get(number)
        if child is not None and child.pid and worker.state in (READY, LEAVING):
            workers.append(
                {"number": number, "pid": child.pid, "line": child.channel.fd, "stacks": child.stacks,
                 "row": child.row, "generation": worker.generation, "state": worker.state}
            )  # fmt: skip
    return {
        "form": FORM, "life": list(kept.parent_pipe), "scoreboard": kept.scoreboard.fds,
        "apart": kept.scoreboard.apart,
        "statistics": kept.statistics.fd, "counted": kept.statistics.told(), "workers": workers,
        "metrics": kept.statistics.metrics,
        "spans": kept.spans_fd,
        "panel": [
            {"fd": one.socket.fileno(), "url": one.url, "path": one.path}
            for one in (supervisor.panel.listeners if supervisor.panel else [])
        ],
        "listeners": [
            {"fd": one.socket.fileno(), "url": one.url, "path": one.path, "kind": one.kind} for one in kept.listeners
        ],
        "control": supervisor.control.fileno() if supervisor.control else -1,
        "control_path": supervisor.control.path if supervisor.control else "",
        "clients": [client.fd for client in supervisor.waiting],
        "born": supervisor.state.born, "generations": supervisor.state.generations,
        "generation": supervisor.state.generation, "started": supervisor.started,
        "tls": supervisor.tls.left() if supervisor.tls is not None else None,
    }  # fmt: skip


def panel_listeners(left: dict[str, Any]) -> list[Listener]:
    """Where the program before has answered `--status-bind`."""
    import _socket as socket

    found = [Listener(socket.socket(fileno=one["fd"]), one["url"], one["path"]) for one in left.get("panel", [])]
    for one in found:
        os.set_inheritable(one.socket.fileno(), False)
    return found


def read(fd: int) -> dict[str, Any]:
    """What the program before has left."""
    import json

    left: dict[str, Any] = json.loads(os.pread(fd, 1 << 20, 0))
    os.close(fd)
    return left


def adopt(supervisor: Supervisor, left: dict[str, Any]) -> None:
    """In the new program: take everything over, then what follows is a reload."""
    import _socket as socket

    now = time.monotonic()
    listeners = [
        # Programs from before listeners had kinds knew one.
        Listener(socket.socket(fileno=one["fd"]), one["url"], one["path"], one.get("kind", "http"))
        for one in left["listeners"]
    ]
    # Programs from before it had its name called it a board.
    scoreboard = left["scoreboard"] if "scoreboard" in left else left["board"]
    # Programs from before statistics were shared have none.
    statistics = Statistics(left.get("statistics", -1), left.get("counted", ""))
    statistics.metrics = app_metrics.adopt(left.get("metrics", ""))
    # Programs from before requests that compute had a way of their own have none.
    page = Scoreboard(*scoreboard, apart=tuple(left.get("apart", ())))
    kept = Children(listeners, page, statistics, (left["life"][0], left["life"][1]))
    state = supervisor.state
    state.phase = "serving"
    state.born, state.generation, state.generations = left["born"], left["generation"], left["generations"]
    state.rules.wanted = max(1, state.rules.wanted)
    supervisor.started = left["started"]
    supervisor.banner_due = False
    if left["control"] >= 0:
        supervisor.control = Control(left["control_path"], left["control"])
    for_tls = left.get("tls")
    if supervisor.settings["tls"] is not None:
        from forehand.supervisor import tls

        tls.begin(supervisor, for_tls)
    supervisor.hold(kept, listeners)
    for fd in left["clients"]:
        client = Client(fd)
        supervisor.waiting.append(client)
        if supervisor.control is not None:
            supervisor.control.clients[fd] = client
    for one in left["workers"]:
        _adopt_worker(supervisor, kept, one, now)
    for fd in [
        *left["life"],
        *([for_tls["fd"]] if for_tls else []),
        *scoreboard,
        *page.apart,
        statistics.fd,
        *([left["spans"]] if left.get("spans", -1) >= 0 else []),
        *(one["fd"] for one in left["listeners"]),
    ]:
        os.set_inheritable(fd, False)
    supervisor.plans = {left["generations"] + 1: supervisor.settings, left["generation"]: supervisor.settings}


def _adopt_worker(supervisor: Supervisor, kept: Children, one: dict[str, Any], now: float) -> None:
    child = Child(one["number"], one["generation"], one["line"], one["row"], one["stacks"])
    child.pid = one["pid"]
    for fd in (one["line"], one["stacks"]):
        os.set_inheritable(fd, False)
    kept.scoreboard.taken.add(one["row"])
    kept.all[child.number] = child
    deadline = NEVER if one["state"] == READY else now + supervisor.state.rules.graceful
    worker = Worker(child.number, child.generation, now, deadline)
    worker.state = one["state"]
    worker.ready_at = now
    supervisor.state.workers[child.number] = worker
    supervisor.add_reader(child.channel.fd, lambda: supervisor.on_child(child))
