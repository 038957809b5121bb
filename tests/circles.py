"""Circles of files: which file needs which, read from imports, and the ways that come back to where they began.

Knows: how Rust and Python name other files of the same crate or package. Does not know: other crates and packages, what
macros make, and what the tests of a file need. A module and its own children may know each other, whichever way: in a
circle no member is the parent of all others.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

#: Module → the modules that it needs, each with the import that says so.
Graph = dict[str, dict[str, str]]


def rust(sources: dict[str, str]) -> Graph:
    """The graph of one crate. `sources`: path below `src` → text, such as `wsgi/call.rs`."""
    texts = {_rust_module(path): without_tests(text) for path, text in sources.items()}
    texts = {module: text for module, text in texts.items() if not _only_for_tests(module, sources)}
    reexported = {module: dict(_reexports(module, text)) for module, text in texts.items()}
    graph: Graph = {}
    for module, text in texts.items():
        needs = graph[module] = {}
        for path in _paths(text):
            found = _resolve(_absolute(path, module), reexported)
            if found != module:
                needs.setdefault(found, "::".join(path))
    return graph


def _rust_module(path: str) -> str:
    parts = path.removesuffix(".rs").split("/")
    if parts[-1] in ("mod", "lib"):
        parts.pop()
    return "::".join(parts)


def _only_for_tests(module: str, sources: dict[str, str]) -> bool:
    parent, _, name = module.rpartition("::")
    declared = re.compile(rf"#\[cfg\((?:test|all\(test\b[^\]]*)\)?\]\s*(?:pub(?:\([a-z]+\))? )?mod {name};")
    return any(_rust_module(path) == parent and declared.search(text) for path, text in sources.items() if name)


#: What is no code, or may hold braces that open nothing: comments, strings (raw ones, too), letters in quotes.
QUOTED = re.compile(r'(//[^\n]*|/\*.*?\*/)|b?r(#*)".*?"\2|b?"(?:\\.|[^"\\])*"|\'(?:\\.[^\']*|[^\'\\\n])\'', re.S)
FOR_TESTS = re.compile(r"#\[cfg\((?:test\b|all\(test\b)[^\]]*\]")


def without_tests(text: str, *, quoted: bool = False) -> str:
    """Rust without comments and without what is compiled for tests alone, each replaced by blanks, so that every line
    keeps its number. `quoted`: strings are kept."""
    bare = QUOTED.sub(lambda found: _blank(found[0]), text)
    kept = QUOTED.sub(lambda found: _blank(found[0]) if found[1] else found[0], text) if quoted else bare
    while found := FOR_TESTS.search(bare):
        begin, end = found.start(), _item_end(bare, found.end())
        bare = bare[:begin] + _blank(bare[begin:end]) + bare[end:]
        kept = kept[:begin] + _blank(kept[begin:end]) + kept[end:]
    return kept


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _item_end(text: str, at: int) -> int:
    """Where the item that begins there ends: behind its closing brace, or its semicolon."""
    depth = 0
    for place in range(at, len(text)):
        if text[place] in "{([":
            depth += 1
        elif text[place] in "})]":
            depth -= 1
            if depth < 0:  # the last field of a struct
                return place
            if depth == 0 and text[place] == "}" and not re.match(r"\s*;", text[place + 1 :]):
                return place + 1
        elif depth == 0 and text[place] == ";":
            return place + 1
    return len(text)


def _paths(text: str) -> Iterator[list[str]]:
    """Each path that begins with `crate`, `super` or `self`, in an import or in the midst of code."""
    for found in re.finditer(r"(?<![\w:$])(?<!\(in )\$?(?:crate|super|self)::", text):
        for path in _tree(text[found.start() :].lstrip("$")):
            yield path


def _tree(text: str) -> Iterator[list[str]]:
    """The paths of `a::b::{c, d::{e, f}}`."""
    head = re.match(r"\w+(?:::\w+)*", text)
    if head is None:
        yield []
        return
    first = head[0].split("::")
    if text[head.end() : head.end() + 3] != "::{":
        yield first
        return
    for branch in _branches(text[head.end() + 3 :]):
        for rest in _tree(branch):
            yield first + rest


def _branches(text: str) -> Iterator[str]:
    """The parts between commas, up to the brace that closes them."""
    depth, begin = 0, 0
    for place, letter in enumerate(text):
        if letter == "{":
            depth += 1
        elif letter == "}" and depth:
            depth -= 1
        elif letter in ",}" and depth == 0:
            if branch := text[begin:place].strip():
                yield branch
            begin = place + 1
            if letter == "}":
                return


def _absolute(path: list[str], module: str) -> list[str]:
    """A path from the crate's root."""
    here = module.split("::") if module else []
    if path[0] == "crate":
        return path[1:]
    if path[0] == "self":
        return here + path[1:]
    while path and path[0] == "super":
        here, path = here[:-1], path[1:]
    return here + path


