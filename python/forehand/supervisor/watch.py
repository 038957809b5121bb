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
    from collections.abc import Iterator
    from typing import Any, NoReturn

    from forehand.supervisor.children import Children

#: The watcher looks round after so many milliseconds in which nothing has changed: at its first look all folders are
#: watched.
LOOK_MS = 1000
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


def start(children: Children, plan: dict[str, Any], since: float) -> int:
    """Start the watcher; its process id, or 0 where none can be started. `since`: a time before workers began to load
    the application, in seconds since 1970: what has changed after it may not be loaded."""
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        log.write("error", f"files are not watched: no process can be started for it: {error.strerror}")
        return 0
    if pid == 0:
        children.close_supervisors_fds()
        _watch(children, plan, parent, since)
    return pid


def changed_since(folders: list[str], since: float, *, left_out: tuple[str, ...]) -> Iterator[str]:
    """Files below the folders that were written, or put there, after a time. Folders of the names `left_out` are not
    looked into."""
    for folder in folders:
        for place, inner, files in os.walk(folder):
            inner[:] = [name for name in inner if name not in left_out]
            for name in files:
                path = os.path.join(place, name)
                try:
                    # A file that is moved there keeps the time at which it was written.
                    if os.stat(path).st_ctime >= since:
                        yield path
                except OSError:
                    continue  # gone meanwhile


def _watch(children: Children, plan: dict[str, Any], parent: int, since: float) -> NoReturn:
    import signal

    try:
        from forehand import _core

        for name in ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGINT", "SIGUSR1", "SIGUSR2"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        _core.watch_parent(children.parent_pipe[0], 0)
        title.show(plan, "watches files", "forehand-watch")
        from watchfiles import Change, DefaultFilter, watch

        folders = plan["reload_dir"] or [plan["folder"]]
        roots = [os.path.realpath(os.path.join(plan["folder"], folder)) for folder in folders]

        class Sources(DefaultFilter):
            """Sources and configuration, outside of caches and version control, and what is named."""

            def __call__(self, change: Any, path: str) -> bool:
                return is_watched(path, roots, plan) and super().__call__(change, path)

        sources = Sources()
        looks = watch(
            *folders, watch_filter=sources, raise_interrupt=False, rust_timeout=LOOK_MS, yield_on_timeout=True
        )
        unseen = True
        for changes in looks:
            paths = {path for _, path in changes}
            if unseen:
                # What has changed while workers loaded it, before anybody watched.
                found = changed_since(roots, since, left_out=tuple(DefaultFilter.ignore_dirs))
                paths.update(path for path in found if sources(Change.modified, path))
                unseen = False
            if not paths:
                continue
            names = sorted({os.path.relpath(path, plan["folder"]) for path in paths})
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            log.write("info", f"{', '.join(names[:3])}{more} changed: reloading")
            os.kill(parent, signal.SIGHUP)
    except Exception as error:
        log.write("error", f"files are not watched any more: {type(error).__name__}: {error}")
    finally:
        os._exit(0)
