"""The right answers: an application called here, without a server, by the rules of PEP 3333.

What it says is what every server has to say. Knows applications of lab/apps; those of one's own are asked by own.py.
Also writes the files that servers of files hand out.
"""

from __future__ import annotations

import importlib.util
import io
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit
from wsgiref.util import FileWrapper, setup_testing_defaults

from forehand_lab import HERE
from forehand_lab.scenario import Answer, Request, Scenario

# A reply longer than this is compared by what a server sends within it.
LONGEST = 64 * 1024 * 1024
FILES = {
    "pong": ("pong", "/"),
    **{name: ("pages", f"/{name}") for name in ("static", "static-read", "page", "400k", "profile")},
}


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


def right(scenario: Scenario, request: Request) -> Answer | None:
    """What every server has to answer; None where nobody here can tell (Django, which is not installed beside the lab).

    Of an application of one's own it was asked before (own.py), in the environment that its servers have.
    """
    if request in scenario.answers:
        return scenario.answers[request]
    if scenario.setting.own:
        return None
    if scenario.setting.module == "django_site":
        if request.body is None:
            return None
        body = request.body.encode()
        return Answer(request.status, (("Content-Type", "text/plain"), ("Content-Length", str(len(body)))), body)
    return answer(scenario.setting.module, request.method, request.target, request.sent_body())


def written(folder: Path) -> None:
    """The files that a server of files needs in order to say what the applications say."""
    folder.mkdir()
    for name, (module, target) in FILES.items():
        (folder / name).write_bytes(answer(module, "GET", target).body)