def _reexports(module: str, text: str) -> Iterator[tuple[str, list[str]]]:
    """What `pub use` has a module show under its own name: the name, and where it comes from."""
    for found in re.finditer(r"\bpub(?:\([^)]*\))? use ([^;]+);", text):
        for path in _tree(found[1]):
            rooted = path if path[0] in ("crate", "super", "self") else ["self", *path]
            yield path[-1], _absolute(rooted, module)


def _resolve(path: list[str], reexported: dict[str, dict[str, list[str]]], depth: int = 0) -> str:
    """The module in which a path from the root ends, through what others show again."""
    at: list[str] = []
    for place, name in enumerate(path):
        if "::".join([*at, name]) in reexported:
            at.append(name)
            continue
        shown = reexported["::".join(at)].get(name)
        if shown is not None and shown != path and depth < 8:
            return _resolve(shown + path[place + 1 :], reexported, depth + 1)
        break
    return "::".join(at)


def python(sources: dict[str, str], package: str) -> Graph:
    """The graph of one package. `sources`: path below its folder → text. An import counts wherever it stands: in a
    function, and for type checkers alone."""
    modules = {_python_module(path, package): (path, text) for path, text in sources.items()}
    graph: Graph = {}
    for module, (path, text) in modules.items():
        here = module if path.endswith("__init__.py") else module.rpartition(".")[0]
        needs = graph[module] = {}
        for node in ast.walk(ast.parse(text)):
            for name in _imported(node, here):
                # Who imports a file runs the first file of each folder on the way to it.
                for step in _upwards(name):
                    if step in modules and not module.startswith(f"{step}."):
                        needs.setdefault(step, f"line {getattr(node, 'lineno', 0)}: {name}")
        needs.pop(module, None)
    return graph


def _python_module(path: str, package: str) -> str:
    parts = [package, *path.removesuffix(".py").split("/")]
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def _imported(node: ast.AST, here: str) -> list[str]:
    """What an import names, from the package's root; `here`: the folder that it stands in."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    above = here.split(".")
    base = above[: len(above) - node.level + 1] if node.level else []
    base += node.module.split(".") if node.module else []
    return [".".join([*base, alias.name]) for alias in node.names]


def _upwards(name: str) -> Iterator[str]:
    """`a.b.c`, `a.b`, `a`."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def _above(one: str, other: str, mark: str) -> bool:
    """Is one the parent of the other, or a parent of its parent?"""
    return one == "" or other.startswith(one + mark)


def circles(graph: Graph) -> list[list[str]]:
    """The groups of modules each of which needs itself through the others."""
    found = []
    for group in _groups(graph):
        mark = "::" if any("::" in one for one in group) else "."
        parent = next((one for one in group if all(one == other or _above(one, other, mark) for other in group)), None)
        if parent is None:
            found.append(sorted(group))
        else:
            children = [one for one in group if one != parent]
            found += circles({one: {to: why for to, why in graph[one].items() if to in children} for one in children})
    return found


def _groups(graph: Graph) -> list[list[str]]:
    """Strongly connected components of more than one module (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(one: str) -> None:
        index[one] = low[one] = len(index)
        stack.append(one)
        for other in graph[one]:
            if other not in index:
                visit(other)
                low[one] = min(low[one], low[other])
            elif other in stack:
                low[one] = min(low[one], index[other])
        if low[one] == index[one]:
            group = stack[stack.index(one) :]
            del stack[stack.index(one) :]
            if len(group) > 1:
                groups.append(group)

    for one in graph:
        if one not in index:
            visit(one)
    return groups


def shown(graph: Graph, group: list[str]) -> str:
    """The shortest way round a circle: each file, and the import that leads to the next."""
    ways = [way for one in group if (way := _way_round(graph, group, one))]
    way = min(ways, key=len)
    steps = [
        f"{one or 'lib'} -> {other or 'lib'} ({graph[one][other]})" for one, other in zip(way, way[1:], strict=False)
    ]
    return f"{len(group)} files: {', '.join(one or 'lib' for one in group)}; " + "; ".join(steps)


def _way_round(graph: Graph, group: list[str], begin: str) -> list[str]:
    """The shortest way from a module back to it, inside of its group."""
    ways = [[begin]]
    seen: set[str] = set()
    while ways:
        way = ways.pop(0)
        for other in graph[way[-1]]:
            if other == begin:
                return [*way, other]
            if other in group and other not in seen:
                seen.add(other)
                ways.append([*way, other])
    return []
