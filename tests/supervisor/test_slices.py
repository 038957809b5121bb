"""Threads that serve have short slices of a processor, and nothing else of a server has."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import kernel_slices
import pytest
from asking import get, pids
from serving import PYTHON, Serving

Serve = Callable[..., Serving]

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or kernel_slices.GET < 0 or not kernel_slices.slice_ms(),
    reason="threads have no slices of their own here",
)

#: Slices of threads that serve, and those that the system gives to whoever does not ask, in milliseconds.
SHORT = 0.3
USUAL = 0.0 if kernel_slices.GET < 0 else kernel_slices.slice_ms()

APPLICATION = """
import os
import subprocess
import sys
import threading

SLICE = [sys.executable, "-c", "import kernel_slices; print(kernel_slices.slice_ms())"]


def started():
    '''Slices of a thread, a program and a child that a view has started.'''
    import kernel_slices

    found = []
    thread = threading.Thread(target=lambda: found.append(kernel_slices.slice_ms()))
    thread.start()
    thread.join()
    found.append(subprocess.check_output(SLICE, text=True).strip())
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, str(kernel_slices.slice_ms()).encode())
        os._exit(0)
    found.append(os.read(reader, 100).decode())
    return " ".join(map(str, found)).encode()


def application(environ, start_response):
    text = started() if environ["PATH_INFO"] == "/started" else b"done"
    start_response("200 OK", [("Content-Length", str(len(text)))])
    return [text]


async def asgi(scope, receive, send):
    if scope["type"] == "http":
        text = started() if scope["path"] == "/started" else b"done"
        length = [(b"content-length", str(len(text)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": length})
        await send({"type": "http.response.body", "body": text})
"""

HELPER = str(Path(kernel_slices.__file__))


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """The application `starting`; its folder."""
    (tmp_path / "starting.py").write_text(APPLICATION)
    (tmp_path / "kernel_slices.py").write_text(Path(HELPER).read_text())
    return tmp_path


def by_kind(server: Serving) -> tuple[set[float], set[float]]:
    """Slices of the worker's threads that serve, and of all others; under an event loop the main thread serves."""
    [worker] = pids(server)
    found = kernel_slices.of_process(worker)
    serving = {one for one, (name, _) in found.items() if name.removeprefix("forehand-").isdigit()} or {worker}
    slices = {one: ms for one, (_, ms) in found.items()}
    return {slices[one] for one in serving}, {ms for one, ms in slices.items() if one not in serving}


@pytest.mark.parametrize(
    "options", [("application",), ("asgi",), ("application", "--worker-class", "gevent")], ids=" ".join
)
def test_threads_that_serve_have_short_slices_and_what_they_start_has_usual_ones(
    serve: Serve, app: Path, options: tuple[str, ...]
) -> None:
    server = serve(f"starting:{options[0]}", *options[1:], cwd=app)
    assert get(server)[0] == 200
    server.until(lambda: by_kind(server) == ({SHORT}, {USUAL}))
    status, text = get(server, "/started")
    # Under gevent a thread that an application starts is a greenlet, and runs where all others do.
    thread = SHORT if "gevent" in options else USUAL
    assert status == 200 and [float(word) for word in text.split()] == [thread, USUAL, USUAL]
    assert {ms for _, ms in kernel_slices.of_process(server.pid).values()} == {USUAL}


@pytest.mark.parametrize("target", ["application", "asgi"])
def test_slices_that_somebody_has_given_to_the_server_stay(serve: Serve, app: Path, target: str) -> None:
    server = serve(f"starting:{target}", cwd=app, program=(PYTHON, HELPER, "3", PYTHON, "-m", "forehand"))
    assert by_kind(server) == ({3.0}, {3.0})
    assert [float(word) for word in get(server, "/started")[1].split()] == [3.0] * 3


@pytest.mark.skipif(os.geteuid() != 0, reason="a higher priority is for root")
def test_what_a_server_of_higher_priority_starts_keeps_it(serve: Serve, app: Path) -> None:
    # Above the usual one, also where the tests themselves run below it.
    above = str(-1 - os.getpriority(os.PRIO_PROCESS, 0))
    server = serve("starting:application", cwd=app, program=("nice", "-n", above, PYTHON, "-m", "forehand"))
    server.until(lambda: by_kind(server) == ({SHORT}, {USUAL}))
    assert [float(word) for word in get(server, "/started")[1].split()] == [SHORT] * 3


@pytest.mark.parametrize("target", ["application", "asgi"])
def test_where_the_kernel_refuses_the_call_it_is_told_once_at_debug_level(serve: Serve, app: Path, target: str) -> None:
    program = (PYTHON, HELPER, "refuse", PYTHON, "-m", "forehand")
    server = serve(f"starting:{target}", "--log-level", "debug", cwd=app, program=program)
    assert get(server)[0] == 200
    assert by_kind(server) == ({USUAL}, {USUAL})
    server.says("threads have no slices of a processor of their own here")
    assert server.log().count("no slices of a processor") == 1
