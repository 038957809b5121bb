"""uWSGI's static files: each folder becomes a value of `static`, unless that would serve more than was served.

Knows: how uWSGI finds a file for a path: in order, by the beginning of the path, and for GET and HEAD; what is not
there is the application's (core/protocol.c and core/static.c of version 2.0). Does not know: its other options.
"""

from __future__ import annotations

import re

from forehand.migrate import static_files
from forehand.migrate.outcome import Outcome, differs, not_needed, switch, unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from forehand.migrate.outcome import Rule

SIDECARS = "a .br, .zst or .gz beside a file is sent to whoever takes it, where it is not older than the file"
RULES: dict[str, Rule] = {
    "check-static-docroot": switch(unsupported("the folder was the web server's DOCUMENT_ROOT: name it, as in "
                                               'static = ["/=/var/www;try"]')),
    "static-safe": unsupported("links that leave a folder are not followed: give what they lead to a mount of its own"),
    **dict.fromkeys(("static-gzip", "static-gzip-all", "static-gzip-dir", "static-gzip-ext", "static-gzip-prefix",
                     "static-gzip-suffix"), not_needed(SIDECARS)),
    "static-cache-paths": not_needed("where a file is looked for costs nothing while it is remembered"),
    "static-cache-paths-name": not_needed("where a file is looked for costs nothing while it is remembered"),
    **dict.fromkeys(("file-serve-mode", "fileserve-mode"), differs("files are sent by the server itself, and by the "
                    "kernel where they are large; what the application names in X-Sendfile or X-Accel-Redirect goes on "
                    "to the proxy")),
    "honour-range": switch(not_needed("ranges are served")),
    **dict.fromkeys(("mimefile", "mime-file"), unsupported("a file's type follows from its name by a table of ours")),
}  # fmt: skip

FOLDERS = ("static-map", "static-map2", "check-static", "static-check")
AGES = tuple(f"static-expires{what}{since}" for what in ("", "-type", "-path-info", "-uri") for since in ("", "-mtime"))
# What is read together, in `translate`.
TOGETHER = (*FOLDERS, *AGES, "static-index", "static-skip-ext")
# Regular expressions that fit every name, as people write them.
ALL = ("", "*", ".*", "/*", "/.*", "^.*", "^/", "^/*", "^/.*", ".*$", "^.*$", "^/.*$")


def translate(outcome: Outcome, pairs: list[tuple[str, str]]) -> None:
    """What becomes of these options together."""
    given = [(key, value) for key, value in pairs if key in TOGETHER]
    skipped = [value for key, value in given if key == "static-skip-ext"]
    placed = list(_placed(outcome, given))
    index = _index(outcome, given, bool(placed))
    ages = _ages(outcome, given, [path for _, _, path, _ in placed])
    taken = ""
    for key, value, path, folder in placed:
        age = ages.get(path, ages.get(""))
        one = static_files.is_one_file(path, folder)
        more = ["try", *(() if one else index), *([f"max-age={age}"] if age else [])]
        try:
            text = static_files.mount(path, folder, *more)
        except ValueError as error:
            outcome.unsupported(key, value, str(error))
            continue
        if skipped:
            # There is no way to leave some names of a folder out.
            outcome.unsupported(key, value, f"names in {', '.join(skipped)} were left to the application and would be "
                                f"served here; {static_files.BY_HAND.format(repr(text))}")  # fmt: skip
        elif static_files.put(outcome, key, value, text):
            taken = taken or key
    for name in skipped:
        outcome.unsupported("static-skip-ext", name, "a mount serves all names that do not begin with a dot: keep such "
                            "files in another folder")  # fmt: skip
    if taken:
        static_files.tell(outcome, taken)


def _placed(outcome: Outcome, given: list[tuple[str, str]]) -> Iterator[tuple[str, str, str, str]]:
    """(option, value, path, folder or file) of each. `static-map2` has the whole path below its folder."""
    for key, value in given:
        if key not in FOLDERS:
            continue
        path, folder = "/", value
        if key.startswith("static-map"):
            path, equals, folder = value.partition("=")
            if not equals:
                outcome.unsupported(key, value, "it is not /PATH=FOLDER")
                continue
        if key == "static-map2":
            folder = f"{folder.rstrip('/')}/{path.strip('/')}"
        yield key, value, path, folder


def _index(outcome: Outcome, given: list[tuple[str, str]], any_folder: bool) -> list[str]:
    names = [value for key, value in given if key == "static-index"]
    for name in names if not any_folder else names[1:]:
        outcome.unsupported("static-index", name, "a mount has one index" if any_folder else "no folder is served")
    if any_folder and names:
        outcome.not_needed("static-index", names[0], "the mounts have it")
        return [f"index={names[0]}"]
    return []


def _ages(outcome: Outcome, given: list[tuple[str, str]], paths: list[str]) -> dict[str, str]:
    """Seconds for each path that has some; those of "" are for all others."""
    found: dict[str, str] = {}
    for key, value in given:
        if key not in AGES:
            continue
        pattern, _, seconds = value.rpartition(" ")
        pattern = pattern.strip()
        path = _path(pattern, paths) if key in ("static-expires-uri", "static-expires-path-info") else None
        if pattern in ALL and key != "static-expires-type":
            path = ""
        if key.endswith("-mtime") or not seconds.isdigit() or path is None or not paths:
            outcome.unsupported(key, value, "max-age of a mount is for all of its files and counts from the reply; "
                                "names with a hash in them are kept for a year")  # fmt: skip
        else:
            found.setdefault(path, seconds)
            outcome.not_needed(key, value, "the mounts have it as max-age")
    return found


def _path(pattern: str, paths: list[str]) -> str | None:
    """The mount whose files a regular expression means, all of them and no others."""
    found = re.fullmatch(r"\^(/[\w/-]*?)/?(\.\*\$?)?", pattern)
    return next((path for path in paths if found and path.rstrip("/") == found[1].rstrip("/")), None)
