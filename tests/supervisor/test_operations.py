"""What an operator sees: names of processes, a table of servers, warnings of a reload, plain words."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forehand.settings import Settings
from forehand.supervisor import lasting
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
    alone = serve("shop", "--workers", "0", "--process-name", "store", cwd=tmp_path)
    assert (command_line(alone.pid), comm(alone.pid)) == ("forehand: store, server", "forehand")
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


def test_a_control_socket_of_its_own_has_room_where_the_address_has(
    serve: Callable[..., Serving], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from forehand.supervisor import control
    from forehand.unix_socket import LONGEST_PATH

    names = set()
    for end in "ab":
        path = "/run/" + "é" * ((LONGEST_PATH - 6) // 2) + end
        made = control.path_for("auto", f"unix:{path}")
        assert len(os.fsencode(made)) <= LONGEST_PATH and os.path.dirname(made) == control.folder()
        names.add(made)
    assert len(names) == 2, "what differs stays different"
    folder = tmp_path / ("x" * (LONGEST_PATH - len(str(tmp_path)) - 4))
    folder.mkdir()
    (folder / "shop.py").write_text(SHOP)
    server = serve("shop", "--bind", f"unix:{folder}/s", "--control", "auto", cwd=folder)
    done = subprocess.run([PYTHON, "-m", "forehand", "status"], cwd=folder, capture_output=True, text=True, timeout=30)
    assert (done.returncode, str(folder) in done.stdout) == (0, True), done.stderr
    assert server.stop() == 0


@pytest.mark.parametrize("workers", ["0", "2"])
def test_names_may_be_any_bytes(serve: Callable[..., Serving], tmp_path: Path, workers: str) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / "my-shop.py").write_text(SHOP)
    server = serve(f"{folder}/my-shop.py", "--bind", f"unix:{folder}/s", "--workers", workers, cwd=tmp_path)
    assert server.url == f"unix:{folder}/s"
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(f"{folder}/s")
        sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert read_reply(sock, bytearray())[0] == 200
    assert server.stop() == 0


def test_a_stop_during_a_reload_has_an_answer_of_its_own(serve: Callable[..., Serving], tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    server = serve("shop", "--control", str(tmp_path / "c"), cwd=tmp_path)
    # It comes to an end when nobody reads it any more.
    os.mkfifo(tmp_path / "held")
    (tmp_path / "shop.py").write_text("open('held').read()\n" + SHOP)
    command = [PYTHON, "-m", "forehand", "reload", "-C", str(tmp_path / "c")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as reload:
        with open(tmp_path / "held", "w"):  # opens when the new worker loads
            assert server.order("stop") == (0, "the server has stopped\n")
        assert reload.stderr is not None
        assert reload.stderr.read() == "forehand reload: the server was stopped\n"
    assert (reload.returncode, server.process.wait(timeout=20)) == (4, 0)


def test_a_control_socket_may_have_any_name(serve: Callable[..., Serving], tmp_path: Path) -> None:
    path = str(tmp_path / 'a "shop" \\ é.sock')
    server = serve("echo", "--control", path)
    assert server.control == path
    assert server.stop() == 0


def command(*words: str) -> tuple[int, str]:
    done = subprocess.run([PYTHON, "-m", "forehand", *words], capture_output=True, text=True, timeout=60, cwd="/")
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("order", ["status", "reload", "stacks", "requests", "top --once", "heap", "profile"])
def test_an_applications_socket_is_no_control_socket(serve: Callable[..., Serving], tmp_path: Path, order: str) -> None:
    serve("echo", "--bind", f"unix:{tmp_path}/web.sock")
    status, said = command(*order.split(), "-C", f"{tmp_path}/web.sock")
    assert status == 5 and said.startswith(f"forehand: what answers at {tmp_path}/web.sock is no control socket"), said


def test_a_server_is_found_by_its_addresses(serve: Callable[..., Serving], tmp_path: Path) -> None:
    # Another one that runs, so that no order finds the right one without being told.
    serve("echo", "--control", "auto")
    server = serve("echo", "--bind", "127.0.0.1:0", "--bind", f"unix:{tmp_path}/web.sock", "--control", "auto")
    for name in (server.url, f"127.0.0.1:{server.port}", f":{server.port}", f"unix:{tmp_path}/web.sock"):
        status, said = command("status", "-C", name)
        assert status == 0 and f"supervisor {server.pid} " in said, said
    status, said = command("status", "-C", "127.0.0.1:1")
    assert status == 5 and "no server answers at 127.0.0.1:1: " in said, said
    # Columns are as wide as the widest process number of all servers that run.
    assert re.search(rf"  {server.pid} +echo ", said), said


def test_a_reload_says_what_it_did_not_change(serve: Callable[..., Serving], tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "forehand.toml").write_text("threads = 3\n")
    server = serve("shop", cwd=tmp_path)
    (tmp_path / "forehand.toml").write_text(f"threads = 4\ncontrol = '{tmp_path}/c'\npid_file = '{tmp_path}/p'\n")
    status, text = server.order("reload")
    assert status == 0
    assert "generation 2 serves" in text
    assert f"warning: control stays {server.control}" in text or "warning: control stays auto" in text
    assert "warning: pid_file stays none: a change of it needs a restart" in text
    (tmp_path / "forehand.toml").write_text("threads = 'x'\n")
    status, text = server.order("reload")
    assert status == 3, "as the command itself would have ended"
    assert "forehand reload: ./forehand.toml:1: threads" in text and "forehand: " not in text
    assert text.endswith("\n  generation 2 goes on serving\n"), text


STAYS = {
    "log_file = 'own.log'": "log_file stays -: ",
    "status_bind = '127.0.0.1:0'": "status_bind stays none: ",
    "statsd_host = '127.0.0.1:9'": "statsd_host stays none: ",
    "statsd_interval = 3": "statsd_interval stays 10: ",
    "backlog = 7": "backlog stays 2048: ",
    "reload = true": "reload stays false: ",
    "workers = 0": "workers stays above 0, ",
}


def test_a_reload_names_all_that_a_supervisor_keeps(serve: Callable[..., Serving], tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    server = serve("shop", cwd=tmp_path)
    for line, said in STAYS.items():
        (tmp_path / "forehand.toml").write_text(f"{line}\n")
        status, text = server.order("reload")
        assert (status, text.count("warning: ")) == (0, 1), text
        assert f"warning: {said}" in text and "a change of it needs a restart" in text
    assert len(server.workers) == 1 and not (tmp_path / "own.log").exists()


def test_a_reload_names_an_address_that_it_keeps() -> None:
    old: dict[str, Any] = {**Settings().plan(), "bind": ["127.0.0.1:8131"]}
    new = {**Settings().plan(), "bind": ["127.0.0.1:8139"]}
    assert lasting.keep(new, old) == ["bind stays 127.0.0.1:8131: a change of it needs a restart"]
    assert new["bind"] == old["bind"] and new["addresses"] == old["addresses"]


def test_a_reload_changes_how_the_supervisors_own_lines_look(serve: Callable[..., Serving], tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    server = serve("shop", cwd=tmp_path)
    (tmp_path / "forehand.toml").write_text("log_format = 'json'\nprocess_name = 'store'\n")
    assert server.order("reload") == (0, "generation 2 serves\n")
    assert command_line(server.pid) == "forehand: store, supervisor"
    before = len(server.log().splitlines())
    assert server.order("reload") == (0, "generation 3 serves\n")
    lines = server.log().splitlines()[before:]
    assert any(json.loads(line)["message"] == "reload: generation 3 serves" for line in lines), lines


def test_a_reload_searches_where_the_start_has(serve: Callable[..., Serving], tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "shop.py").write_text(SHOP)
    program = (str(Path(PYTHON).parent / "forehand"),)
    server = serve("shop", "--chdir", "site", cwd=tmp_path, program=program)
    # Beside the folder that was named, where nothing of the application is looked for.
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "site" / "shop.py").unlink()
    status, text = server.order("reload")
    assert status == 4 and "there is no module 'shop'" in text, text


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
    if options:
        # A worker that has no processor for what it would say is killed before it has said it.
        cut = (f"1 request was cut: {why}", "had not ended 0.2 s after it was told to")
        server.until(lambda: any(line in server.log() for line in cut))
    else:
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
