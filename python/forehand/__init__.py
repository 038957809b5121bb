"""Forehand, a Python application server.

Knows: the public names. Does not know: how anything works; each is imported when it is used,
so that `import forehand` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__version__ = "0.1.0"
__all__ = ["RequestTimeout", "__version__", "serve"]


class RequestTimeout(BaseException):
    """Raised in the thread of a request that is overdue (`--request-timeout`), wherever it is.

    Not an Exception, so that `except Exception` does not swallow it; `finally` blocks run, and
    what the application returns after it goes nowhere: its client has had 504 already.
    """


def serve(application: Callable[..., Any], **options: Any) -> int:
    """Serve a WSGI application until it is told to stop; the exit status.

    `options` are those of the command line with underscores (`bind=["127.0.0.1:8000"]`,
    `threads=8`, `access_log="combined"`, `limit_body_bytes="10M"`). In the main thread SIGTERM
    and SIGINT stop it gracefully; in another thread the process's signals are left alone.

    Raises `forehand.errors.Problem` for an option that cannot be used or an address that
    cannot be bound.
    """
    from forehand.run import serve_application

    return serve_application(application, options)
