"""The web servers and what is behind them, all of them started at once, for all tests of a process."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from serving import Serving
from tlsfiles import Authority
from webservers import BODY, ROWS, Front, Row, WebServer, protocols

#: What is behind the web servers, by the folder of its sockets.
BACKENDS = {
    "wsgi": ("fronted:checked",),
    "asgi": ("fronted:app", "--interface=asgi"),
    "wsgi-mounted": ("fronted:checked", "--script-name=/blog"),
    "asgi-mounted": ("fronted:app", "--interface=asgi", "--script-name=/blog"),
}


def start_backend(folder: Path, name: str) -> Serving:
    """A server with a socket in that folder for each protocol."""
    target, *options = BACKENDS[name]
    words = {"HTTP": "http://", "HTTPS": "https://"}
    binds = [
        f"--bind={words.get(one, f'{one.lower()}:')}unix:{folder}/{name}/{one.lower()}.sock" for one in protocols()
    ]
    binds += [f"--tls-cert={folder}/shop.pem", f"--tls-key={folder}/shop.key"]
    limits = (f"--limit-body-bytes={BODY}", "--forwarded-headers=x-forwarded")
    return Serving(target, *options, *binds, *limits)


def start_web_server(folder: Path, name: str) -> WebServer:
    """A web server with the backends of that folder behind it, in a folder below that is its own."""
    own = folder / name.replace(" ", "-")
    own.mkdir()
    own.chmod(0o777)
    return WebServer(name, own, folder)


@pytest.fixture(scope="session")
def front(request: pytest.FixtureRequest) -> Iterator[Front]:
    """`front(row, "asgi")`: the port of the row's web server behind which that is. No backend has found its application
    at fault in the end, nor the application's judge a request."""
    folder = Path(tempfile.mkdtemp(prefix="forehand-fronts-"))
    folder.chmod(0o755)
    authority = Authority(folder, "ca")
    authority.issue("shop", "shop.example")
    for name in BACKENDS:
        # Web servers look for them when they start.
        (folder / name).mkdir(mode=0o755)
        shutil.copy(authority.file, folder / name)
    asked = {item.callspec.params["row"].server for item in request.session.items if hasattr(item, "callspec")
             and "row" in item.callspec.params}  # fmt: skip
    with ThreadPoolExecutor(len(BACKENDS) + len(asked)) as pool:
        backends = {name: pool.submit(start_backend, folder, name) for name in BACKENDS}
        servers = {name: pool.submit(start_web_server, folder, name) for name in asked}

        def port(row: Row, backend: str) -> int:
            for one in backends.values():
                one.result()
            return servers[row.server].result().ports[row.protocol, backend]

        try:
            yield port
        finally:
            running = [one.result() for one in servers.values() if not one.exception()]
            for server in running:
                server.process.terminate()
            for server in running:
                server.stop()
            served = {name: one.result() for name, one in backends.items() if not one.exception()}
            ended = {name: pool.submit(one.stop) for name, one in served.items()}
            logs = {name: ended[name].exception() or ended[name].result() or one.log() for name, one in served.items()}
            for one in served.values():
                one.kill()
            shutil.rmtree(folder)
    for name, log in logs.items():
        assert isinstance(log, str), f"{name} ended with {log}"
        assert "AssertionError" not in log, f"{name}: wsgiref.validate"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`row`: every row of the page; `kind`: both kinds of applications."""
    if "row" in metafunc.fixturenames:
        metafunc.parametrize("row", ROWS, ids=str)
    if "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", ["wsgi", "asgi"])
