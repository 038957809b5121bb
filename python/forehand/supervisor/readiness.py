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
    call without arguments that must neither raise nor return False. Raises Problem."""
    if not how.startswith("/"):
        from forehand.supervisor.hooks import find

        try:
            answer = forked.parent_only(find(how, "readiness"))
        except Problem:
            raise
        except Exception as error:
            raise failed(how, f"raised {type(error).__name__}: {error}", error) from None
        if answer is False:
            raise failed(how, "returned False")
        return
    try:
        status = forked.parent_only(_get, how, application)
    except Exception as error:
        raise failed(how, f"raised {type(error).__name__}: {error}", error) from None
    if not status[:3].isdigit() or int(status[:3]) >= 400:
        raise failed(how, f"answered {status or 'nothing'}")


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
