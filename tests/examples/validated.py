"""Any application inside `wsgiref.validate`: `forehand validated` with VALIDATED=MODULE:ATTRIBUTE.

Knows the standard library's judge of both sides of PEP 3333. Runs in the server under test.
"""

import importlib
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from wsgiref.validate import validator

_module, _, _attribute = os.environ["VALIDATED"].partition(":")
_application = getattr(importlib.import_module(_module), _attribute)


class _Input:
    """The request's body, which may be read without saying how much.

    Told that the input ends, Werkzeug calls read() with no size. PEP 3333 allows that, the judge does not.
    """

    def __init__(self, judged: Any) -> None:
        self._judged = judged

    def __getattr__(self, name: str) -> Any:
        return getattr(self._judged, name)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._judged)

    def read(self, size: int = -1) -> bytes:
        return self._judged.read(size)


def _unsized(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    return _application({**environ, "wsgi.input": _Input(environ["wsgi.input"])}, start_response)


application = validator(_unsized)
