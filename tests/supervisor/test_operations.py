"""What an operator sees: names of processes, a table of servers, warnings of a reload, plain words."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import HERE, PYTHON, Serving, read_reply

SHOP = "def app(environ, start_response):\n    start_response('200 OK', [])\n    return [b'shop']\n"


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode()


def comm(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def test_processes_say_what_they_are(serve: Callable[..., Serving], tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    server = serve("shop", cwd=tmp_path)
    (worker,) = server.workers
    assert command_line(server.pid) == "forehand: shop, supervisor"
    assert command_line(worker) == "forehand: shop, worker 1"
    assert (comm(server.pid), comm(worker)) == ("forehand", "forehand-w1")
    # Whoever meets the port in use is told by that name.
    done = subprocess.run(
        [PYTHON, "-m", "forehand", "echo", "--bind", f"127.0.0.1:{server.port}"],
        cwd=HERE / "apps", capture_output=True, text=True,
    )  # fmt: skip
    assert "(forehand: shop, worker 1)" in done.stderr or "(forehand: shop, supervisor)" in done.stderr


def test_a_name_of_ones_own_is_cut_and_not_lengthened(serve: Callable[..., Serving]) -> None:
    server = serve("echo", "--name", "site" + "x" * 5000)
    shown = command_line(server.pid)
    assert shown.startswith("forehand: sitexxx") and len(shown) < 5100
    assert server.status()["target"] == "echo"
    # What stands behind the command line in memory is whole.
    assert b"PATH=" in Path(f"/proc/{server.pid}/environ").read_bytes()


def test_several_servers_are_told_apart(
    serve: Callable[..., Serving], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
        (folder / "shop.py").write_text(SHOP)
    env = {"XDG_RUNTIME_DIR": str(tmp_path)} if os.geteuid() else {}
    servers = [serve("shop", cwd=folder, env=env) for folder in folders]

    def status(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        command = [PYTHON, "-m", "forehand", "status", *words]
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env={**os.environ, **env}, timeout=30)

    done = status(cwd=tmp_path)
    assert done.returncode == 2
    assert "servers are running; say which one with -C" in done.stderr
    for server in servers:
        assert f"-C {server.port}" in done.stderr and server.url in done.stderr and str(server.pid) in done.stderr
    # The folder says which one is meant.
    assert servers[0].url in status(cwd=folders[0]).stdout
    assert servers[1].url in status(cwd=folders[1]).stdout
    assert servers[1].url in status("-C", str(servers[1].port), cwd=tmp_path).stdout


def test_sockets_of_the_dead_are_swept_and_of_the_living_are_not(tmp_path: Path) -> None:
    from forehand.supervisor import control

    for name, age in (("dead", 60), ("young", 0)):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(tmp_path / f"{name}.sock"))
        os.utime(tmp_path / f"{name}.sock", (time.time() - age,) * 2)
    (tmp_path / "file.sock").write_text("no socket")
    with socket.socket(socket.AF_UNIX) as alive:
        alive.bind(str(tmp_path / "alive.sock"))
        alive.listen()
        os.utime(tmp_path / "alive.sock", (time.time() - 60,) * 2)
        control.sweep(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alive.sock", "file.sock", "young.sock"]
    assert control.path_for("auto", "unix:/run/shop/http.sock").endswith("/run-shop-http.sock")


def test_a_reload_says_what_it_did_not_change(serve: Callable[..., Serving], tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "forehand.toml").write_text("threads = 3\n")
    server = serve("shop", cwd=tmp_path)
    (tmp_path / "forehand.toml").write_text(f"threads = 4\ncontrol = '{tmp_path}/c'\npid_file = '{tmp_path}/p'\n")
    status, text = server.order("reload")
    assert status == 0
    assert "generation 2 serves" in text
    assert f"warning: control stays {server.control}" in text or "warning: control stays auto" in text
    assert "warning: pid file stays none: a change of it needs a restart" in text
    (tmp_path / "forehand.toml").write_text("threads = 'x'\n")
    status, text = server.order("reload")
    assert status == 3, "as the command itself would have ended"
    assert "forehand reload: ./forehand.toml:1: threads" in text and "forehand: " not in text


def test_a_worker_that_is_told_to_end_is_no_error(serve: Callable[..., Serving]) -> None:
    server = serve("echo")
    (worker,) = server.workers
    # One that has lived for a while: what dies young is trouble.
    server.until(lambda: server.status()["workers"][0]["age"] >= 5.5)
    os.kill(worker, signal.SIGTERM)
    server.until(lambda: "is replaced at once" in server.log())
    line = next(line for line in server.log().splitlines() if "is replaced at once" in line)
    assert " info: worker 1 ended with status 0" in line


@pytest.mark.parametrize(
    ("options", "why"),
    [([], "told to stop at once"), (["--graceful-timeout", "0.2"], "still running after --graceful-timeout")],
)
def test_an_end_that_cuts_says_how_many_and_why(serve: Callable[..., Serving], options: list[str], why: str) -> None:
    server = serve("behaviours", *options)
    with server.connect() as sock:
        sock.sendall(b"GET /sleep?60 HTTP/1.1\r\nHost: a\r\n\r\n")
        server.until(lambda: server.status()["workers"][0]["busy"] == 1)
        server.process.send_signal(signal.SIGTERM)
        if not options:
            server.until(lambda: server.status()["phase"] == "stopping")
            server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 1
    server.says(f"1 request was cut: {why}")


def test_without_keep_alive_the_end_is_announced(serve: Callable[..., Serving]) -> None:
    for options in (["echo"], ["asgi_views:app"], ["echo", "-k", "gevent"]):
        server = serve(*options, "--keep-alive", "0")
        with server.connect() as sock:
            sock.sendall(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
            _, fields, _ = read_reply(sock, bytearray())
            assert fields["connection"] == "close"
            assert sock.recv(1) == b""
    server = serve("echo", "--keep-alive", "0.5")
    with server.connect() as sock:
        sock.sendall(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
        assert "connection" not in read_reply(sock, bytearray())[1]


def test_an_interpreter_that_cannot_be_executed_is_named(tmp_path: Path) -> None:
    asked = (
        "import sys, os; from forehand import cli\nsys.argv[:] = ['forehand', 'echo']\n"
        "sys.executable = '/no/such/python'\nsys.exit(cli._reexec({'ready_fd': None, 'adopt': None}))"
    )
    done = subprocess.run([PYTHON, "-c", asked], capture_output=True, text=True, cwd=HERE / "apps")
    assert "the interpreter /no/such/python cannot be executed: No such file or directory" in done.stderr
