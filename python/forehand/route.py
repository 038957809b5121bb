"""What Django or Flask has matched of a request's path, told to the server's metrics (`http_route`).

    MIDDLEWARE = ["forehand.route.Django", ...]     # Django
    forehand.route.flask(app)                       # Flask

Knows: where they keep it. Does not know: what becomes of it. Starlette and FastAPI need no such thing; whoever matches
paths otherwise sets `environ["forehand.route"]`, or the same key of `scope`. Runs where the application does.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Django:
    """Middleware for Django, with and without async; anywhere in the list."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[..., Any]) -> None:
        self.get_response = get_response
        asgiref = sys.modules.get("asgiref.sync")
        if asgiref is not None and asgiref.iscoroutinefunction(get_response):
            asgiref.markcoroutinefunction(self)

    def __call__(self, request: Any) -> Any:
        """Pass it on: a response, or under async what can be awaited for one."""
        return self.get_response(request)

    def process_view(self, request: Any, *_: object) -> None:
        """Say which pattern has matched; Django calls this before the view."""
        told = getattr(request, "scope", None) or request.META
        told["forehand.route"] = "/" + request.resolver_match.route


def flask(app: Any) -> None:
    """Have a Flask application say which rule has matched."""

    # Flask calls these before whatever may answer in place of the view, as a login does.
    @app.url_value_preprocessor  # type: ignore[untyped-decorator, unused-ignore]
    def tell(*_: object) -> None:
        from flask import request

        if request.url_rule is not None:
            request.environ["forehand.route"] = request.url_rule.rule
