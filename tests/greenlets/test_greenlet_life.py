"""How servers of greenlets are chosen, started, asked, renewed and ended."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import HERE, PATIENCE, PYTHON, Serving, read_all, read_reply
from test_greenlets import ask, send  # type: ignore[import-not-found]

pytestmark = pytest.mark.interpreters
BENCH = HERE.parent / "bench"


def run(*words: str, env: dict[str, str] | None = None, cwd: Path = HERE / "apps") -> tuple[int, str]:
    """The command's exit status and what it said, where it ends by itself."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FOREHAND_")}
    done = subprocess.run(
        [PYTHON, "-m", "forehand", *words], cwd=cwd, env={**clean, **(env or {})}, capture_output=True, text=True,
        timeout=PATIENCE, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def plain() -> Callable[..., Serving]:
    """Start servers that are not told of gevent on the command line."""
    started: list[Serving] = []

    def start(*words: str, **more: object) -> Serving:
        started.append(Serving(*words, **more))
        return started[-1]

    yield start
    for server in started:
        server.kill()


def test_it_is_chosen_on_the_command_line_in_the_environment_and_in_toml(
    plain: Callable[..., Serving], tmp_path: Path
) -> None:
    toml = tmp_path / "some.toml"
    toml.write_text('worker_class = "gevent"\nworker_connections = 7\n')
    told = [
        plain("greenlets", "-k", "gevent", "--worker-connections", "7"),
        plain("greenlets", env={"FOREHAND_WORKER_CLASS": "gevent", "FOREHAND_WORKER_CONNECTIONS": "7"}),
        plain("greenlets", "--config", str(toml)),
    ]
    for server in told:
        assert b"patched=True parent-is-hub=True" in ask(server, "/facts")[1]
        server.says("(WSGI, gevent)")
        assert server.status()["workers"][0]["threads"] == 7


@pytest.mark.parametrize("name", ["thread", "sync", "gthread"])
def test_the_other_names_mean_threads(plain: Callable[..., Serving], name: str) -> None:
    server = plain("echo", "--worker-class", name)
    server.says("up to 32 threads")
    server.says("(WSGI)")
    assert ask(server, "/")[0] == 200


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("greenlets", "-k", "gevent", "--threads", "4"), "threads has no meaning with worker_class gevent"),
        (("echo", "--worker-connections", "4"), "worker_connections belongs to worker_class gevent"),
        (("echo", "-k", "eventlet"), "no eventlet: requests run in threads"),
        (("echo", "-k", "gevent", "--worker-connections", "0"), "0 is not between 1 and 1000000"),
        (("greenlets:asynchronous", "-k", "gevent"), "is for WSGI, and 'greenlets:asynchronous' is an ASGI"),
        (("greenlets:asynchronous", "-k", "gevent", "--check"), "is for WSGI, and 'greenlets:asynchronous' is an ASGI"),
    ],
)
def test_what_does_not_go_together_is_told_in_one_line(words: tuple[str, ...], said: str) -> None:
    status, told = run(*words, "--bind", "127.0.0.1:0")
    assert status == 2
    assert "Traceback" not in told
    (line,) = [line for line in told.splitlines() if line.startswith("forehand: ")]
    assert said in line


def test_where_gevent_is_missing_one_line_says_what_to_install(tmp_path: Path) -> None:
    from forehand import greenlets
    from forehand.errors import Problem

    with pytest.raises(Problem, match="needs the package gevent") as found:
        greenlets.require([str(tmp_path)])
    assert found.value.hint == "install it: pip install gevent"
    # It is found and cannot be imported: an installation that is broken.
    (tmp_path / "gevent").mkdir()
    (tmp_path / "gevent" / "__init__.py").write_text("raise ImportError('broken on purpose')")
    status, told = run("greenlets", "-k", "gevent", "--bind", "127.0.0.1:0", "--pythonpath", str(tmp_path))
    assert status == 2
    assert "gevent cannot be imported (broken on purpose)" in told and "pip install gevent" in told
    assert "Traceback" not in told


