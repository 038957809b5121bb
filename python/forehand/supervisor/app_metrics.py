"""The folder that `prometheus_client` shares between workers, made for an application that says nothing of it.

Knows: the variable that names it, who may write there, and that `prometheus_client` reads it only once. Does not know:
what is in it (`server/status/files.rs`). Runs in the supervisor, and for a moment in a worker before it imports.
"""

from __future__ import annotations

import os
import sys

from forehand.supervisor import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Read by `prometheus_client` when it is imported, so that it is set before any worker begins.
VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
#: What folders are called that a server holds while it lives: what nobody holds was left by one that was killed.
PREFIX = "forehand-metrics-held-"
#: Those that this process holds, by their paths.
_held: dict[str, int] = {}
#: So many metrics a warning names.
NAMED = 5


def prepare(settings: dict[str, Any]) -> str:
    """Make the folder; empty where there is to be none. One that the user has named is the user's to sweep."""
    if not settings["status_bind"] or not settings["metrics_app"]:
        return ""
    # By its old name, too, which is heeded where the new one is not set.
    if any(name in os.environ or name in settings["variables"] for name in (VARIABLE, VARIABLE.lower())):
        return ""
    if not _is_installed():
        return ""
    from forehand.supervisor import privileges

    # In memory where there is such a place: files are written with each request.
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = _make(place)
    privileges.give(folder, settings["user"], settings["group"])
    os.environ[VARIABLE] = folder
    early = _made_before()
    if early:
        more = f" and {len(early) - NAMED} more" if len(early) > NAMED else ""
        log.write(
            "warning",
            f"/metrics does not have {', '.join(early[:NAMED])}{more}: made with prometheus_client before "
            "forehand.serve() was called, they are counted in each process for itself. Make them in modules that only "
            "the application imports",
        )
    return folder


def choose_anew() -> None:
    """Have `prometheus_client` share what is counted, where a script has imported it before `forehand.serve()`: it
    looks for the folder when it is imported. In a worker, before the application is."""
    values: Any = sys.modules.get("prometheus_client.values")
    # Who shares already has files open, which a second class would open again.
    if values is not None and VARIABLE in os.environ and not getattr(values.ValueClass, "_multiprocess", True):
        values.ValueClass = values.get_value_class()


def _made_before() -> list[str]:
    """Names of metrics that this process has made already, which stay what they are."""
    registry, metrics = (sys.modules.get(f"prometheus_client.{name}") for name in ("registry", "metrics"))
    if registry is None or metrics is None:
        return []
    made = list(getattr(registry.REGISTRY, "_collector_to_names", ()))
    # What is registered by itself (`process_…`, `python_…`) and collectors of one's own are in no scrape of ours.
    return sorted(one.describe()[0].name for one in made if isinstance(one, metrics.MetricWrapperBase))


def adopt(folder: str) -> str:
    """Go on with that of the program before."""
    if not folder or os.environ.get(VARIABLE) != folder:
        return ""
    # Workers have held it meanwhile.
    _hold(folder)
    return folder


def remove(folder: str) -> None:
    """The server ends."""
    if folder:
        import shutil

        os.environ.pop(VARIABLE, None)
        shutil.rmtree(folder, ignore_errors=True)
        fd = _held.pop(folder, -1)
        if fd >= 0:
            os.close(fd)


def _make(place: str | None) -> str:
    """A folder that is held; those that killed servers have left go, as nobody else would ever remove them: where they
    are in memory that is lost."""
    import tempfile

    place = place or tempfile.gettempdir()
    try:
        names = os.listdir(place)
    except OSError:
        # One can write there, and see nothing of others.
        names = []
    for name in names:
        if name.startswith(PREFIX):
            _sweep(os.path.join(place, name))
    while True:
        folder = tempfile.mkdtemp(prefix=PREFIX, dir=place)
        # Another server that starts now may have swept it before it was held.
        if _hold(folder):
            return folder


def _hold(folder: str) -> bool:
    """Hold it as long as this process lives, or one that was forked from it. False: it is not there any more."""
    import fcntl

    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
    except OSError:
        pass  # where nothing can be held nothing is swept either
    if os.fstat(fd).st_nlink == 0:
        os.close(fd)
        return False
    _held[folder] = fd
    return True


def _sweep(folder: str) -> None:
    """Remove it, if nobody holds it and it is ours to remove."""
    import fcntl
    import shutil

    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        pass  # it is held
    finally:
        os.close(fd)


def _is_installed() -> bool:
    from importlib.util import find_spec

    return find_spec("prometheus_client") is not None
