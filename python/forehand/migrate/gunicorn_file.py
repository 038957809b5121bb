"""gunicorn's configuration file: a Python program, run here as gunicorn runs it.

Knows: how it is run, which of its names are settings, and which values were computed. Does not know: what
a setting means (`gunicorn.py`). It is the user's own code and may do anything; nothing else of this package runs code.
"""

from __future__ import annotations

import ast
import contextlib
import os
import sys
import traceback

from forehand import errors
from forehand.errors import Problem, near
from forehand.migrate import gunicorn
from forehand.migrate.outcome import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

NAMES = [*gunicorn.SETTINGS, *gunicorn.TOGETHER, *gunicorn.HOOKS]


def executed(path: str, folder: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """All names that the file leaves behind. Raises Problem with the file's own traceback where it fails."""
    try:
        with open(path, encoding="utf-8") as file:
            source = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(errors.CONFIG, f"{path} cannot be read: {error}") from None
    _refuse_servers(path, source)
    names: dict[str, Any] = {"__file__": path, "__name__": "__config__"}
    try:
        code = compile(source, path, "exec")
        # What the file prints is not part of the page.
        with _surroundings(folder, environment), contextlib.redirect_stdout(sys.stderr):
            exec(code, names)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a file that calls sys.exit has failed too
        raise _failed(path, error) from None
    return names


# What starts a server, by the last part of what is called; of these modules whatever is called so.
STARTS = (
    "run", "serve", "serve_forever", "run_app", "run_simple", "run_server", "run_forever", "run_until_complete",
    "start_server", "execute_from_command_line", "runserver", "create_server",
)  # fmt: skip
# Those whose `run` and its like are no server.
HARMLESS = ("subprocess", "contextlib", "os", "shutil", "sys")


def _refuse_servers(path: str, source: str) -> None:
    """Raise Problem for a program that starts something: only what looks like gunicorn's configuration is run."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return  # what is wrong with it is told where it is compiled
    calls = list(_called(tree))
    for call, name in calls:
        root, _, last = name.rpartition(".")
        if last in STARTS and root.partition(".")[0] not in HARMLESS:
            raise Problem(errors.CONFIG, f"{path}:{call.lineno}: {last}(…) starts something, so that this is no "
                          "configuration of gunicorn's: it was not run",
                          hint=f"give the command line that says the same: {_example(name, call)}")  # fmt: skip
    written = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    written |= {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.alias))}
    if not written & {*NAMES, "locals", "globals", "vars", "exec", "*"} and any(
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) for node, _ in _statements(tree.body)
    ):
        raise Problem(errors.CONFIG, f"{path} sets none of gunicorn's settings and calls functions: it was not run",
                      hint="give gunicorn's configuration file, or the command line in quotes: "
                      "forehand migrate 'gunicorn -w 4 shop.wsgi'")  # fmt: skip


def _example(name: str, call: ast.Call) -> str:
    """The command line that somebody would type in place of a call."""
    server = next((part for part in name.split(".") if part in ("uvicorn", "granian", "hypercorn", "waitress")), "")
    named = [node.value for node in call.args if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    server = {"waitress": "waitress-serve", "": "gunicorn"}.get(server, server)
    return f"forehand migrate '{server} {named[0] if named else 'MODULE:APP'}' with its options as flags"


def _called(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    """The calls that run when the file does, and under `if __name__ == "__main__"`, with what names stand for."""
    imported: dict[str, str] = {}
    functions: dict[str, ast.AST] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported.update({one.asname: one.name for one in node.names if one.asname})
        elif isinstance(node, ast.ImportFrom):
            imported.update({one.asname or one.name: f"{node.module}.{one.name}" for one in node.names})
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            functions[node.name] = node
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call):
            root, dot, rest = ast.unparse(node.func).partition(".")
            yield node, imported.get(root, root) + dot + rest
            # A function of the file's own is gone through where it is called, once.
            if root in functions and not dot:
                waiting += getattr(functions.pop(root), "body", [])
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)


@contextlib.contextmanager
def _surroundings(folder: str, environment: Mapping[str, str]) -> Iterator[None]:
    """The folder first among the modules', and the variables that a unit or a command line gives."""
    before = dict(os.environ)
    path = list(sys.path)
    try:
        os.environ.update(environment)
        sys.path.insert(0, os.path.abspath(folder))
        yield
    finally:
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(before)


def _failed(path: str, error: BaseException) -> Problem:
    frames = error.__traceback__
    while frames and frames.tb_frame.f_code.co_filename != path:
        frames = frames.tb_next
    hint = "correct the file, or set the variables that it asks for"
    if isinstance(error, ModuleNotFoundError):
        hint = "run `forehand migrate` with the Python that gunicorn runs with, where the project's packages are"
    text = "".join(traceback.format_exception(type(error), error, frames))
    line = frames.tb_lineno if frames else getattr(error, "lineno", None)
    where = f"{path}:{line}" if line else path
    said = str(error).partition("\n")[0]
    return Problem(errors.CONFIG, f"{where}: the file raised {type(error).__name__}{': ' if said else ''}{said}",
                   hint=hint, traceback=text)  # fmt: skip


def settings(names: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a file's names that are gunicorn's settings; gunicorn does not look at others."""
    found = {}
    for name in NAMES:
        if name in names and name not in gunicorn.HOOKS:
            value = names[name]
            found[name] = list(value) if isinstance(value, (tuple, set)) else value
    return found


def tell(outcome: Outcome, path: str, names: Mapping[str, Any], overridden: set[str]) -> None:
    """Remarks that only the file's text allows: computed values, hooks, names that gunicorn ignores."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    texts: dict[str, str] = {}
    told: set[str] = set()
    for node, condition in _statements(tree.body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name in gunicorn.HOOKS:
            _hook(outcome, node)
        for name, value in _assigned(node):
            if name in gunicorn.HOOKS and callable(names.get(name)):
                _told_hook(outcome, name, node.lineno)
            elif name in NAMES and name not in overridden:
                _computed(outcome, name, value, texts)
                if condition and outcome.took_any(name) and condition not in told:
                    told.add(condition)
                    outcome.differs(name, condition, f"line {node.lineno}: the value that applies here is written")
            elif name not in NAMES and name not in used and not name.startswith("_"):
                nearest = near(name, NAMES)
                if nearest:
                    outcome.not_needed(
                        name, ast.unparse(value), f"gunicorn has no such setting and ignores it{nearest}"
                    )
            # What names stand for, so that a variable is seen behind two of them.
            texts[name] = " ".join([ast.unparse(value), *(texts.get(part, "") for part in _names(value))])


def _statements(body: list[ast.stmt], condition: str = "") -> Iterator[tuple[ast.stmt, str]]:
    """The file's own statements, those of functions and classes left out, with the condition that they are under."""
    for node in body:
        yield node, condition
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        inside = f"if {ast.unparse(node.test)}" if isinstance(node, ast.If) else condition
        for part in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(node, part, []), inside)
        for handler in getattr(node, "handlers", []):
            yield from _statements(handler.body, f"except {ast.unparse(handler.type)}" if handler.type else "except")


def _assigned(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign) and node.value:
        targets = [node.target]
    for target in targets:
        if isinstance(target, ast.Name) and isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value:
            yield target.id, node.value


def _names(value: ast.expr) -> list[str]:
    return [node.id for node in ast.walk(value) if isinstance(node, ast.Name)]


def _computed(outcome: Outcome, name: str, value: ast.expr, texts: Mapping[str, str]) -> None:
    try:
        ast.literal_eval(value)
        return
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        text = ast.unparse(value)
    if not outcome.took_any(name):
        return
    behind = " ".join([text, *(texts.get(part, "") for part in _names(value))])
    advice = "a forehand.toml computes nothing"
    if "cpu_count" in behind or "sched_getaffinity" in behind:
        advice = 'here it stays what it is on this machine; workers = "auto" counts the CPUs that it may use'
    elif "environ" in behind or "getenv" in behind:
        ours = next((ours for ours, origin in outcome.origins.items() if origin == name), name)
        advice = f"it depends on variables, and is what they say now; FOREHAND_{ours.upper()} sets it from outside"
    outcome.differs(name, text, advice)


def _hook(outcome: Outcome, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    body = [part for part in node.body if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))]
    if all(isinstance(part, ast.Pass) for part in body):
        outcome.not_needed(node.name, "", f"line {node.lineno}: it does nothing")
    else:
        _told_hook(outcome, node.name, node.lineno)


def _told_hook(outcome: Outcome, name: str, line: int) -> None:
    ours, more = gunicorn.HOOKS[name]
    if ours:
        more = f"; {more}" if more else ""
        named = f'{ours} = "MODULE:{name}"'
        reason = f"move it to a module of the project: {named}. It is called with a dictionary of facts{more}"
    else:
        reason = more
    outcome.unsupported(name, "", f"line {line}: {reason}")
