"""What the words and files of a contestant's start are filled in with. Pure, but for writing the files.

{place} in a command, @{place} in a file: nginx and Apache use braces and dollars for themselves.
"""

from __future__ import annotations

import os
import shutil
import string
from dataclasses import dataclass
from pathlib import Path

from forehand_lab import HERE
from forehand_lab.contestant import Contestant
from forehand_lab.environments import Environment, program
from forehand_lab.problem import USAGE, Problem, near
from forehand_lab.speaking import certified


@dataclass(frozen=True)
class Setting:
    """What a scenario asks of every server alike."""

    module: str = "pong"
    threads: int = 8
    backlog: int = 2048
    connections: int = 16384
    environ: tuple[tuple[str, str], ...] = ()
    packages: tuple[str, ...] = ()
    attribute: str = "application"
    prepare: str = ""
    # The folder of an application of one's own; empty for those of lab/apps.
    path: str = ""
    # wsgi or asgi; `auto` until an application of one's own was looked at. Those of lab/apps are both.
    interface: str = "auto"
    # Where servers listen. Not a scenario's to say: it follows from where the load comes from.
    address: str = "127.0.0.1"

    @property
    def own(self) -> bool:
        """Whether the application is not the lab's: one's own, or (no module) what a running server serves."""
        return bool(self.path) or not self.module


class AtSign(string.Template):
    """Templates of configuration files: @{place}."""

    delimiter = "@"


def places(
    contestant: Contestant, environment: Environment, setting: Setting, scratch: Path, port: int
) -> dict[str, str]:
    """All places with their values."""
    fronted = bool(contestant.start.front)
    path = str(scratch / "server.sock")
    threads, workers = setting.threads, contestant.start.workers
    root = os.geteuid() == 0
    return {
        "host": setting.address,
        "port": str(port),
        "socket": path,
        "certificate": str(scratch / "cert.pem"),
        "key": str(scratch / "key.pem"),
        "bind": f"unix:{path}" if fronted else f"{setting.address}:{port}",
        "app": f"{setting.module}:{setting.attribute}",
        # An application of lab/apps has a second module for ASGI; one of one's own is what it is.
        "asgi_app": f"{setting.module}{'' if setting.own else '_asgi'}:{setting.attribute}",
        "module": setting.module,
        "attribute": setting.attribute,
        "workers": str(workers),
        "threads": str(threads),
        "all_threads": str(threads * workers),
        "apache_threads": str(25 * workers),
        "backlog": str(setting.backlog),
        "connections": str(setting.connections),
        "python": environment.python,
        "bin": str(environment.bin),
        "environment": str(environment.folder),
        "folder": str(contestant.folder),
        "scratch": str(scratch),
        "apps": setting.path or str(scratch / "apps"),
        "checkout": environment.checkout,
        "sendfile": "on",
        # Apache gives up root's rights, and wants to be told to whom; nginx runs workers as who started it.
        "apache_user": "User www-data\nGroup www-data" if root else "",
        "nginx_user": "user root;" if root else "",
        **contestant.start.values,
    }


def command(contestant: Contestant, filled: dict[str, str]) -> list[str]:
    """The words to start it with; a program of the system by its whole path."""
    words = []
    for word in contestant.start.command:
        try:
            words.append(word.format_map(filled))
        except KeyError as error:
            place = str(error.args[0])
            known = near(place, filled)
            raise Problem(USAGE, f"{contestant.name}: its command has no place {{{place}}}{known}") from None
    return [program(words[0]) or words[0], *words[1:]]


def prepared(contestant: Contestant, filled: dict[str, str], scratch: Path) -> None:
    """Applications, configuration files and, for servers of files, the files: all below the scratch folder."""
    # Apache's workers are another user, who must be able to read and to write a file of hits here.
    scratch.chmod(0o777)
    shutil.copytree(HERE / "apps", scratch / "apps", ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    if contestant.serves.scheme == "https":
        certified(scratch, filled["host"])
    for name in contestant.start.files:
        write(contestant.folder / name, scratch / name, filled)
    entry = f"from {filled['module']} import {filled['attribute']} as application\n"
    (scratch / "entry.wsgi").write_text(entry)
    if contestant.start.front:
        front = f"nginx-{contestant.start.upstream}.conf"
        write(HERE / "fronts" / front, scratch / "front.conf", filled)


def write(source: Path, target: Path, filled: dict[str, str]) -> None:
    """A configuration file with its places filled in."""
    try:
        text = AtSign(source.read_text()).substitute(filled)
    except (KeyError, ValueError) as error:
        raise Problem(USAGE, f"{source}: {error}") from None
    target.write_text(text)