def test_a_check_patches_and_imports(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text("from greenlets import PATCHED, application\nassert PATCHED")
    status, told = run("late", "-k", "gevent", "--check", "--pythonpath", str(HERE / "apps"), cwd=tmp_path)
    assert (status, "late loads" in told) == (0, True)


@pytest.mark.parametrize("workers", ["0", "1", "3"])
def test_a_stop_waits_for_what_runs(serve: Callable[..., Serving], workers: str) -> None:
    server = serve("greenlets", "--workers", workers)
    socks = [send(server, "/nap?0.3") for _ in range(9)]
    server.until(lambda: server.log().count("naps") == 9)
    server.process.send_signal(signal.SIGTERM)
    for sock in socks:
        assert read_reply(sock, bytearray())[2] == b"slept"
        sock.close()
    assert server.process.wait(PATIENCE) == 0


@pytest.mark.parametrize("workers", ["0", "1"])
def test_what_runs_longer_than_the_grace_is_killed_and_may_clean_up(
    serve: Callable[..., Serving], workers: str
) -> None:
    server = serve("greenlets", "--workers", workers, "--graceful-timeout", "300ms")
    with send(server, "/forever") as sock:
        server.until(lambda: "begins to wait" in server.log())
        server.process.send_signal(signal.SIGTERM)
        assert read_all(sock).startswith(b"HTTP/1.1 503 ")
    assert server.process.wait(PATIENCE) == 1
    server.says("was ended by GreenletExit\ncleaned up")
    server.says("1 request was cut")


@pytest.mark.parametrize("workers", ["0", "1"])
def test_one_that_does_not_let_itself_be_killed_is_abandoned(serve: Callable[..., Serving], workers: str) -> None:
    server = serve("greenlets", "--workers", workers, "--graceful-timeout", "200ms")
    with send(server, "/stubborn"):
        server.until(lambda: "begins to wait" in server.log())
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 1
    server.says("ignores GreenletExit")
    server.says("went on after they were killed and are abandoned: GET /stubborn HTTP/1.1")


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_second_signal_does_not_wait(serve: Callable[..., Serving], workers: str) -> None:
    server = serve("greenlets", "--workers", workers, "--graceful-timeout", "1000")
    with send(server, "/forever"):
        server.until(lambda: "begins to wait" in server.log())
        server.process.send_signal(signal.SIGTERM)
        server.until(lambda: "stopping: waiting up to 1000 s" in server.log())
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 1


def test_a_reload_waits_for_what_runs_and_the_next_are_served_by_others(serve: Callable[..., Serving]) -> None:
    server = serve("greenlets")
    before = ask(server, "/facts")[1]
    with send(server, "/nap?0.5") as sock:
        server.until(lambda: "naps" in server.log())
        os.kill(server.process.pid, signal.SIGHUP)
        server.until(lambda: ask(server, "/facts")[1] != before)
        assert read_reply(sock, bytearray())[2] == b"slept"


# Renewing is the same without load on other interpreters: the tests around this one.
@pytest.mark.once
@pytest.mark.parametrize("options", [(), ("--preload",)], ids=["plain", "preloaded"])
def test_nothing_is_lost_while_the_server_is_renewed(options: tuple[str, ...]) -> None:
    sys.path.insert(0, str(BENCH))
    import reload as reloading

    result = reloading.measure(5_000, 3, 900, ("--worker-class", "gevent", *options), "reload")
    assert result["lost"] == 0, f"{result['lost_by_kind']} {result['told']}\n{result['log']}"
    assert result["done"] >= 5_000
    assert result["reloads"] == 3, result["log"]


def test_workers_of_a_preloaded_application_have_hubs_of_their_own(serve: Callable[..., Serving]) -> None:
    # How long it takes to import what runs a shell is no matter.
    quiet = ("--slow-callback-duration", "60s")
    server = serve("greenlets", "--preload", "--workers", "3", "--readiness", "/nap?0", *quiet)
    assert b"patched=True parent-is-hub=True" in ask(server, "/facts")[1]
    socks = [send(server, "/nap?0.2") for _ in range(30)]
    assert {read_reply(sock, bytearray())[2] for sock in socks} == {b"slept"}
    for sock in socks:
        sock.close()
    assert ask(server, "/shell") == (200, b"from a shell\n")
    assert server.log().count("warning") == 0, server.log()
    assert server.stop() == 0


def test_a_worker_that_dies_is_replaced(serve: Callable[..., Serving]) -> None:
    server = serve("greenlets")
    os.kill(server.workers[0], signal.SIGKILL)
    server.until(lambda: server.status()["workers"] and server.status()["workers"][0]["pid"] != server.workers[0])
    assert ask(server, "/hello") == (200, b"hello")


def test_workers_are_replaced_after_so_many_requests(serve: Callable[..., Serving]) -> None:
    server = serve("greenlets", "--max-requests", "50")
    first = server.workers[0]
    server.until(lambda: ask(server, "/hello")[0] == 200 and server.status()["workers"][0]["pid"] != first)
    server.says("it has served")


def test_a_request_that_is_overdue_is_answered_and_its_greenlet_hears_of_it(serve: Callable[..., Serving]) -> None:
    # None for the others: a machine may have no processor for one of them for as long.
    server = serve("greenlets", "--request-timeouts", "/forever=1s")
    # From now on nobody has the interpreter: who waits for it finds what comes after it has looked at the kernel, and
    # the deadline counts from that look.
    assert ask(server, "/hello") == (200, b"hello")
    server.until(lambda: server.status()["workers"][0]["busy"] == 0)
    begun = time.monotonic()
    assert ask(server, "/forever")[0] == 504
    answered = time.monotonic() - begun
    server.until(lambda: "was ended by RequestTimeout\ncleaned up" in server.log())
    log = server.log()
    overdue = re.search(r"GET /forever HTTP/1\.1: overdue after (\d+\.\d\d) s", log)
    assert overdue and 1 <= float(overdue[1]) < answered + 0.1 and "its greenlet stands at" in log
    assert "time.sleep(1000)" in log.partition("its greenlet stands at")[2]
    assert ask(server, "/hello") == (200, b"hello")
    assert server.stop() == 0


def test_a_greenlet_that_ignores_its_deadline_costs_its_worker(serve: Callable[..., Serving]) -> None:
    # None for the others: what is said of one that is overdue names no process.
    times = ("--request-timeouts", "/stubborn=200ms", "--request-timeout-grace", "300ms", "--graceful-timeout", "300ms")
    server = serve("greenlets", *times)
    assert ask(server, "/stubborn")[0] == 504
    server.until(lambda: "ignores RequestTimeout" in server.log())
    server.until(lambda: f"pid={server.workers[0]}" not in ask(server, "/facts")[1].decode())


def test_a_body_that_does_not_come_in_time_is_overdue_too(serve: Callable[..., Serving]) -> None:
    server = serve("greenlets", "--request-timeout", "300ms", "--no-request-buffering")
    with send(server, "/told-upload", "Content-Length: 10\r\n", b"12345") as sock:
        assert read_reply(sock, bytearray())[0] == 504
    server.until(lambda: "reading raised RequestTimeout" in server.log())


def test_stacks_are_told_of_greenlets_too(serve: Callable[..., Serving]) -> None:
    server = serve("greenlets")
    with send(server, "/forever?of=stacks"):
        server.until(lambda: "begins to wait" in server.log())
        status, text = server.order("stacks")
    assert status == 0
    assert ", in GET /forever?of=stacks HTTP/1.1" in text
    assert "time.sleep(1000)" in text.partition("/forever?of=stacks")[2]
    os.kill(server.process.pid, signal.SIGQUIT)
    server.process.wait(PATIENCE)


def test_a_readiness_call_that_fails_stops_the_start() -> None:
    status, told = run("greenlets", "-k", "gevent", "--bind", "127.0.0.1:0", "--readiness", "/nowhere")
    assert status == 4 and "the readiness call '/nowhere' answered 404" in told


def test_log_files_are_opened_again(serve: Callable[..., Serving], tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    server = serve("greenlets", "--access-log", "common", "--access-log-file", str(log))
    ask(server, "/hello")
    server.until(lambda: log.exists() and "/hello" in log.read_text())
    log.rename(tmp_path / "old.log")
    os.kill(server.process.pid, signal.SIGUSR1)
    server.until(log.exists)
    server.until(lambda: ask(server, "/hello")[0] == 200 and log.read_text())


def test_a_worker_with_open_connections_and_nothing_to_do_does_nothing(serve: Callable[..., Serving]) -> None:
    server = serve("greenlets")
    socks = [server.connect() for _ in range(50)]
    for sock in socks:
        sock.sendall(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
        read_reply(sock, bytearray())

    def woken() -> int:
        lines = Path(f"/proc/{server.workers[0]}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))

    # Numbers are shown once more behind the last request; then it sleeps for ever.
    last = [woken()]

    def rests() -> bool:
        threading.Event().wait(0.3)
        last.append(woken())
        return last[-1] - last[-2] <= 1

    server.until(rests)
    for sock in socks:
        sock.close()


SERVES = """
    {first}
    import threading, time, forehand

    def application(environ, start_response):
        time.sleep(0)
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"served"]

    forehand.serve(application, bind=["127.0.0.1:0"], worker_class="gevent")
"""


def test_a_program_that_has_patched_can_serve() -> None:
    code = textwrap.dedent(SERVES.format(first="from gevent import monkey; monkey.patch_all()"))
    process = subprocess.Popen([PYTHON, "-c", code], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr
        said = ""
        while "Ctrl-C stops" not in said:
            line = process.stderr.readline()
            assert line, f"it ended: {said}"
            said += line
        port = int(re.findall(r"http://127\.0\.0\.1:(\d+)", said)[0])
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as sock:
            sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert read_all(sock).endswith(b"served")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_a_program_that_has_not_patched_is_told_to() -> None:
    code = textwrap.dedent(SERVES.format(first=""))
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1
    assert "gevent has patched nothing" in done.stderr


def test_a_thread_of_the_system_that_writes_for_a_slow_reader_is_told_that_it_cannot_wait(
    serve: Callable[..., Serving],
) -> None:
    server = serve("elsewhere")
    with server.connect() as slow:
        slow.sendall(b"GET /writes-on-in-the-pool HTTP/1.1\r\nHost: a\r\n\r\n")
        with server.connect() as other:
            other.sendall(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
            assert read_reply(other, bytearray())[2] == b"hello"
        assert read_reply(slow, bytearray())[0] == 200
    with server.connect() as other:
        other.sendall(b"GET /notes HTTP/1.1\r\nHost: a\r\n\r\n")
        assert read_reply(other, bytearray())[2].startswith(b"error: "), "greenlet.error"
