"""How `forehand profile` and `forehand heap` ask a worker, and wait for its answer.

Knows: the control socket, and a line of the worker's own that goes through it. Does not know: what is asked. A process
of its own.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

from forehand import errors
from forehand.errors import Problem
from forehand.supervisor.channel import send_with

#: A worker that hears says so within so many seconds, ...
PATIENCE = 30.0
#: ... and goes on within so many after it should have ended: longer than anything that it does may take.
AFTERWARDS = 700.0
BAR = 30


class Worker:
    """A worker that was asked, and the line on which it answers."""

    def __init__(self, number: int, pid: int, fd: int) -> None:
        self.number = number
        self.pid = pid
        self.fd = fd
        self.rest = b""

    def lines(self) -> list[str] | None:
        """Lines that have come; None: there will be no more."""
        data = os.read(self.fd, 1 << 16)
        if not data:
            return None
        *lines, self.rest = (self.rest + data).split(b"\n")
        return [line.decode(errors="replace") for line in lines]


def status(path: str) -> dict[str, Any]:
    """What the server says of itself. Raises Problem."""
    return _told(path, "status", -1)


def ask(path: str, word: str, worker: int, text: str) -> Worker:
    """Ask a worker. Raises Problem."""
    reader, writer = os.pipe()
    try:
        told = _told(path, f"{word} {worker} {text}", writer)
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    return Worker(told["worker"], told["pid"], reader)


def unanswered(path: str, error: Exception) -> Problem:
    """What is said where nobody answers at a control socket."""
    status = errors.PERMISSION if isinstance(error, PermissionError) else errors.ADDRESS
    return Problem(
        status,
        f"no server answers at {path}: {getattr(error, 'strerror', None) or error}",
        hint="is it running, and as your user? It prints the path of its control socket when it starts; with "
        "--workers 0 or --control none it has none",
    )


def answer(path: str, line: str | bytes) -> dict[str, Any]:
    """A line of a server's answer. Raises Problem where it is not a control socket's."""
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Problem(
            errors.ADDRESS,
            f"what answers at {path} is no control socket",
            hint="an application's own address? A server prints the path of its control socket when it starts, and "
            "`forehand status` alone finds those of your user",
        )
    return found


def _told(path: str, order: str, given: int) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        try:
            sock.settimeout(PATIENCE)
            sock.connect(path)
            line = order.encode() + b"\n"
            if given < 0:
                sock.sendall(line)
            else:
                send_with(sock.fileno(), line, given)
            with sock.makefile("rb") as file:
                lines = file.readlines()
        except OSError as error:
            raise unanswered(path, error) from None
    told: dict[str, Any] = {"ok": False, "text": "the server ended meanwhile"}
    if lines:
        told = answer(path, lines[-1])
    if not told["ok"]:
        raise Problem(int(told.get("status", errors.APPLICATION)), str(told.get("text", "it was refused")))
    return told


def answers(workers: list[Worker], seconds: float, what: str) -> Iterator[tuple[Worker, str]]:
    """What they say, line for line, until all have said it. A bar on the terminal shows how far it is. Raises Problem
    where one is not heard of any more."""
    begun = time.monotonic()
    silent = {worker.number for worker in workers}
    with selectors.DefaultSelector() as selector:
        for worker in workers:
            selector.register(worker.fd, selectors.EVENT_READ, worker)
        while selector.get_map():
            _bar((time.monotonic() - begun) / max(seconds, 0.1), what)
            for key, _ in selector.select(0.1):
                silent.discard(key.data.number)
                lines = key.data.lines()
                if lines is None:
                    selector.unregister(key.fd)
                    os.close(key.fd)
                for line in lines or ():
                    yield key.data, line
            waited = time.monotonic() - begun
            if silent and waited > PATIENCE or waited > seconds + AFTERWARDS:
                named = ", ".join(map(str, sorted(silent or {key.data.number for key in selector.get_map().values()})))
                hint = "a worker whose event loop or interpreter is stuck hears no order: `forehand stacks` shows where"
                raise Problem(errors.INTERNAL, f"nothing was heard of worker {named}", hint=hint)
    _bar(None, what)


def _bar(share: float | None, what: str) -> None:
    if not sys.stderr.isatty():
        return
    if share is None:
        sys.stderr.write("\r\x1b[K")
    else:
        done = min(BAR, int(share * BAR))
        sys.stderr.write(f"\r{what} [{'#' * done}{' ' * (BAR - done)}] {min(100, int(share * 100)):3d} % ")
    sys.stderr.flush()


def serving(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of those workers that serve. Raises Problem where none does."""
    rows = [row for row in found["workers"] if row["state"] in ("ready", "leaving") and row["pid"]]
    if not rows:
        raise Problem(errors.APPLICATION, "no worker of this server serves now", hint="`forehand status` shows them")
    return rows
