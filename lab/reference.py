"""The right answers: an application called here, without a server, by the rules of PEP 3333.

What it says is what every server has to say. Also writes the files that servers of files hand out.
"""

from __future__ import annotations

import importlib.util
import io
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit
from wsgiref.util import FileWrapper, setup_testing_defaults

from forehand_lab import HERE

# A reply longer than this is compared by what a server sends within it.
LONGEST = 64 * 1024 * 1024
FILES = {
    "pong": ("pong", "/"),
    **{name: ("pages", f"/{name}") for name in ("static", "static-read", "page", "400k", "profile")},
}


@dataclass(frozen=True)
class Answer:
    """Status, the headers that matter, body."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str:
        """A header's value, or nothing."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")


@cache
def loaded(module: str) -> ModuleType:
    """An application of lab/apps, under a name that collides with no other module."""
    if module == "counted":
        # It answers as pong does, and has nothing to count here.
        module = "pong"
    name = f"forehand_lab_apps_{module}"
    spec = importlib.util.spec_from_file_location(name, HERE / "apps" / f"{module}.py")
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    spec.loader.exec_module(made)
    return made


def answer(module: str, method: str, target: str, body: bytes = b"") -> Answer:
    """What the application says to a request."""
    parts = urlsplit(target)
    environ: dict[str, Any] = {}
    setup_testing_defaults(environ)
    environ |= {
        "REQUEST_METHOD": method,
        "PATH_INFO": unquote(parts.path),
        "QUERY_STRING": parts.query,
        "wsgi.input": io.BytesIO(body),
        "wsgi.file_wrapper": FileWrapper,
    }
    if body:
        environ["CONTENT_LENGTH"] = str(len(body))
    told: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: object = None) -> Any:
        told.append((status, headers))

    result = loaded(module).application(environ, start_response)
    parts_of_body = b"".join(result)[:LONGEST]
    if hasattr(result, "close"):
        result.close()
    status, headers = told[-1]
    return Answer(int(status.split()[0]), tuple(headers), b"" if method == "HEAD" else parts_of_body)


def written(folder: Path) -> None:
    """The files that a server of files needs in order to say what the applications say."""
    folder.mkdir()
    for name, (module, target) in FILES.items():
        (folder / name).write_bytes(answer(module, "GET", target).body)
