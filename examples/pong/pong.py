"""The smallest application with a page that shows that it works.

`/` is a page with what the server has seen of the request; `/ping` answers `Pong!`.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

PAGE = (Path(__file__).parent / "page.html").read_text()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """The WSGI application."""
    path = environ["PATH_INFO"]
    if path == "/ping":
        return _answer(start_response, "200 OK", "text/plain", b"Pong!")
    if path == "/":
        rows = "".join(
            f"<tr><th>{html.escape(key)}</th><td>{html.escape(str(value))}</td></tr>"
            for key, value in sorted(environ.items())
        )
        return _answer(start_response, "200 OK", "text/html; charset=utf-8", PAGE.replace("{rows}", rows).encode())
    return _answer(start_response, "404 Not Found", "text/plain", b"There is / and /ping.\n")


def _answer(start_response: Callable[..., Any], status: str, kind: str, body: bytes) -> list[bytes]:
    start_response(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
    return [body]
