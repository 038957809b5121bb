"""What is wrong with a target, and what to type instead.

Knows: folders, modules near at hand, the traceback of an import. Does not know: how an application is loaded
(`target.py`). A process whose application loads never holds it.
"""

from __future__ import annotations

import os
import sys

from forehand import errors
from forehand.errors import Problem, near, own_frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

#: Endings of files that hold settings, of ours or of another server's, and no Python.
CONFIGURATIONS = (".toml", ".ini", ".json", ".yaml", ".yml", ".xml", ".service")
#: For who has told us to call what is no factory, or one that needs more.
UNFIT = (
    "if it is the application itself, leave out --factory, or the brackets behind its name; a factory's arguments "
    "stand in the target, such as 'shop:make(\"production\")'"
)


def judge_file(path: str, attribute: str, target: str) -> None:
    """Raises Problem where a file cannot be one of an application."""
    stem, suffix = os.path.splitext(os.path.normpath(path))
    if path == "manage.py" and django_project():
        raise Problem(
            errors.APPLICATION,
            "'manage.py' is Django's command, and no application",
            hint=f"this is a Django project, try: forehand {django_project()}",
        )
    if suffix == ".py" and not os.path.isabs(path) and all(part.isidentifier() for part in stem.split(os.sep)):
        dotted = stem.replace(os.sep, ".")
        raise Problem(
            errors.APPLICATION,
            f"'{path}' is a file, and a target names a module",
            hint=f"try: forehand {dotted}{':' + attribute if attribute else ''}",
        )
    if not os.path.isfile(path):
        raise Problem(
            errors.APPLICATION,
            f"there is no file '{path}' (for the target '{target}')",
            hint="a target is MODULE:ATTRIBUTE, such as shop.wsgi:application, or the path of a file with Python code",
        )
    if suffix in CONFIGURATIONS:
        raise Problem(
            errors.APPLICATION,
            f"'{path}' is a configuration, and no application",
            hint="one of Forehand's is read with --config"
            if suffix == ".toml"
            else f"another server's is translated: forehand migrate {path} > forehand.toml",
        )


def not_imported(name: str, target: str, error: BaseException) -> Problem:
    """A module that is not there, or whose import has raised."""
    missing = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    # The module itself, or a package that it is in: otherwise it is an import inside it.
    if missing and (name == missing or name.startswith(missing + ".")):
        return not_found(name, missing, target)
    return failed(name, error)


def not_found(name: str, missing: str, target: str) -> Problem:
    places = "\n".join(f"  {path or '.'}" for path in sys.path)
    found = near(name, _modules())
    if not found and target == name:
        from forehand.commands import meant

        found = meant(name)
    message = f"there is no module '{missing}' (for the target '{target}'){found}"
    return Problem(
        errors.APPLICATION,
        message,
        hint=f"looked in:\n{places}\nrun forehand in the project's folder, or name it with --chdir or --pythonpath",
    )


def _modules() -> list[str]:
    """Modules near at hand, as dotted names: those of the first folder, two levels deep."""
    found = []
    root = sys.path[0] or "."
    try:
        entries = sorted(os.scandir(root), key=lambda entry: entry.name)[:500]
    except OSError:
        return []
    for entry in entries:
        if entry.name.endswith(".py"):
            found.append(entry.name[:-3])
        elif entry.name.isidentifier() and entry.is_dir():
            found.append(entry.name)
            try:
                inner = sorted(os.listdir(entry.path))[:500]
            except OSError:
                continue
            found += [f"{entry.name}.{name[:-3]}" for name in inner if name.endswith(".py") and name != "__init__.py"]
    return found


def failed(name: str, error: BaseException) -> Problem:
    import traceback

    shown = own_frames(error.__traceback__)
    text = "".join(traceback.format_exception(type(error), error.with_traceback(shown), shown))
    what = f"exited with {error.code!r}" if isinstance(error, SystemExit) else f"raised {type(error).__name__}"
    return Problem(
        errors.APPLICATION,
        f"importing '{name}' {what}",
        hint=f"the traceback above is the application's own{_missing(error)}",
        traceback=text,
    )


def _missing(error: BaseException) -> str:
    """What to do about a module that an import inside of the application did not find."""
    name = (getattr(error, "name", None) or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or not name or name in sys.modules:
        return ""  # of a package that is there a part is missing, which the traceback says
    here = os.path.abspath(sys.path[0] or ".")
    if os.path.basename(here) == name:
        return f"; '{name}' is the folder {here} itself: run forehand in the one above it, or name that with --chdir"
    return (
        f"; '{name}' is neither in {here} nor installed for {sys.executable}: install it there, or forehand into the "
        "environment that has it"
    )


def without_application(module: ModuleType, usual: tuple[str, ...]) -> Problem:
    """A module where nothing is called as applications usually are."""
    django = django_project()
    return Problem(
        errors.APPLICATION,
        f"the module '{module.__name__}' has neither 'application' nor 'app'",
        hint=f"this is a Django project, try: forehand {django}" if django
        else f"name the attribute: forehand {module.__name__}:NAME{candidates(module, usual)}",
    )  # fmt: skip


def without_attribute(module: ModuleType, usual: tuple[str, ...], value: Any, part: str, target: str) -> Problem:
    """`value`, which is the module or what was found in it, has no such part."""
    owner = "module" if value is module else "object"
    names = [name for name in dir(value) if not name.startswith("_")]
    return Problem(
        errors.APPLICATION,
        f"the {owner} '{getattr(value, '__name__', value)}' has no attribute '{part}'{near(part, names)}",
        hint=f"in the target '{target}'{candidates(module, usual)}",
    )


def not_made(target: str, error: Exception) -> Problem:
    """A factory that has raised."""
    # Where nothing of it has run it is its arguments that do not fit.
    unfit = isinstance(error, TypeError) and (trace := error.__traceback__) is not None and trace.tb_next is None
    problem = failed(target, error)
    return Problem(
        errors.APPLICATION,
        f"the factory of '{target}' raised {type(error).__name__}",
        hint=UNFIT if unfit else problem.hint,
        traceback=problem.traceback,
    )


def candidates(module: ModuleType, usual: tuple[str, ...]) -> str:
    """What a target could name: what is so called as a rule, be it an object of a framework, or what was made there."""
    names = [name for name in usual if callable(getattr(module, name, None))]
    names += [
        name
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
        if name not in usual
    ]
    return f"; callable there: {', '.join(names[:8])}" if names else ""


def django_project() -> str:
    """The WSGI module of the Django project in this folder; empty: there is none."""
    if os.path.isfile("manage.py"):
        for entry in sorted(os.listdir("."), reverse=True):
            if os.path.isfile(os.path.join(entry, "wsgi.py")):
                return f"{entry}.wsgi"
    return ""


def suggestion() -> str:
    """What to type, from the files of this folder."""
    guesses = []
    for name in ("wsgi", "app", "main"):
        if os.path.isfile(f"{name}.py"):
            guesses.append(name)
    if django := django_project():
        guesses.insert(0, django)
    if guesses:
        return f"in this folder, try: forehand {guesses[0]}"
    return "such as: forehand shop.wsgi, or forehand app:application"
