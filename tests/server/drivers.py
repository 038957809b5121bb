"""The ways in which a worker is driven: each with an application that takes bodies."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

# In the first the engine receives bodies, in the others the application does, as they come.
DRIVERS = {
    "threads": ("uploads:application", "--interface", "wsgi"),
    "threads without buffering": ("uploads:application", "--interface", "wsgi", "--no-request-buffering"),
    "asyncio": ("uploads:app", "--interface", "asgi"),
}
if importlib.util.find_spec("gevent"):
    DRIVERS["gevent"] = ("uploads:application", "--interface", "wsgi", "--worker-class", "gevent")


def driving(module: str, wsgi: str = "application", *, unbuffered: bool = True) -> list[Any]:
    """The same with applications of another module, as parameters of tests: ASGI's is called `app` there."""
    return [
        pytest.param((f"{module}:{'app' if name == 'asyncio' else wsgi}", *options[1:]), id=name)
        for name, options in DRIVERS.items()
        if unbuffered or "without" not in name
    ]


def open_files(pid: int) -> list[str]:
    """What the descriptors of a process stand for."""
    names = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            names.append(os.readlink(entry))
        except OSError:
            continue  # closed meanwhile
    return names


def connections(pid: int) -> int:
    """How many sockets a process has, its listeners among them."""
    return sum(name.startswith("socket:") for name in open_files(pid))


def spool_files(pid: int) -> int:
    """How many temporary files without a name a process has: what it logs to may be one."""
    return sum(name.endswith("(deleted)") for name in open_files(pid))
