"""Folders of which the application may name files in place of a body: how `--sendfile` is written down.

Knows: `NAME=FOLDER`. Does not know: headers or files (`crates/server/src/sendfile.rs` does).
"""

from __future__ import annotations

import os
import re

from forehand import errors
from forehand.errors import Problem

#: What X-Accel-Redirect calls a folder.
NAME = re.compile(r"(/[A-Za-z0-9._~-]+)+")
EXAMPLE = "such as /protected=/srv/shop/media"


def parse(text: str) -> tuple[str, str]:
    """(name, folder), the name with its slash. ValueError says what is wrong."""
    name, equals, folder = text.partition("=")
    name = "/" + name.strip("/")
    if not equals or not folder:
        raise ValueError(f"'{text}' is not NAME=FOLDER, {EXAMPLE}")
    if not NAME.fullmatch(name) or any(part in (".", "..") for part in name.split("/")):
        raise ValueError(f"'{text}': a name has letters, digits, slashes and -._~, {EXAMPLE}")
    return name, folder


def check(values: list[str]) -> None:
    """All folders together. ValueError says what is wrong."""
    taken: dict[str, str] = {}
    for text in values:
        name, _ = parse(text)
        if name in taken:
            raise ValueError(f"'{taken[name]}' and '{text}' have the same name: a name has one folder")
        taken[name] = text


def for_engine(values: list[str]) -> list[tuple[str, str]]:
    """Names and whole paths of folders, which are there. Raises Problem."""
    folders = [(name, os.path.abspath(folder)) for name, folder in map(parse, values)]
    for name, folder in folders:
        if not os.path.isdir(folder):
            what = "is no folder" if os.path.exists(folder) else "is not there"
            raise Problem(
                errors.CONFIG,
                f"--sendfile {name}: {folder} {what}",
                hint="name the folder whose files the application names in X-Sendfile or X-Accel-Redirect",
            )
    return folders
