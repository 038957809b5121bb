"""Folders and files that another server served beside its application, as values of `static`.

Knows: how such a value is written, and what is otherwise with files here whoever served them before. Does not know:
other servers' options (`uwsgi_static.py` and the servers' own files).
Nothing is written that would serve more than was served: where it might, a remark has the line to be added by hand.
"""

from __future__ import annotations

import os

from forehand import static_files
from forehand.migrate.outcome import Outcome

OTHERWISE = (
    "names that begin with a dot and links that leave the folder are not served, and Cache-Control says max-age=60 "
    "unless the mount or the name says otherwise (docs/static-files.md)"
)
BY_HAND = "to serve them all the same: static = [{}]"


def mount(path: str, folder: str, *more: str) -> str:
    """A value of `static`: the path, the folder or file, and what else is said. ValueError: it cannot be written."""
    if not path.startswith("/"):
        raise ValueError(f"{path!r} does not begin with a slash")
    if any(";" in part for part in (folder, *more)):
        raise ValueError(f"{path}={folder} has a semicolon, which ends a value of the option")
    made = ";".join([f"/{path.strip('/')}={folder.rstrip('/') or '/'}", *more])
    static_files.parse(made)
    return made


def is_one_file(path: str, target: str) -> bool:
    """Whether a path is mapped to a file and not to a folder, as far as can be seen from here."""
    named = os.path.basename(target)
    return os.path.isfile(target) or ("." in named and named == os.path.basename(path))


def put(outcome: Outcome, origin: str, value: object, text: str) -> bool:
    """Take a mount; there is one for each path, and the first is kept. False: it was not taken."""
    path = text.partition("=")[0]
    for taken in outcome.settings.get("static", []):
        if taken.partition("=")[0] == path:
            outcome.unsupported(origin, value, f"{path} has one folder or file: {taken}")
            return False
    outcome.put("static", text if "$" in text else [text], origin)
    return outcome.took("static", origin) or "$" in text


def tell(outcome: Outcome, origin: str) -> None:
    """Say once what is otherwise here, for the option that most of the mounts came from."""
    outcome.differs(origin, "", OTHERWISE)
