"""The application that a target names: `shop.wsgi:application`, `shop.wsgi`, `shop:make()`.

Knows: modules and attributes. Does not know: how the application is served. Each mistake is
told with what was tried, what is wrong and what to do next; a traceback that is shown is the
application's own.
"""

from __future__ import annotations

import os
import sys

from forehand import errors
from forehand.errors import Problem, near, own_frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

DEFAULTS = ("application", "app")
#: Endings of files that hold settings, of ours or of another server's, and no Python.
CONFIGURATIONS = (".toml", ".ini", ".json", ".yaml", ".yml", ".xml", ".service")


def load(target: str, *, factory: bool = False) -> Callable[..., Any]:
    """The application that a target names. Raises Problem."""
    module_name, _, attribute = target.partition(":")
    # `shop.wsgi` is a module as a rule, and sometimes mod_wsgi's file.
    if "/" in module_name or module_name.endswith(".py") or os.path.isfile(module_name):
        module = _file(module_name, attribute, target)
    else:
        module = _named(module_name, target)
    application = check(_attribute(module, attribute, target, factory), target)
    return application if factory or attribute.endswith(")") else _called_if_factory(application, target)


def _named(name: str, target: str) -> ModuleType:
    # Modules with a dash in their name exist: `import` cannot name them, a target can.
    if not name or not all(part.replace("-", "_").isidentifier() for part in name.split(".")):
        raise Problem(
            errors.APPLICATION,
            f"'{target}' is not a target: '{name}' is not a module's name",
            hint="a target is MODULE or MODULE:ATTRIBUTE, such as shop.wsgi:application",
        )
    return _import(name, target)


def _file(path: str, attribute: str, target: str) -> ModuleType:
    """The module in a file that is named by its path: mod_wsgi's `.wsgi` files, and scripts. One that a package or
    the module path has under a name of its own is named so: imported twice, it would be two modules."""
    stem, suffix = os.path.splitext(os.path.normpath(path))
    if path == "manage.py" and _django_project():
        raise Problem(
            errors.APPLICATION,
            "'manage.py' is Django's command, and no application",
            hint=f"this is a Django project, try: forehand {_django_project()}",
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
    from importlib import util
    from importlib.machinery import SourceFileLoader

    name = os.path.basename(stem)
    loader = SourceFileLoader(name, os.path.abspath(path))
    spec = util.spec_from_loader(name, loader)
    assert spec is not None
    module = util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: a file that exits is a failure
        raise _failed(path, error) from None
    return module


def find(target: str) -> Any:
    """What `module:attribute` names, whatever it is. Raises Problem."""
    module_name, _, attribute = target.partition(":")
    return _attribute(_import(module_name, target), attribute, target, False)


def _import(name: str, target: str) -> ModuleType:
    try:
        # The package `importlib` is not needed for this, and would stay.
        __import__(name)
        return sys.modules[name]
    except ModuleNotFoundError as error:
        missing = error.name or ""
        # The module itself, or a package that it is in: otherwise it is an import inside it.
        if missing and (name == missing or name.startswith(missing + ".")):
            raise _not_found(name, missing, target) from None
        raise _failed(name, error) from None
    except SyntaxError as error:
        raise _failed(name, error) from None
    except BaseException as error:  # SystemExit too: an import that exits is a failure
        if isinstance(error, KeyboardInterrupt):
            raise
        raise _failed(name, error) from None


def _not_found(name: str, missing: str, target: str) -> Problem:
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


def _failed(name: str, error: BaseException) -> Problem:
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


def _attribute(module: ModuleType, attribute: str, target: str, factory: bool) -> Any:
    if not attribute:
        for name in DEFAULTS:
            if hasattr(module, name):
                return _made(getattr(module, name), target) if factory else getattr(module, name)
        django = _django_project()
        raise Problem(
            errors.APPLICATION,
            f"the module '{module.__name__}' has neither 'application' nor 'app'",
            hint=f"this is a Django project, try: forehand {django}" if django
            else f"name the attribute: forehand {module.__name__}:NAME{_candidates(module)}",
        )  # fmt: skip
    path, call, arguments = attribute.partition("(")
    value: Any = module
    for part in path.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            owner = "module" if value is module else "object"
            names = [name for name in dir(value) if not name.startswith("_")]
            raise Problem(
                errors.APPLICATION,
                f"the {owner} '{getattr(value, '__name__', value)}' has no attribute '{part}'{near(part, names)}",
                hint=f"in the target '{target}'{_candidates(module)}",
            ) from None
    if call:
        return _made(value, target, _arguments(arguments, target))
    return _made(value, target) if factory else value


def _candidates(module: ModuleType) -> str:
    """What a target could name: what is so called as a rule, be it an object of a framework, or what was made there."""
    names = [name for name in DEFAULTS if callable(getattr(module, name, None))]
    names += [
        name
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
        if name not in DEFAULTS
    ]
    return f"; callable there: {', '.join(names[:8])}" if names else ""


def _arguments(text: str, target: str) -> tuple[list[Any], dict[str, Any]]:
    """Literal arguments of a call, without running anything."""
    import ast

    try:
        call = ast.parse(f"f({text}", mode="eval").body
        if not isinstance(call, ast.Call):
            raise ValueError
        positional = [ast.literal_eval(argument) for argument in call.args]
        named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg}
    except (SyntaxError, ValueError):
        raise Problem(
            errors.APPLICATION,
            f"the call in the target '{target}' cannot be read",
            hint="arguments are literals, such as 'shop:make(\"production\", debug=False)'",
        ) from None
    return positional, named


