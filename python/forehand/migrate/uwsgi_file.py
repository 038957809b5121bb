"""uWSGI's configuration files, in their four forms, down to (option, value) in order.

Knows: sections, repeated keys, files that name others, magic variables, placeholders, conditions and loops.
Does not know: what an option means (`uwsgi.py`). Facts: uWSGI's documentation of its configuration, and how
version 2.0 reads files: everything after the equals sign is the value, even what looks like a comment.
"""

from __future__ import annotations

import glob
import json
import os
import re
import socket
import xml.etree.ElementTree as xml

from forehand import errors
from forehand.errors import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Pairs = list[tuple[str, str]]
FORMS = (".ini", ".yaml", ".yml", ".json", ".xml")
DEPTH = 10
LOADS = ("ini", "include", "inherit", "config", "yaml", "yml", "json", "xml")
ENDS = ("endif", "end-if", "endfor", "end-for")


def read(path: str, section: str) -> Pairs:
    """The options of one section as they are written. Raises Problem."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(errors.CONFIG, f"{path} cannot be read: {error}") from None
    reader = {".json": _json, ".xml": _xml, ".yaml": _yaml, ".yml": _yaml}.get(os.path.splitext(path)[1].lower(), _ini)
    try:
        sections = reader(text)
    except ValueError as error:
        raise Problem(errors.CONFIG, f"{path} cannot be read: {error}") from None
    if section not in sections:
        names = ", ".join(sections) or "none"
        raise Problem(errors.CONFIG, f"{path} has no section {section}; it has: {names}",
                      hint=f"name the section as uWSGI does: {path}:SECTION")  # fmt: skip
    return sections[section]


def _ini(text: str) -> dict[str, Pairs]:
    sections: dict[str, Pairs] = {}
    name = ""
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line[0] in ";#":
            continue
        if line[0] == "[":
            name = line[1:].partition("]")[0].strip()
            sections.setdefault(name, [])
        elif not name:
            raise ValueError(f"line {number} stands before the first [section]")
        else:
            key, equals, value = line.partition("=")
            sections[name].append((key.strip(), value.strip() if equals else "true"))
    return sections


def _json(text: str) -> dict[str, Pairs]:
    def pairs(members: list[tuple[str, object]]) -> Pairs:
        return [(key, _text(one)) for key, value in members for one in (value if isinstance(value, list) else [value])]

    document = json.loads(text, object_pairs_hook=lambda members: members)
    return {name: pairs(members) for name, members in document if isinstance(members, list)}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def _yaml(text: str) -> dict[str, Pairs]:
    """The little of YAML that uWSGI itself reads: names with values or lists of values under a section."""
    sections: dict[str, Pairs] = {}
    name = key = ""
    for line in text.splitlines():
        bare = line.strip()
        if not bare or bare.startswith(("#", "---")):
            continue
        if bare.startswith("- "):
            sections[name].append((key, _unquoted(bare[2:])))
            continue
        left, _, right = bare.partition(":")
        if not line[0].isspace():
            name = left
            sections.setdefault(name, [])
        elif not name:
            raise ValueError(f"'{bare}' stands before the first section")
        else:
            key = _unquoted(left)
            if right.strip():
                sections[name].append((key, _unquoted(right)))
    return sections


def _unquoted(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return re.sub(r"\s+#.*$", "", text)


def _xml(text: str) -> dict[str, Pairs]:
    try:
        root = xml.fromstring(text)
    except xml.ParseError as error:
        raise ValueError(str(error)) from None
    nodes = [root] if root.tag == "uwsgi" else list(root.iter("uwsgi"))
    return {node.get("id", "uwsgi"): [(child.tag, (child.text or "true").strip()) for child in node] for node in nodes}


class Reading:
    """One configuration on its way to plain options: what is known while lines are gone through."""

    def __init__(self, folder: str, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = environment
        self.found: Pairs = []
        self.placed: set[str] = set()  # names that placeholders asked for
        self.unclear: list[tuple[str, str, str]] = []  # option, value, why
        self.files: list[str] = []

    def file(self, named: str, depth: int = 0) -> None:
        """Take in a file, `PATH` or `PATH:SECTION`."""
        path, section = named, "uwsgi"
        if not os.path.exists(os.path.join(self.folder, path)) and ":" in named:
            path, _, section = named.rpartition(":")
        if path and self.files and not os.path.exists(os.path.join(self.folder, path)):
            # uWSGI looks where it is started, which is mostly where the first file lies.
            path = os.path.join(os.path.dirname(self.files[0]), path)
        path = os.path.join(self.folder, path) if path else self.files[-1]
        if depth > DEPTH:
            raise Problem(errors.CONFIG, f"{path}: files name one another more than {DEPTH} deep")
        self.files.append(path)
        self._block(read(path, section or "uwsgi"), path, depth, {})

    def _block(self, pairs: Pairs, path: str, depth: int, item: dict[str, str]) -> None:
        """Go through options in order; conditions and loops have blocks of their own. `item` is %(_)."""
        at = 0
        while at < len(pairs):
            key, raw = pairs[at]
            at += 1
            value = self._filled(key, raw, path, item)
            if key.startswith(("if-", "if", "for-")) and self._opens(key) or key == "for":
                end = self._end(pairs, at)
                for one in self._items(key, value):
                    self._block(pairs[at:end], path, depth, {"_": one})
                at = end + 1
            elif key in ENDS:
                continue
            elif key in LOADS and depth <= DEPTH:
                self.file(value, depth + 1)
            elif key in ("set", "set-ph", "set-placeholder"):
                name, _, text = value.partition("=")
                self.found.append((name.strip(), text.strip()))
                self.placed.add(name.strip())
            else:
                self.found.append((key, value))

    @staticmethod
    def _opens(key: str) -> bool:
        return bool(re.fullmatch(r"if-(not-)?\w+(-\w+)?|if(dir|env|exists|plugin)|for-\w+", key))

    def _end(self, pairs: Pairs, at: int) -> int:
        deep = 0
        for place in range(at, len(pairs)):
            key = pairs[place][0]
            deep += 1 if self._opens(key) or key == "for" else -1 if key in ENDS else 0
            if deep < 0:
                return place
        return len(pairs)

    def _items(self, key: str, value: str) -> Iterator[str]:
        """What a block is gone through with: nothing, once, or once for each member of a loop."""
        if key == "for":
            yield from value.split()
        elif key == "for-times" and value.isdigit():
            yield from (str(number) for number in range(1, min(int(value), 1000) + 1))
        elif key == "for-glob":
            yield from sorted(glob.glob(os.path.join(self.folder, value)))
            self.unclear.append((key, value, "it was evaluated on this machine"))
        elif key == "for-readline":
            yield from self._content(key, value).splitlines()
        elif key.startswith("for-"):
            self.unclear.append((key, value, "this loop was not followed"))
        else:
            answer = self._holds(key.removeprefix("if-").removeprefix("if"), value)
            if answer is not None:
                yield answer

    def _holds(self, condition: str, value: str) -> str | None:
        """What %(_) is inside of a condition that holds."""
        if condition.startswith("not-"):
            return value if self._holds(condition[4:], value) is None else None
        place = os.path.join(self.folder, value)
        if condition == "env":
            name, equals, wanted = value.partition("=")
            known = self.environment.get(name)
            self.unclear.append(("if-env", value, "the variable was evaluated as it is now"))
            return known if known is not None and (not equals or known == wanted) else None
        if condition == "opt":
            name, equals, wanted = value.partition("=")
            options = dict(self.found)
            return options[name] if name in options and (not equals or options[name] == wanted) else None
        if condition == "hostname":
            self.unclear.append(("if-hostname", value, "it was evaluated on this machine"))
            return value if value == socket.gethostname() else None
        tests = {"exists": os.path.exists, "file": os.path.isfile, "dir": os.path.isdir, "directory": os.path.isdir}
        if condition in tests:
            self.unclear.append((f"if-{condition}", value, "it was evaluated on this machine"))
            return value if tests[condition](place) else None
        self.unclear.append((f"if-{condition}", value, "this condition was taken to be false"))
        return None

    def _filled(self, key: str, text: str, path: str, item: Mapping[str, str]) -> str:
        """A value with its placeholders filled in."""
        known = {name.strip(): value for name, value in self.found} | dict(item)

        def placeholder(match: re.Match[str]) -> str:
            name = match[1].strip()
            self.placed.add(name)
            if name in known:
                return known[name]
            if not key.startswith(("log-format", "logformat")):
                self.unclear.append((key, text, f"the placeholder %({name}) is not known"))
            return match[0]

        def variable(match: re.Match[str]) -> str:
            if match[1] not in self.environment:
                self.unclear.append((key, text, f"the variable {match[1]} is not set"))
                if not key.startswith(("if", "for")):
                    return f"${{{match[1]}}}"  # for the shell that starts the server
            return self.environment.get(match[1], "")

        text = re.sub(r"\$\((\w+)\)", variable, text)
        text = re.sub(r"%\(([^)]+)\)", placeholder, text)
        if not key.startswith(("log-format", "logformat", "log-date", "logdate")):
            text = re.sub(r"%([a-zA-Z])(?![\w%]*\))", lambda match: self._magic(match[0], path), text)
        return re.sub(r"@\(([^)]+)\)", lambda match: self._content(key, match[1]), text)

    def _content(self, key: str, name: str) -> str:
        try:
            with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                return file.read().strip()
        except (OSError, UnicodeDecodeError):
            self.unclear.append((key, f"@({name})", "this file cannot be read"))
            return ""

    def _magic(self, word: str, path: str) -> str:
        """The value of %n and its like; what depends on the process stays as it is."""
        full = os.path.abspath(path)
        name = os.path.basename(full)
        stem, suffix = os.path.splitext(name)
        letter = word[1]
        values = {
            "p": full, "s": name, "d": os.path.dirname(full) + "/", "n": stem, "e": suffix[1:],
            "c": os.path.basename(os.path.dirname(full)), "o": path, "h": socket.gethostname(), "v": os.getcwd(),
            "k": "auto", "x": "uwsgi",
        }  # fmt: skip
        if letter in "uUgG":
            self.unclear.append(("", word, "it depends on who runs the server"))
        return values.get(letter.lower(), word) if letter.lower() in values else word
