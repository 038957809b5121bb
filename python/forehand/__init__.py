"""Forehand, a Python application server.

Knows: the public names. Does not know: how anything works; each is imported when it is used,
so that `import forehand` costs nothing.
"""

from __future__ import annotations

from sys import modules as _imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from typing_extensions import Unpack

    from forehand import errors as errors
    from forehand import logging as logging
    from forehand.current import request as request
    from forehand.embedded import Server as Server
    from forehand.typed import Options

__version__ = "0.1.0"
__all__ = ["RequestTimeout", "Server", "__version__", "request", "serve"]


class RequestTimeout(BaseException):
    """Raised in the thread of a request that is overdue (`--request-timeout`), wherever it is.

    Not an Exception, so that `except Exception` does not swallow it; `finally` blocks run, and
    what the application returns after it goes nowhere: its client has had 504 already.
    """


def serve(application: str | Callable[..., Any], **options: Unpack[Options]) -> int:
    """Serve an application until it is told to stop; the exit status.

    `application`: a target as on the command line (`"shop.wsgi"`, `"app:create()"`), which workers import, so that
    `workers`, `reload` and `preload` work; or the application itself, WSGI or ASGI, which this process serves alone.

    `options` are those of the command line with underscores (`bind="127.0.0.1:8000"`, `workers=2`, `timeout=30`,
    `limit_body_bytes="10M"`); their other names are understood, too. One that would have no effect is refused. In the
    main thread SIGTERM and SIGINT stop it gracefully; in another thread the process's signals are left alone.

    To serve beside something else (tests, notebooks, an event loop that runs) use `forehand.Server`.

    Raises `forehand.errors.Problem` for an option that cannot be used, an application that cannot be loaded, or an
    address that cannot be bound.
    """
    from forehand.embedded import serve as serve_here

    return serve_here(application, dict(options))


def __getattr__(name: str) -> Any:
    if name == "Server":
        from forehand.embedded import Server

        if "IPython" in _imported:
            from forehand import interactive

            interactive.spell_out(Server)
        return Server
    if name == "errors":
        # Whoever catches `forehand.errors.Problem` has imported `forehand` alone.
        import forehand.errors

        return forehand.errors
    if name == "request":
        from forehand.current import request

        globals()[name] = request
        return request
    if name == "logging":
        import forehand.logging

        return forehand.logging
    raise AttributeError(f"module 'forehand' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "errors", "logging"})


if "IPython" in _imported:
    from forehand import interactive

    interactive.spell_out(serve)
