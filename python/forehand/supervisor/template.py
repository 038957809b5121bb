"""`--preload`: the template process imports the application once, and workers are copies of it.

Knows: importing, forking, the collector. Does not know: when a worker is wanted. The import
runs here and not in the supervisor, so that the supervisor stays small, can be told to give
up while an import hangs, and takes a new template for each reload.

A worker is forked twice, so that it is nobody's child but the supervisor's, which the system
has asked to take orphans (prctl PR_SET_CHILD_SUBREAPER): the template may go, and its workers stay.

Memory is shared until it is written. `gc.freeze` keeps the collector from touching what was
there before the fork.
"""

from __future__ import annotations

import _socket as socket
import gc
import os
import posix
import sys

from forehand import errors, forked
from forehand.errors import Problem
from forehand.supervisor import channel, worker, worker_process
from forehand.supervisor.channel import Channel
from forehand.supervisor.worker_process import Inherited

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn

    from forehand.supervisor.children import Child, Children


#: How much of each size is filled, in bytes. Ten Django workers: 135 MiB with none, 129 with 16 KiB, 127 with 32
#: and 64, 129 with 128, because what fills them takes room, too.
HOLES = 32 * 1024
#: What fills them, for as long as there are workers.
_FILLING: list[bytes] = []


class TemplateProcess:
    """The supervisor's view of one."""

    def __init__(self, children: Children, generation: int, plan: dict[str, Any]) -> None:
        ours, theirs = channel.pair()
        self.generation = generation
        self.loaded = False
        try:
            self.pid = os.fork()
        except OSError:
            os.close(ours)
            os.close(theirs)
            raise
        if self.pid == 0:
            children.close_supervisors_fds()
            os.close(ours)
            _run(children, theirs, plan)
        os.close(theirs)
        self.channel = Channel(ours)

    def fork(self, children: Children, number: int) -> Child:
        """Have a worker made. Raises OSError where this process is gone."""
        child, theirs = children.make(number, self.generation)
        try:
            self._ask(child, theirs)
        except OSError:
            children.drop(child)
            raise
        finally:
            os.close(theirs)
        return child

    def _ask(self, child: Child, line: int) -> None:
        """`line` and the file for stacks go with the request."""
        import array

        order = f"{child.number} {child.generation} {child.row}".encode()
        fds = array.array("i", [line, child.stacks]).tobytes()
        with _borrowed(self.channel.fd) as sock:
            sock.sendmsg([order], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])

    def close(self) -> None:
        """Let it end: it does when its line is closed."""
        self.channel.close()


class _borrowed:
    """A socket object over a descriptor that stays somebody else's."""

    def __init__(self, fd: int) -> None:
        self.sock = socket.socket(fileno=fd)

    def __enter__(self) -> socket.socket:
        return self.sock

    def __exit__(self, *_: object) -> None:
        self.sock.detach()


def _run(children: Children, line: int, plan: dict[str, Any]) -> NoReturn:
    status = errors.INTERNAL
    told = Channel(line)
    try:
        worker_process.Signals()
        from forehand import _core

        _core.watch_parent(children.parent_pipe[0], 0)
        application = _load(plan, told)
        forked.forget()
        status = _serve(children, told, plan, application)
    except Problem as problem:
        told.tell("fail", f"{problem.status} {problem.text()}")
        status = problem.status
    except BaseException as error:
        import traceback

        told.tell("fail", f"{errors.INTERNAL} {''.join(traceback.format_exception(error))}")
    finally:
        forked.flush()
        os._exit(status)


def _load(plan: dict[str, Any], told: Channel) -> Callable[..., Any]:
    """Import, and make what was imported good to share. Raises Problem."""
    from forehand.supervisor import fork_safety, privileges

    privileges.drop(plan["user"], plan["group"])
    worker.set_up_environment(plan)
    if plan["worker_class"] == "gevent":
        from forehand import greenlets

        greenlets.patch()
    # Collections while importing leave holes that later objects fill, which unshares pages.
    gc.disable()
    application = worker.load(plan)
    # What an application only imports at its first request is shared, too, if the readiness
    # call makes that request here.
    worker.prove(plan, application)
    gc.collect()
    _FILLING.extend(_filling())
    gc.freeze()
    gc.enable()
    for warning in fork_safety.warnings():
        told.tell("warn", warning)
    told.tell("loaded")
    return application


def _filling() -> Iterator[bytes]:
    """Objects for the holes that the import has left among others: what a worker makes then goes to
    pages of its own and unshares no others. The sizes are those of CPython's pools (`obmalloc.c`)."""
    head = sys.getsizeof(b"")
    for size in range(48, 513, 16):
        for _ in range(HOLES // size):
            yield bytes(size - head)


def _serve(children: Children, told: Channel, plan: dict[str, Any], application: Callable[..., Any]) -> int:
    while True:
        with _borrowed(told.fd) as sock:
            order, ancillary, _, _ = sock.recvmsg(256, socket.CMSG_SPACE(2 * 4))
        if not order:
            return errors.OK
        fds = [int.from_bytes(data[at : at + 4], sys.byteorder) for _, _, data in ancillary for at in (0, 4)]
        number, generation, row = (int(word) for word in order.split())
        # Not through `os`, where gevent would have this process's hub wait for the child.
        try:
            pid = posix.fork()
        except OSError as error:
            # Its line is closed below, by which the supervisor knows that it never began.
            told.tell("warn", f"worker {number}: no process can be started: {error.strerror}")
        else:
            if pid == 0:
                _make(children, told, plan, application, (number, generation, row), (fds[0], fds[1]))
            posix.waitpid(pid, 0)
        for fd in fds:
            os.close(fd)


def _make(
    children: Children, told: Channel, plan: dict[str, Any], application: Callable[..., Any],
    order: tuple[int, int, int], fds: tuple[int, int],
) -> NoReturn:  # fmt: skip
    """In the child of the template: leave the worker behind, as the supervisor's own."""
    try:
        pid = posix.fork()
    except OSError as error:
        told.tell("warn", f"worker {order[0]}: no process can be started: {error.strerror}")
        os._exit(errors.INTERNAL)
    if pid != 0:
        os._exit(0)
    told.close()
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None:
        # Its children are the template's: a worker that ends must not end them.
        processes._children = set()  # type: ignore[attr-defined]
    line, stacks = fds
    Channel(line).tell("pid", str(os.getpid()))
    lent = [listener.lent() for listener in children.listeners]
    own = (line, children.parent_pipe[0], stacks, children.tls_fd, children.statistics.fd, children.spans_fd)
    inherited = Inherited(order[0], order[1], own, children.scoreboard.place(order[2]), lent)
    worker.run(inherited, plan, application)
