"""WSGI under gevent: what is needed for it, and the public name.

Knows: whether gevent is here, and when the standard library is patched: before anything of the
application is imported. Does not know: the engine; `driver.py` joins hub and engine. gevent is
imported in the processes that serve, and in no other.
"""

from __future__ import annotations

from forehand import errors
from forehand.errors import Problem
from forehand.target import is_asgi

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: What is to be done where gevent is missing.
INSTALL = "install it: pip install gevent"


def require(path: list[str]) -> None:
    """Is gevent at hand? Looked for and not imported: a supervisor stays small. Raises Problem."""
    import importlib.machinery as machinery

    if machinery.PathFinder.find_spec("gevent", path) is None:
        raise Problem(errors.USAGE, "--worker-class gevent needs the package gevent", hint=INSTALL)


def patch() -> None:
    """Have what blocks in the standard library let other greenlets run. Raises Problem."""
    try:
        from gevent import monkey
    except ImportError as error:
        message = f"--worker-class gevent: gevent cannot be imported ({error})"
        raise Problem(errors.USAGE, message, hint=INSTALL) from None
    monkey.patch_all()


def require_patched() -> None:
    """A process that imported its application by itself must have patched. Raises Problem."""
    try:
        from gevent import monkey
    except ImportError as error:
        message = f"worker_class gevent: gevent cannot be imported ({error})"
        raise Problem(errors.USAGE, message, hint=INSTALL) from None
    if not monkey.is_module_patched("socket"):
        raise Problem(
            errors.USAGE,
            "worker_class gevent: serve() was called in a process where gevent has patched nothing",
            hint="call gevent.monkey.patch_all() first of all, before the application's modules are imported",
        )


def check(application: Callable[..., Any], name: str, interface: str) -> None:
    """Is it an application that greenlets can serve? Raises Problem."""
    if is_asgi(application, interface):
        raise Problem(
            errors.USAGE,
            f"--worker-class gevent is for WSGI, and '{name}' is an ASGI application",
            hint="leave --worker-class out: an ASGI application has an event loop of its own (--loop)",
        )


def after_fork() -> None:
    """This process is a copy of one that has patched, and may have used its hub already."""
    import gevent

    gevent.reinit()
