"""What is shown when a server begins to serve, and what whoever waits for that is told.

Knows: words. Does not know: how workers are made. Runs in the supervisor.
"""

from __future__ import annotations

import os
import sys

from forehand import __version__, lines
from forehand.supervisor import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forehand.listen import Listener
    from forehand.supervisor.children import Children


def tell(settings: dict[str, Any], kept: Children, workers: int, control: str, status: list[str]) -> None:
    """Tell people, and whoever waits at `ready_fd`, that requests are answered. `control`: the control socket's
    path; `status`: where the status endpoint is."""
    if not settings["quiet"]:
        log.write("plain", "\n".join(_lines(settings, kept.listeners, workers, (control, status))))
    if settings.get("ready_fd") is not None:
        _ready(settings["ready_fd"], kept, control)
        settings["ready_fd"] = None


def _lines(
    settings: dict[str, Any], listeners: list[Listener], workers: int, asked_at: tuple[str, list[str]]
) -> list[str]:
    control, status = asked_at
    bold, end = ("\033[1m", "\033[0m") if log.form == lines.COLOUR else ("", "")
    python = ".".join(map(str, sys.version_info[:3]))
    # An event loop is one thread, and so is a hub.
    threads = "" if settings["interface_name"] != "WSGI" else f", up to {settings['threads']} threads"
    preloaded = ", preloaded" if settings["preload"] else ""
    reloads = ", reloads when files change" if settings["reload"] else ""
    return [
        f"{bold}Forehand {__version__}{end}  {bold}{'  '.join(one.url for one in listeners)}{end}",
        f"  application  {settings['target']} ({settings['interface_name']})",
        f"  Python       {python}{threads}",
        f"  workers      {workers}{preloaded}, supervised by process {os.getpid()}{reloads}",
        *([f"  control      {control}"] if control else []),
        *lines.certificate(settings.get("tls_fingerprint", "")).splitlines(),
        *([f"  status       {'  '.join(status)}"] if status else []),
        "  Ctrl-C stops",
    ]


def _ready(fd: int, kept: Children, control: str) -> None:
    """One line of JSON, for a test or a service manager."""
    urls = ", ".join('"' + one.url.replace("\\", "\\\\").replace('"', '\\"') + '"' for one in kept.listeners)
    pids = ", ".join(str(child.pid) for child in kept.all.values())
    shown = control.replace("\\", "\\\\").replace('"', '\\"')
    text = f'{{"pid": {os.getpid()}, "listeners": [{urls}], "workers": [{pids}], "control": "{shown}"}}\n'
    # What is no UTF-8 is escaped as JSON does it.
    os.write(fd, text.encode(errors="backslashreplace"))
    os.close(fd)
    kept.private.discard(fd)
