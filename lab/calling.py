"""Calls an application without a server, by PEP 3333 or ASGI 3: `calling.py ASKED.json TOLD.json`.

Runs in an environment of a contestant's, in a process of its own; knows nothing of the lab. Each request is called
twice, as two servers would: what the application says of ports and servers then differs, and is not asked of anybody.
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import inspect
import io
import json
import os
import sys
from typing import Any
from urllib.parse import unquote, urlsplit
from wsgiref.util import FileWrapper, setup_testing_defaults

PORTS = (8000, 9001)
STARTUP_SECONDS = 30.0


def is_asgi(application: Any) -> bool:
    """Whether it is called as ASGI 3 has it: a coroutine function, or an object whose call is one."""
    call = getattr(application, "__call__", None)  # noqa: B004  its kind is asked for, not whether it is there
    return inspect.iscoroutinefunction(application) or inspect.iscoroutinefunction(call)


def by_wsgi(application: Any, request: dict[str, Any], port: int) -> dict[str, Any]:
    """What it says to one request."""
    parts, body = urlsplit(request["target"]), base64.b64decode(request["body"])
    environ: dict[str, Any] = {"SERVER_PORT": str(port), "HTTP_HOST": f"127.0.0.1:{port}"}
    setup_testing_defaults(environ)
    environ.update({
        "REQUEST_METHOD": request["method"],
        "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_SOFTWARE": f"calling/{port}",
        "REMOTE_ADDR": "127.0.0.1",
        "REMOTE_PORT": str(port + 1),
        "PATH_INFO": unquote(parts.path, "latin-1"),
        "QUERY_STRING": parts.query,
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.file_wrapper": FileWrapper,
    })  # fmt: skip
    if body:
        environ["CONTENT_LENGTH"] = str(len(body))
    for name, value in request["headers"]:
        key = name.upper().replace("-", "_")
        environ[key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"] = value
    told: list[Any] = []
    written: list[bytes] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: object = None) -> Any:
        told[:] = [status, headers]
        return written.append

    result = application(environ, start_response)
    try:
        written.extend(result)
    finally:
        if hasattr(result, "close"):
            result.close()
    return {"status": int(told[0].split()[0]), "headers": list(map(list, told[1])), "body": b"".join(written)}


async def by_asgi(application: Any, request: dict[str, Any], port: int, state: dict[str, Any]) -> dict[str, Any]:
    """The same by ASGI."""
    parts, body = urlsplit(request["target"]), base64.b64decode(request["body"])
    headers = [["host", f"127.0.0.1:{port}"], *request["headers"]]
    if body:
        headers.append(["content-length", str(len(body))])
    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "scheme": "http",
        "method": request["method"], "path": unquote(parts.path), "raw_path": parts.path.encode(), "root_path": "",
        "query_string": parts.query.encode(), "state": dict(state), "extensions": {},
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
        "client": ("127.0.0.1", port + 1), "server": ("127.0.0.1", port),
    }  # fmt: skip
    told: dict[str, Any] = {"status": 0, "headers": [], "body": b""}
    asked = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if asked:
            return asked.pop()
        return dict(await asyncio.get_running_loop().create_future())

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            pairs = [[bytes(n).decode("latin-1"), bytes(v).decode("latin-1")] for n, v in message.get("headers", ())]
            told.update(status=message["status"], headers=pairs)
        elif message["type"] == "http.response.body":
            told["body"] += bytes(message.get("body", b""))

    await application(scope, receive, send)
    return told


async def all_by_asgi(application: Any, requests: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """All requests within one lifespan, where the application has one."""
    state: dict[str, Any] = {}
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    ending = asyncio.Event()
    told = [{"type": "lifespan.shutdown"}, {"type": "lifespan.startup"}]

    async def receive() -> dict[str, Any]:
        if len(told) == 1:
            await ending.wait()
        return told.pop()

    async def send(message: dict[str, Any]) -> None:
        if message["type"].startswith("lifespan.startup") and not started.done():
            started.set_result(message.get("message", "") if message["type"].endswith("failed") else "")

    async def lifespan() -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": state}
        try:
            await application(scope, receive, send)
        except Exception:
            # An application without a lifespan raises, and is served without one.
            pass
        finally:
            if not started.done():
                started.set_result("")

    life = asyncio.create_task(lifespan())
    failed = await asyncio.wait_for(started, STARTUP_SECONDS)
    if failed:
        raise RuntimeError(f"its lifespan said that it failed: {failed}")
    found = [[await by_asgi(application, request, port, state) for port in PORTS] for request in requests]
    ending.set()
    await asyncio.wait([life], timeout=STARTUP_SECONDS)
    return found


def _imported(name: str) -> Any:
    """A module; where it is not there, that is said, and what its own imports lack is told with their traceback."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if not missing or (name != missing and not name.startswith(f"{missing}.")):
            raise
        sys.exit(f"there is no module '{missing}' in {os.getcwd()}")


def main(source: str, target: str) -> None:
    """Asks, and writes down what was said."""
    with open(source) as file:
        asked = json.load(file)
    sys.path[0] = os.getcwd()
    module = _imported(asked["module"])
    if asked["prepare"]:
        getattr(module, asked["prepare"])()
    if not hasattr(module, asked["attribute"]):
        sys.exit(f"the module '{asked['module']}' has no attribute '{asked['attribute']}'")
    application = getattr(module, asked["attribute"])
    asgi = is_asgi(application) if asked["interface"] == "auto" else asked["interface"] == "asgi"
    if asgi:
        told = asyncio.run(all_by_asgi(application, asked["requests"]))
    else:
        told = [[by_wsgi(application, request, port) for port in PORTS] for request in asked["requests"]]
    for replies in told:
        for reply in replies:
            reply["body"] = base64.b64encode(reply["body"]).decode()
    with open(target, "w") as file:
        json.dump({"interface": "asgi" if asgi else "wsgi", "told": told}, file)


if __name__ == "__main__":
    main(*sys.argv[1:3])
