"""`--reload`: files are watched, and a change brings up new workers.

Knows: watchfiles. Does not know: what a reload is: it sends SIGHUP to the supervisor. A process
of its own, so that the watcher's threads and memory stay out of the supervisor.
"""

from __future__ import annotations

import os

from forehand import errors
from forehand.errors import Problem
from forehand.supervisor import log, title

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from forehand.supervisor.children import Children

ENDINGS = (".py", ".toml", ".ini", ".cfg", ".env", ".html", ".jinja", ".jinja2", ".j2")


def check() -> None:
    """Is what is needed at hand? Raises Problem."""
    # Looked for and not imported: the supervisor stays small.
    import importlib.machinery as machinery

    if machinery.PathFinder.find_spec("watchfiles") is None:
        raise Problem(errors.USAGE, "--reload needs the package watchfiles", hint="install it: pip install watchfiles")


def is_watched(path: str, roots: list[str], plan: dict[str, Any]) -> bool:
    """Whether a change of this file counts. A pattern is compared with the file's name, with its path below one of
    `roots`, and, where it excludes, with the folders on that path."""
    from fnmatch import fnmatch

    below = next((os.path.relpath(path, root) for root in roots if path.startswith(root + os.sep)), path)
    parts = below.split(os.sep)
    places = [os.sep.join(parts[:length]) for length in range(1, len(parts) + 1)]
    for pattern in plan["reload_exclude"]:
        if any(fnmatch(place, pattern) or fnmatch(place.rpartition(os.sep)[2], pattern) for place in places):
            return False
    return path.endswith(ENDINGS) or any(
        fnmatch(below, pattern) or fnmatch(parts[-1], pattern) for pattern in plan["reload_include"]
    )


def start(children: Children, plan: dict[str, Any]) -> int:
    """Start the watcher; its process id."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        children.close_supervisors_fds()
        _watch(children, plan, parent)
    return pid


def _watch(children: Children, plan: dict[str, Any], parent: int) -> NoReturn:
    import signal

    try:
        from forehand import _core

        for name in ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGINT", "SIGUSR1", "SIGUSR2"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        _core.watch_parent(children.parent_pipe[0], 0)
        title.show(plan, "watches files", "forehand-watch")
        from watchfiles import DefaultFilter, watch

        folders = plan["reload_dir"] or [plan["folder"]]
        roots = [os.path.realpath(os.path.join(plan["folder"], folder)) for folder in folders]

        class Sources(DefaultFilter):
            """Sources and configuration, outside of caches and version control, and what is named."""

            def __call__(self, change: Any, path: str) -> bool:
                return is_watched(path, roots, plan) and super().__call__(change, path)

        for changes in watch(*folders, watch_filter=Sources(), raise_interrupt=False):
            names = sorted({os.path.relpath(path, plan["folder"]) for _, path in changes})
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            log.write("info", f"{', '.join(names[:3])}{more} changed: reloading")
            os.kill(parent, signal.SIGHUP)
    except Exception as error:
        log.write("error", f"files are not watched any more: {type(error).__name__}: {error}")
    finally:
        os._exit(0)
