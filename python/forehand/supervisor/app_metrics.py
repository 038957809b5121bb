"""The folder that `prometheus_client` shares between workers, made for an application that says nothing of it.

Knows: the variable that names it, and who may write there. Does not know: what is in it (`server/status/files.rs`).
Runs in the supervisor.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Read by `prometheus_client` when it is imported, so that it is set before any worker begins.
VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


def prepare(settings: dict[str, Any]) -> str:
    """Make the folder; empty where there is to be none. One that the user has named is the user's to sweep."""
    if not settings["status_bind"] or not settings["metrics_app"]:
        return ""
    if VARIABLE in os.environ or VARIABLE in settings["variables"] or not _is_installed():
        return ""
    import tempfile

    from forehand.supervisor import privileges

    # In memory where there is such a place: files are written with each request.
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="forehand-metrics-", dir=place)
    privileges.give(folder, settings["user"], settings["group"])
    os.environ[VARIABLE] = folder
    return folder


def adopt(folder: str) -> str:
    """Go on with that of the program before."""
    return folder if folder and os.environ.get(VARIABLE) == folder else ""


def remove(folder: str) -> None:
    """The server ends."""
    if folder:
        import shutil

        os.environ.pop(VARIABLE, None)
        shutil.rmtree(folder, ignore_errors=True)


def _is_installed() -> bool:
    from importlib.util import find_spec

    return find_spec("prometheus_client") is not None
