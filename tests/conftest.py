"""Fixtures that all tests share."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from browsing import browser as browser
from serving import RUNNING, SHOWN_OF_LOG, Serving, Shared

#: Folders whose files share servers.
SHARING = ("tests/fronts",)
#: Files that build something, or take most of a minute: nobody shall wait for the last of them alone.
LONG = (
    "tests/test_install.py", "tests/lab/test_lab_hosts.py", "tests/asgi/test_autobahn.py", "tests/inside/test_page.py",
    "tests/server/test_testssl.py", "tests/inside/test_profile.py",
)  # fmt: skip

# A script's background ignores Ctrl-C, and whatever is started there as well: servers that tests end by it must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Which tests run in one process, where several share them (`-n N --dist loadgroup`).

    Those of a file do, one after the other, as they share servers, and so do those of a folder that does; but not in
    files whose tests are marked `apart`: they are long, share nothing, and begin first. Then what is long and stays
    together.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    for item in items:
        if not item.get_closest_marker("apart"):
            group = next((folder for folder in SHARING if item.location[0].startswith(folder)), item.location[0])
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: (item.get_closest_marker("apart") is None, item.location[0] not in LONG))


def pytest_collection_finish() -> None:
    """Thousands of tests are there until the end: nobody goes through them again to look for garbage."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """With a test that fails comes what its servers, and those that it shares, have written."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.failed:
        for server in list(RUNNING):
            report.sections.append((f"log of the server at {server.url}", server.log()[-SHOWN_OF_LOG:]))


@pytest.fixture
def serve() -> Iterator[Callable[..., Serving]]:
    """Start servers with `serve(target, *options)`; each is ended, and must end, with the test."""
    started: list[Serving] = []

    def start(target: str, *options: str, **more: object) -> Serving:
        server = Serving(target, *options, **more)
        started.append(server)
        return server

    yield start
    for server in started:
        server.kill()


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    """Servers that tests of a file have in common: `shared(target, *options)`."""
    servers = Shared()
    yield servers
    servers.end()


@pytest.fixture(scope="session")
def echo() -> Iterator[Serving]:
    """A server of the echo application, for all tests that change nothing."""
    server = Serving("echo:application")
    yield server
    server.kill()
