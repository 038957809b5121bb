"""The readiness call: a worker shows that it can answer before anybody depends on it.

Knows: the application as WSGI sees it. Does not know: sockets: the request never leaves the
process, so that it reaches this worker and no other.
"""

from __future__ import annotations

import io
import sys

from forehand import errors, forked
from forehand.errors import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def prove(how: str, application: Callable[..., Any]) -> None:
    """`/path`: a GET of the application, whose status must be below 400. `module:callable`: a
    call without arguments that must neither raise nor return False. `auto`: Django's URLs. Raises Problem."""
    if how in ("", "none"):
        return
    if how == "auto":
        resolve_urls()
        return
    if not how.startswith("/"):
        from forehand.supervisor.hooks import find

        try:
            answer = forked.parent_only(find(how, "readiness"))
        except Problem:
            raise
        except (Exception, SystemExit) as error:  # what exits is a failure, as at the import
            raise failed(how, f"raised {type(error).__name__}: {error}", error) from None
        if answer is False:
            raise failed(how, "returned False")
        return
    try:
        status = forked.parent_only(_get, how, application)
    except (Exception, SystemExit) as error:  # what exits is a failure, as at the import
        raise failed(how, f"raised {type(error).__name__}: {error}", error) from None
    if not status[:3].isdigit() or int(status[:3]) >= 400:
        raise failed(how, f"answered {status or 'nothing'}")


def resolve_urls() -> None:
    """Of a Django application: import every module that its URLs name, which it would otherwise do at the first
    request, so that code that is broken there is found before anybody depends on it. Raises Problem."""
    conf = sys.modules.get("django.conf")
    handlers = ("django.core.handlers.wsgi", "django.core.handlers.asgi")
    if conf is None or not any(name in sys.modules for name in handlers):
        return
    if not conf.settings.configured or not getattr(conf.settings, "ROOT_URLCONF", None):
        return
    from django.urls import get_resolver  # type: ignore[import-untyped,unused-ignore]

    def walk(patterns: Any) -> None:
        for pattern in patterns:
            walk(getattr(pattern, "url_patterns", ()))

    try:
        forked.parent_only(walk, get_resolver().url_patterns)
    except (Exception, SystemExit) as error:  # what exits is a failure, as at the import
        import traceback

        shown = errors.own_frames(error.__traceback__)
        raise Problem(
            errors.APPLICATION,
            f"Django's URLs cannot be resolved: {type(error).__name__} in what {conf.settings.ROOT_URLCONF} imports",
            hint="each page would answer 500: the worker takes no requests; --readiness none serves anyway",
            traceback="".join(traceback.format_exception(type(error), error, shown)),
        ) from None


def _get(path: str, application: Callable[..., Any]) -> str:
    answered: list[str] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], None]:
        answered.append(status)
        return lambda data: None

    path, _, query = path.partition("?")
    environ = {
        "REQUEST_METHOD": "GET", "SCRIPT_NAME": "", "PATH_INFO": path, "QUERY_STRING": query,
        "SERVER_NAME": "localhost", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": "localhost", "HTTP_USER_AGENT": "forehand-readiness", "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(), "wsgi.errors": sys.stderr, "wsgi.multithread": True,
        "wsgi.multiprocess": True, "wsgi.run_once": False,
    }  # fmt: skip
    body = application(environ, start_response)
    try:
        for _ in body:
            pass
    finally:
        if hasattr(body, "close"):
            body.close()
    return answered[-1] if answered else ""


def failed(how: str, what: str, error: BaseException | None = None) -> Problem:
    import traceback

    text = "".join(traceback.format_exception(error)) if error is not None else ""
    return Problem(
        errors.APPLICATION,
        f"the readiness call '{how}' {what}",
        hint="the worker takes no requests; --readiness names the call",
        traceback=text,
    )
