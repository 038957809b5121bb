"""Lines of logic that stand in two places.

Knows: what is logic in Rust and Python: neither comments, docstrings, imports, code of tests, nor lines without a word
in them, such as a closing bracket. Does not know: code that does the same in other words.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from pathlib import Path

from circles import without_tests

#: A line of logic: its number in the file, and its words with one space between them.
Line = tuple[int, str]


def logic(path: Path) -> list[Line]:
    """The lines of logic of a file."""
    text = path.read_text()
    bare = _rust(text) if path.suffix == ".rs" else _python(text)
    lines = ((number, " ".join(line.split())) for number, line in enumerate(bare.splitlines(), 1))
    return [(number, line) for number, line in lines if re.search(r"\w", line)]


def _rust(text: str) -> str:
    bare = without_tests(text, quoted=True)
    declared = r"^[ ]*(?:pub(?:\([^)]*\))? )?(?:use [^;]*;|mod \w+;|#!?\[[^\n]*\]$)"
    return re.sub(declared, lambda found: re.sub(r"[^\n]", " ", found[0]), bare, flags=re.M)


def _python(text: str) -> str:
    lines = text.splitlines()
    tree = ast.parse(text)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        documented = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        if documented and ast.get_docstring(node) is not None and isinstance(body, list):  # type: ignore[arg-type]
            _cut(lines, body[0])
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            _cut(lines, node)
    return re.sub(r"^(TYPE_CHECKING = False|if TYPE_CHECKING:)$", "", "\n".join(lines), flags=re.M)


def _cut(lines: list[str], node: ast.stmt) -> None:
    for row in range(node.lineno - 1, node.end_lineno or node.lineno):
        lines[row] = ""


def repeats(files: list[Path], length: int) -> list[tuple[Path, int, Path, int, int]]:
    """Runs of `length` or more lines of logic that are the same in two places: file and first line of either, and how
    many lines of logic there are."""
    sources = {path: logic(path) for path in files}
    places: dict[tuple[str, ...], list[tuple[Path, int]]] = defaultdict(list)
    for path, lines in sources.items():
        for at in range(len(lines) - length + 1):
            places[tuple(line for _, line in lines[at : at + length])].append((path, at))
    found = []
    for same in places.values():
        for number, (one, begin) in enumerate(same):
            for other, there in same[number + 1 :]:
                ours, theirs = sources[one], sources[other]
                if begin and there and ours[begin - 1][1] == theirs[there - 1][1]:
                    continue  # it is the rest of a run that began earlier
                found.append((one, ours[begin][0], other, theirs[there][0], _run(ours[begin:], theirs[there:])))
    return found


def _run(ours: list[Line], theirs: list[Line]) -> int:
    count = 0
    for (_, one), (_, other) in zip(ours, theirs, strict=False):
        if one != other:
            break
        count += 1
    return count
