"""Folders and files that the server sends itself: how they are written down, and what the engine is told of them.

Knows: the words of `--static` and of its tables in TOML. Does not know: files (`crates/server/src/files` does).
"""

from __future__ import annotations

import os
import re

from forehand import errors
from forehand.digits import is_whole
from forehand.errors import Problem, near

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: What may follow the folder, each with or without a value.
WORDS = {"index": True, "fallback": True, "try": False, "max-age": True, "immutable": True, "header": True}
#: The same in tables.
KEYS = {"folder", "index", "fallback", "try", "max_age", "immutable", "header", "headers"}
#: Headers that follow from the file and the request.
OURS = (
    "accept-ranges", "connection", "content-encoding", "content-length", "content-range", "date", "etag", "keep-alive",
    "last-modified", "location", "te", "trailer", "transfer-encoding", "upgrade",
)  # fmt: skip
#: What a path of a URL has that needs no escape.
PATH = re.compile(r"(/[A-Za-z0-9._~!$&'()*+@:-]+)*/?")
EXAMPLE = "such as /static=assets;max-age=3600"


def split(text: str) -> list[str]:
    """Mounts with commas between them: each begins with a path and a folder, so that a comma in a header is none."""
    return [part.strip() for part in re.split(r",(?=\s*/[^;,=]*=)", text) if part.strip()]


def parse(text: str) -> dict[str, Any]:
    """One mount, as the engine reads it. ValueError says what is wrong with it."""
    # A semicolon with a blank behind it belongs to the value of a header.
    first, *others = re.split(r";(?! )", text)
    path, equals, folder = first.partition("=")
    if not equals or not folder:
        raise ValueError(f"'{first}' is not PATH=FOLDER or PATH=FILE, {EXAMPLE}")
    if not path.startswith("/") or not PATH.fullmatch(path) or any(part in (".", "..") for part in path.split("/")):
        raise ValueError(f"'{path}' is no path of a URL that begins with a slash, {EXAMPLE}")
    mount: dict[str, Any] = {
        "prefix": path.rstrip("/"), "folder": folder, "file": None, "index": None, "fallback": None, "try": False,
        "max_age": 60, "immutable": [], "names": [], "headers": [],
    }  # fmt: skip
    for word in others:
        name, equals, value = word.partition("=")
        if name not in WORDS:
            raise ValueError(f"'{word}' is none of {', '.join(WORDS)}{near(name, list(WORDS))}")
        if WORDS[name] != bool(equals) or (equals and not value):
            raise ValueError(f"'{word}': {name} {'needs' if WORDS[name] else 'has no'} value")
        _put(mount, name, value)
    if mount["try"] and mount["fallback"]:
        raise ValueError(f"{path}: try and fallback both say what a missing file is answered with: name one of them")
    return mount


def _put(mount: dict[str, Any], name: str, value: str) -> None:
    """One word behind the folder."""
    if name == "try":
        mount["try"] = True
    elif name == "max-age":
        if not is_whole(value) or int(value) > 1 << 31:
            raise ValueError(f"max-age={value}: that is no number of seconds up to {1 << 31}")
        mount["max_age"] = int(value)
    elif name == "immutable":
        mount["immutable"].append(value.lstrip("/"))
    elif name == "header":
        field, colon, content = value.partition(":")
        if not colon or not field or field != field.strip() or field.lower() in OURS:
            why = "follows from the file and the request" if field.lower() in OURS else "is not 'Name: value'"
            raise ValueError(f"header={value}: that {why}")
        mount["headers"].append((field, content.strip()))
    else:
        if value.startswith("/") or any(part in ("", ".", "..") for part in value.split("/")):
            raise ValueError(f"{name}={value}: that is no file's path below the folder, such as index.html")
        mount[name] = value


def check(values: list[str]) -> None:
    """All mounts together. ValueError says what is wrong."""
    taken: dict[str, str] = {}
    for text in values:
        prefix = parse(text)["prefix"]
        if prefix in taken:
            raise ValueError(f"'{taken[prefix]}' and '{text}' are for the same path: a path has one folder or file")
        taken[prefix] = text


def from_tables(value: Any) -> list[Any]:
    """What TOML has: a list of texts, or of tables with `path`; or one table by path. Texts as on the command line."""
    if isinstance(value, str):
        return split(value)
    if isinstance(value, dict):
        return [_text(path, table) for path, table in value.items()]
    if not isinstance(value, list):
        raise ValueError(f"{value!r} is no list of folders, {EXAMPLE}")
    return [_text(str(entry.get("path", "")), {**entry, "path": None}) if isinstance(entry, dict) else entry
            for entry in value]  # fmt: skip


def _text(path: str, table: Any) -> str:
    if isinstance(table, str):
        return f"{path}={table}"
    if not isinstance(table, dict):
        raise ValueError(f"{path}: {table!r} is neither a folder nor a table")
    table = {key.replace("-", "_"): value for key, value in table.items() if value is not None}
    for key in table:
        if key not in KEYS:
            raise ValueError(f"{path}: '{key}' is none of {', '.join(sorted(KEYS))}{near(key, sorted(KEYS))}")
    words = [f"{path}={table.get('folder', '')}"]
    for key in ("index", "fallback", "max_age"):
        if key in table:
            words.append(f"{key.replace('_', '-')}={table[key]}")
    if table.get("try"):
        words.append("try")
    immutable = table.get("immutable", [])
    words += [f"immutable={pattern}" for pattern in ([immutable] if isinstance(immutable, str) else immutable)]
    header = table.get("header", [])
    words += [f"header={line}" for line in ([header] if isinstance(header, str) else header)]
    words += [f"header={name}: {line}" for name, line in table.get("headers", {}).items()]
    for word in words:
        if re.search(r";(?! )", word):
            raise ValueError(f"{path}: {word!r} has a semicolon without a blank behind it")
    return ";".join(words)


def for_engine(values: list[str]) -> list[dict[str, Any]]:
    """The mounts with whole paths of folders, which are there; `file`: the one of it that is served. Raises Problem."""
    mounts = [parse(text) for text in values]
    for mount in mounts:
        path = mount["folder"] = os.path.abspath(mount["folder"])
        if os.path.isfile(path):
            mount["folder"], mount["file"] = os.path.split(path)
            why = _why_no_file(mount, path)
        elif os.path.isdir(path):
            continue
        else:
            what = "is neither a folder nor a file" if os.path.exists(path) else "is not there"
            why = what, "name the folder that holds the files; a relative one is looked for where the server starts"
        if why:
            raise Problem(errors.CONFIG, f"--static {mount['prefix'] or '/'}: {path} {why[0]}", hint=why[1])
    return mounts


def _why_no_file(mount: dict[str, Any], path: str) -> tuple[str, str] | None:
    """Why a file cannot be a mount, and what to do about it."""
    for name in ("index", "fallback"):
        if mount[name]:
            return f"is a file, and {name} is for folders", f"leave {name}={mount[name]} out, or name a folder"
    if os.path.islink(path):
        below = os.path.join(os.path.realpath(mount["folder"]), "")
        # As in a folder: the kernel follows no link that is absolute, or leads out of the folder that has it.
        if os.path.isabs(os.readlink(path)) or not os.path.realpath(path).startswith(below):
            return "is a link that leads out of its folder", f"name the file itself: {os.path.realpath(path)}"
    return None
