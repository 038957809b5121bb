"""The web servers and what is behind them, each started once for all tests of a process."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import Serving
from webservers import BODY, ROWS, Front, Row, WebServer, protocols

#: What is behind the web servers, by the folder of its sockets.
BACKENDS = {
    "wsgi": ("fronted:checked",),
    "asgi": ("fronted:app", "--interface=asgi"),
    "wsgi-mounted": ("fronted:checked", "--script-name=/blog"),
    "asgi-mounted": ("fronted:app", "--interface=asgi", "--script-name=/blog"),
}


@pytest.fixture(scope="session")
def backends() -> Iterator[tuple[Path, dict[str, Serving]]]:
    """A folder that everybody can enter, with their sockets; the servers. None of them has found its application at
    fault, nor the application's judge a request."""
    folder = Path(tempfile.mkdtemp(prefix="forehand-fronts-"))
    folder.chmod(0o755)
    running = {}
    try:
        for name, (target, *options) in BACKENDS.items():
            (folder / name).mkdir(mode=0o755)
            binds = [
                f"--bind={'' if one == 'HTTP' else f'{one.lower()}:'}unix:{folder}/{name}/{one.lower()}.sock"
                for one in protocols()
            ]
            limits = (f"--limit-body-bytes={BODY}", "--forwarded-headers=x-forwarded")
            running[name] = Serving(target, *options, *binds, *limits)
        yield folder, running
        for name, served in running.items():
            assert served.stop() == 0, name
            assert "AssertionError" not in served.log(), "wsgiref.validate"
    finally:
        for served in running.values():
            served.kill()
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def front(backends: tuple[Path, dict[str, Serving]]) -> Iterator[Front]:
    """`front(row, "asgi")`: the port of the row's web server behind which that is."""
    running: dict[str, WebServer] = {}

    def start(row: Row, backend: str) -> int:
        if row.server not in running:
            folder = Path(tempfile.mkdtemp(prefix="forehand-front-"))
            folder.chmod(0o777)
            running[row.server] = WebServer(row.server, folder, backends[0])
        return running[row.server].ports[row.protocol, backend]

    yield start
    for server in running.values():
        server.stop()
        shutil.rmtree(server.folder)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`row`: every row of the page; `kind`: both kinds of applications."""
    if "row" in metafunc.fixturenames:
        metafunc.parametrize("row", ROWS, ids=str)
    if "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", ["wsgi", "asgi"])