#: For who has told us to call what is no factory, or one that needs more.
UNFIT = (
    "if it is the application itself, leave out --factory, or the brackets behind its name; a factory's arguments "
    "stand in the target, such as 'shop:make(\"production\")'"
)


def _made(function: Any, target: str, arguments: tuple[list[Any], dict[str, Any]] | None = None) -> Any:
    positional, named = arguments or ([], {})
    if not callable(function):
        raise Problem(errors.APPLICATION, f"'{target}': a {type(function).__name__} cannot be called as a factory")
    try:
        return function(*positional, **named)
    except Exception as error:
        # Where nothing of it has run it is its arguments that do not fit.
        unfit = isinstance(error, TypeError) and (trace := error.__traceback__) is not None and trace.tb_next is None
        problem = _failed(target, error)
        raise Problem(
            errors.APPLICATION,
            f"the factory of '{target}' raised {type(error).__name__}",
            hint=UNFIT if unfit else problem.hint,
            traceback=problem.traceback,
        ) from None


def check(application: Any, target: str) -> Callable[..., Any]:
    """The application, if it is one that can be called. Raises Problem."""
    if not callable(application):
        kind = type(application).__name__
        raise Problem(
            errors.APPLICATION,
            f"'{target}' is {'an' if kind[0] in 'aeioAEIO' else 'a'} {kind}, which is not callable",
            hint="a WSGI application is called with (environ, start_response), an ASGI one with (scope, receive, send)",
        )
    return application  # type: ignore[no-any-return]


def _called_if_factory(application: Callable[..., Any], target: str) -> Callable[..., Any]:
    """The application, or what it returns where it can only be a function that makes one: it takes no argument, or
    none that it needs. Raises Problem."""
    code = getattr(application, "__code__", None)
    # 0x04 is CO_VARARGS: it takes as many as come. 0x80 is CO_COROUTINE.
    if code is None or code.co_flags & 0x84 or code.co_argcount > 1:
        return application
    if code.co_argcount > len(getattr(application, "__defaults__", None) or ()):
        raise Problem(
            errors.APPLICATION,
            f"'{target}' takes one argument: '{code.co_varnames[0]}'",
            hint="a WSGI application is called with (environ, start_response), an ASGI one with (scope, receive, "
            "send); a factory's arguments stand in the target, such as 'shop:make(\"production\")'",
        )
    from forehand.supervisor import log

    log.write("warning", f"'{target}' can only be a factory, and is called as one: say --factory")
    return check(_made(application, target), target)


def is_asgi(application: Any, interface: str) -> bool:
    """True where the application is to be called as ASGI: by `--interface`, or by its looks."""
    return interface == "asgi" or interface == "auto" and _is_asgi(application)


def _is_asgi(application: Any) -> bool:
    """True for what is called with (scope, receive, send)."""
    # Code flags instead of `inspect`, which costs a megabyte: 0x80 is CO_COROUTINE.
    inherited = [vars(kind).get("__call__") for kind in type(application).__mro__]
    for function in (application, *inherited):
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if code is None:
            continue
        if code.co_flags & 0x80:
            return True
        names = [name for name in code.co_varnames[: code.co_argcount] if name != "self"]
        if names[:3] == ["scope", "receive", "send"]:
            return True
    return False


def _django_project() -> str:
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
    if django := _django_project():
        guesses.insert(0, django)
    if guesses:
        return f"in this folder, try: forehand {guesses[0]}"
    return "such as: forehand shop.wsgi, or forehand app:application"
