"""`forehand.serve` in a thread of a program: however that program ends, its interpreter ends in order."""

from __future__ import annotations

import contextlib
import importlib.util
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import PATIENCE, read_reply

pytestmark = pytest.mark.interpreters

PROGRAM = """
import os, sys, threading, time
pause = time.sleep
{patch}
import forehand

def application(environ, start_response):
    path = environ["PATH_INFO"].strip("/")
    if path:
        time.sleep(float(path))
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]

async def asynchronous(scope, receive, send):
    if scope["type"] != "http":
        return
    import asyncio
    path = scope["path"].strip("/")
    if path:
        await asyncio.sleep(float(path))
    await send(dict(type="http.response.start", status=200, headers=[(b"content-length", b"2")]))
    await send(dict(type="http.response.body", body=b"ok"))

class Slow:
    # While the interpreter takes its modules down, threads come back and want it.
    def __del__(self):
        pause(0.2)

def serve():
    forehand.serve({application}, bind=["fd://" + sys.argv[1]], graceful_timeout=float(sys.argv[3]){options})

threading.Thread(target=serve, daemon={daemon}).start()
sys.modules["kept"] = Slow()
how = sys.argv[2]
if how == "waits":
    while True:
        # The kernel may give a signal to any thread, and then it interrupts nobody's sleep.
        time.sleep(0.05)
os.read(0, 1)
if how == "exits":
    sys.exit(0)
if how == "raises":
    raise RuntimeError("raised in the main thread")
"""
KINDS = {
    "threads": {"patch": "", "application": "application", "options": ""},
    "asyncio": {"patch": "", "application": "asynchronous", "options": ", loop='asyncio'"},
}
if importlib.util.find_spec("gevent"):
    KINDS["gevent"] = {
        "patch": "from gevent import monkey; monkey.patch_all(thread=False)",
        "application": "application",
        "options": ", worker_class='gevent'",
    }


class Program:
    """A program that serves in a thread, with a client for ever."""

    def __init__(self, kind: str, how: str, folder: Path, *, daemon: bool = True, patience: float = 10) -> None:
        (folder / "program.py").write_text(PROGRAM.format(**KINDS[kind], daemon=daemon))
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        fd = listener.fileno()
        self.process = subprocess.Popen(
            [sys.executable, str(folder / "program.py"), str(fd), how, str(patience)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[fd],
        )
        listener.close()
        self.answered = threading.Semaphore(0)
        self.clients = [threading.Thread(target=self.ask_for_ever) for _ in range(4)]
        for client in self.clients:
            client.start()
        for _ in range(40):
            assert self.answered.acquire(timeout=PATIENCE), self.end()

    def ask(self, path: str = "") -> None:
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as sock:
            sock.sendall(f"GET /{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
            assert read_reply(sock, bytearray())[2] == b"ok"

    def ask_for_ever(self) -> None:
        try:
            while True:
                self.ask("0.002")
                self.answered.release()
        except (OSError, AssertionError):
            pass  # the port is closed, or a new connection was not taken any more

    def end(self) -> tuple[int, str]:
        """The program's exit status and what it has said, once it is over."""
        try:
            _, said = self.process.communicate(timeout=PATIENCE)
        finally:
            self.process.kill()
        for client in self.clients:
            client.join()
        return self.process.returncode, said.decode()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    yield str(request.param)


@pytest.mark.parametrize(("how", "status"), [("returns", 0), ("exits", 0), ("raises", 1)])
def test_the_interpreter_ends_in_order_when_the_main_thread_does(
    kind: str, how: str, status: int, tmp_path: Path
) -> None:
    program = Program(kind, how, tmp_path)
    code, said = program.end()
    assert code == status, said
    assert ("raised in the main thread" in said) == (how == "raises")
    assert "FATAL" not in said and "Fatal" not in said, said
    assert said.count("Traceback") == (how == "raises"), said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_program_as_it_ends_any(kind: str, number: signal.Signals, tmp_path: Path) -> None:
    program = Program(kind, "waits", tmp_path)
    program.process.send_signal(number)
    code, said = program.end()
    assert code == -number, said
    assert "FATAL" not in said and "Fatal" not in said, said


def test_ctrl_c_ends_a_server_whose_thread_is_no_daemon(kind: str, tmp_path: Path) -> None:
    program = Program(kind, "returns", tmp_path, daemon=False)
    program.process.stdin.write(b"x")  # type: ignore[union-attr]
    program.process.stdin.flush()  # type: ignore[union-attr]
    program.ask()
    # The main thread is over, or will be in a moment: the server goes on, as any thread that is no daemon.
    until = time.monotonic() + PATIENCE
    while program.process.poll() is None and time.monotonic() < until:
        program.process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    code, said = program.end()
    assert code in (0, 1, -signal.SIGINT), said
    assert "FATAL" not in said and "Fatal" not in said, said


def test_requests_that_do_not_end_keep_no_program_from_its_end(kind: str, tmp_path: Path) -> None:
    program = Program(kind, "returns", tmp_path, patience=0.3)

    def ask_for(seconds: float) -> None:
        with contextlib.suppress(OSError, AssertionError):
            program.ask(str(seconds))

    # Some of them come back while the interpreter is taken down, and one never does.
    stuck = [threading.Thread(target=ask_for, args=(0.1 * n,)) for n in (*range(5, 25), 6000)]
    for one in stuck:
        one.start()
    for _ in range(20):
        assert program.answered.acquire(timeout=PATIENCE)
    code, said = program.end()
    for one in stuck:
        one.join()
    assert code == 0, said
    assert "FATAL" not in said and "Fatal" not in said, said
