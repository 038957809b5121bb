"""The application that a target names: `shop.wsgi:application`, `shop.wsgi`, `shop:make()`.

Knows: modules and attributes. Does not know: how the application is served. Each mistake is
told with what was tried, what is wrong and what to do next; a traceback that is shown is the
application's own.
"""

from __future__ import annotations

import os
import sys

from forehand import errors
from forehand.errors import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

#: What an application is called where a target does not say it.
DEFAULTS = ("application", "app")


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
    from forehand import target_hints

    target_hints.judge_file(path, attribute, target)
    from importlib import util
    from importlib.machinery import SourceFileLoader

    name = os.path.basename(os.path.splitext(os.path.normpath(path))[0])
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
        raise target_hints.failed(path, error) from None
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
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: an import that exits is a failure
        from forehand import target_hints

        raise target_hints.not_imported(name, target, error) from None


def _attribute(module: ModuleType, attribute: str, target: str, factory: bool) -> Any:
    if not attribute:
        for name in DEFAULTS:
            if hasattr(module, name):
                return _made(getattr(module, name), target) if factory else getattr(module, name)
        from forehand import target_hints

        raise target_hints.without_application(module, DEFAULTS)
    path, call, arguments = attribute.partition("(")
    value: Any = module
    for part in path.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            from forehand import target_hints

            raise target_hints.without_attribute(module, DEFAULTS, value, part, target) from None
    if call:
        return _made(value, target, _arguments(arguments, target))
    return _made(value, target) if factory else value


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


def _made(function: Any, target: str, arguments: tuple[list[Any], dict[str, Any]] | None = None) -> Any:
    positional, named = arguments or ([], {})
    if not callable(function):
        raise Problem(errors.APPLICATION, f"'{target}': a {type(function).__name__} cannot be called as a factory")
    try:
        return function(*positional, **named)
    except Exception as error:
        from forehand import target_hints

        raise target_hints.not_made(target, error) from None


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
