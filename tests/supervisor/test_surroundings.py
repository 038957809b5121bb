"""What is around workers: pid files, control sockets, hooks, users, systemd, logs, files that are watched."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forehand
import pytest
import serving
from asking import children, comm, get, pids, version  # type: ignore[import-not-found]
from serving import PATIENCE, Serving, read_reply

pytestmark = pytest.mark.interpreters

Shop = Callable[..., Path]
Serve = Callable[..., Serving]


def test_logs_are_opened_again(serve: Serve, shop: Shop, tmp_path: Path) -> None:
    log, access = tmp_path / "error.log", tmp_path / "access.log"
    options = ("--log-file", str(log), "--access-log", "common", "--access-log-file", str(access))
    server = serve("shop", *options, cwd=shop())
    get(server, "/first")
    server.until(lambda: "/first" in access.read_text())
    log.rename(tmp_path / "error.old")
    access.rename(tmp_path / "access.old")
    os.kill(server.pid, signal.SIGUSR1)
    server.until(lambda: log.exists() and access.exists() and "opened again" in log.read_text())
    server.until(lambda: get(server, "/second") and "/second" in access.read_text())
    assert "/first" in (tmp_path / "access.old").read_text()


def test_a_pid_file_of_a_living_process_is_respected_and_of_a_dead_one_replaced(
    serve: Serve, shop: Shop, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    server = serve("shop", "--pid-file", str(pid_file), cwd=shop())
    command = [sys.executable, "-m", "forehand", "shop", "--bind", "127.0.0.1:0", "--pid-file", str(pid_file)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 5 and f"that of process {server.pid}, which is running" in done.stderr
    server.kill()
    again = serve("shop", "--pid-file", str(pid_file), cwd=tmp_path)
    assert pid_file.read_text() == f"{again.pid}\n"


def test_two_servers_do_not_share_a_control_socket(serve: Serve, shop: Shop, tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    server = serve("shop", "--control", str(path), cwd=shop())
    command = [sys.executable, "-m", "forehand", "shop", "--bind", "127.0.0.1:0", "--control", str(path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 5 and f"another server (process {server.pid})" in done.stderr
    assert version(server) == "one"
    server.kill()
    assert version(serve("shop", "--control", str(path), cwd=tmp_path)) == "one", "what a dead one left is replaced"


def test_a_server_begins_at_an_address_whose_last_one_still_finishes_requests(
    serve: Serve, shop: Shop, tmp_path: Path
) -> None:
    def ask(order: str, name: str) -> str:
        command = [sys.executable, "-m", "forehand", order, "-C", name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        return done.stdout + done.stderr

    first = serve("shop", cwd=shop())
    with first.connect() as waiting:
        waiting.sendall(b"GET /wait HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        first.until(lambda: any(worker["busy"] for worker in first.status()["workers"]))
        first.process.send_signal(signal.SIGTERM)
        # Until it no longer listens, what begins finds the address in use.
        first.until(lambda: not reachable(first.port))
        second = serve("shop", "--bind", f"127.0.0.1:{first.port}", cwd=tmp_path)
        assert second.control == first.control.removesuffix(".sock") + "~2.sock" and version(second) == "one"
        third = serve("shop", "--bind", "127.0.0.1:0", cwd=tmp_path)
        # The port is no name that leads to one of them; each has a name of its own.
        said = ask("status", str(first.port))
        assert "2 servers are running" in said, said
        assert f"-C {first.control}" in said and f"-C {first.port}~2 " in said and str(third.pid) not in said, said
        for name, pid in ((first.control, first.pid), (f"{first.port}~2", second.pid)):
            assert f"supervisor {pid} " in ask("status", name)
        (tmp_path / "gate").touch()
        assert waiting.recv(100).startswith(b"HTTP/1.1 200 ") and first.process.wait(PATIENCE) == 0
    # The one that is left is found by the port again.
    assert f"supervisor {second.pid} " in ask("status", str(first.port))


def reachable(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def test_servers_at_one_port_of_several_addresses_are_told_apart(serve: Serve, shop: Shop) -> None:
    def at(name: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "forehand", "status", "--json", "-C", name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr}

    # Addresses of their own, and a port that no other test has, or gets meanwhile, at its address.
    first, own = "127.0.0.91", "127.0.0.92"
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("0.0.0.0", 0))
    port = reserved.getsockname()[1]
    server = serve("shop", "--bind", f"{first}:{port}", cwd=shop())
    named = at(str(port))
    assert named.get("pid") == server.pid, f"the port is enough where only one has it: {named}"
    # What a server has left that was killed does not stand for one that lives.
    left = Path(server.control).with_name(f"{port}.sock")

    def leave() -> None:
        # One that is ten seconds old is taken away by any server that starts, as those of other tests do.
        left.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(left))

    leave()
    assert at(str(port)).get("pid") == server.pid
    server.kill()
    leave()
    assert str(left) in at(str(port))["error"]
    left.unlink(missing_ok=True)
    server = serve("shop", "--bind", f"{first}:{port}", cwd=shop())
    other = serve("shop", "--bind", f"{own}:{port}", cwd=shop())
    assert [at(f"{address}:{port}").get("pid") for address in (first, own)] == [server.pid, other.pid]
    assert f"{own}:{port}" in at(str(port))["error"], "and where several have it, it says so"
    server.kill()
    reserved.close()


HOOKS = """
def tell(name):
    def hook(facts):
        with open("told", "a") as file:
            file.write(f"{name} {sorted(facts)}\\\\n")
    return hook

on_start, on_worker_start, on_worker_ready = tell("start"), tell("worker_start"), tell("worker_ready")
on_worker_exit, on_reload, on_stop = tell("worker_exit"), tell("reload"), tell("stop")

def bad(facts):
    raise ValueError("no good")
"""
NAMES = ("start", "worker_start", "worker_ready", "worker_exit", "reload", "stop")


def test_hooks_are_called_in_their_order(serve: Serve, shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "hooks.py").write_text(HOOKS.replace("\\\\", "\\"))
    options = [f"--on-{name.replace('_', '-')}=hooks:on_{name}" for name in NAMES]
    server = serve("shop", *options, cwd=shop())
    assert server.order("reload")[0] == 0
    server.until(lambda: "worker_exit" in (tmp_path / "told").read_text())
    assert server.stop() == 0
    told = [line.split()[0] for line in (tmp_path / "told").read_text().splitlines()]
    assert told[:3] == ["start", "worker_start", "worker_ready"]
    assert told[-2:] == ["worker_exit", "stop"]
    assert "reload" in told


def test_a_hook_that_raises_before_serving_ends_the_start_and_later_changes_nothing(serve: Serve, shop: Shop) -> None:
    folder = shop()
    (folder / "hooks.py").write_text(HOOKS.replace("\\\\", "\\"))
    for name in ("on-start", "on-worker-start"):
        command = [sys.executable, "-m", "forehand", "shop", "--bind", "127.0.0.1:0", f"--{name}", "hooks:bad"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 4 and "ValueError: no good" in done.stderr, done.stderr
    server = serve("shop", "--on-worker-ready", "hooks:bad", "--on-reload", "hooks:bad", cwd=folder)
    assert version(server) == "one"
    assert server.order("reload")[0] == 0
    server.says("the hook on_worker_ready ('hooks:bad') raised ValueError; going on")
    assert version(server) == "one"


LEAVES = """
import atexit, os, threading

def on_stop(facts):
    atexit.register(lambda: print("told at exit by", os.getpid(), flush=True))
    threading.Thread(target=threading.Event().wait, name="hook's thread").start()
"""


#: A machine that takes a while for what is imported to say what has not ended.
SLOW = """
import importlib.abc, sys, time

class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "forehand.supervisor.stacks":
            time.sleep(0.6)

sys.meta_path.insert(0, Slow())
"""


@pytest.mark.parametrize("machine", ["", SLOW], ids=["quick", "slow"])
def test_what_a_hook_has_left_with_the_supervisor_ends_with_it_in_time(serve: Serve, shop: Shop, machine: str) -> None:
    folder = shop()
    (folder / "hooks.py").write_text(machine + LEAVES)
    server = serve("shop", "--on-stop", "hooks:on_stop", "--graceful-timeout", "0.5", cwd=folder)
    assert server.stop() == 1, "something has not ended"
    server.says("the process ends although threads go on after 0.5 s (--graceful-timeout): 'hook's thread' at")


def test_what_a_hook_registers_at_exit_is_called_when_the_supervisor_ends(serve: Serve, shop: Shop) -> None:
    folder = shop()
    (folder / "hooks.py").write_text(LEAVES.replace("    threading.", "    # threading."))
    server = serve("shop", "--on-stop", "hooks:on_stop", cwd=folder)
    assert server.stop() == 0
    server.says(f"told at exit by {server.pid}")


def test_users_and_groups_are_dropped_to(
    serve: Serve, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may become somebody else")
    os.chmod(tmp_path, 0o755)
    for folder in tmp_path.parents:
        if os.stat(folder).st_uid == 0 and str(folder) != "/":
            os.chmod(folder, os.stat(folder).st_mode | 0o055)
    extra = "WHO = f'{os.getuid()} {os.getgid()} {os.getgroups()}'"
    folder = shop(extra=extra)
    text = (folder / "shop.py").read_text().replace('text = f"', 'text = f"{WHO} ')
    (folder / "shop.py").write_text(text)
    import grp
    import pwd

    who = pwd.getpwnam("nobody")
    group = grp.getgrnam("nogroup").gr_gid
    command = [sys.executable, "-m", "forehand", "shop", "--bind", "127.0.0.1:0", "--user", "nobody"]
    if not readable_for_others(Path(os.__file__)):
        # The interpreter of this machine is root's own: that, too, is told in words.
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 6 and "the user nobody cannot read" in done.stderr, done.stderr
        system = Path(f"/usr/bin/python3.{sys.version_info.minor}")
        if not system.exists():
            pytest.skip(f"{sys.executable} is root's own, and there is no {system} which others can read")
        # The same version: our extension fits. It is copied to where others can read it, too.
        shutil.copytree(Path(forehand.__file__).parent, tmp_path / "site/forehand")
        monkeypatch.setattr(serving, "PYTHON", str(system))
    env = {"PYTHONPATH": str(tmp_path / "site")}
    server = serve("shop", "--user", "nobody", "--group", "nogroup", cwd=folder, env=env)
    assert get(server)[1].startswith(f"{who.pw_uid} {group} {os.getgrouplist('nobody', group)}")


def readable_for_others(path: Path) -> bool:
    return all(os.stat(place).st_mode & 0o5 for place in (path, *path.parents))


def test_privileges_are_dropped_with_the_supplementary_groups() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may become somebody else")
    code = (
        "import os, grp; from forehand.supervisor import privileges; privileges.check = lambda *_: None; "
        "privileges.drop('nobody', ''); print(os.getresuid(), os.getresgid(), os.getgroups())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True)
    import pwd

    who = pwd.getpwnam("nobody")
    groups = os.getgrouplist("nobody", who.pw_gid)
    assert done.stdout == f"{(who.pw_uid,) * 3} {(who.pw_gid,) * 3} {groups}\n"


def test_the_file_mode_mask_is_set(serve: Serve, shop: Shop, tmp_path: Path) -> None:
    path = tmp_path / "web.sock"
    serve("shop", "--bind", f"unix:{path}", "--umask", "077", cwd=shop())
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_systemd_is_told_and_its_sockets_are_taken(shop: Shop, tmp_path: Path) -> None:
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.bind(str(tmp_path / "notify"))
    told.settimeout(PATIENCE)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    # As systemd does it: the socket is descriptor 3, and LISTEN_PID is the program's own.
    code = (
        f"import os; os.dup2({listener.fileno()}, 3); os.environ['LISTEN_PID'] = str(os.getpid()); "
        f"os.execv({sys.executable!r}, [{sys.executable!r}, '-m', 'forehand', 'shop'])"
    )
    env = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "LISTEN_FDS": "1", "WATCHDOG_USEC": "400000"}
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=shop(), env=env, pass_fds=[listener.fileno(), 3], stderr=subprocess.DEVNULL
    )
    try:
        while b"READY=1" not in told.recv(4096):
            pass
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert read_reply(sock, bytearray())[0] == 200
        while b"WATCHDOG=1" not in told.recv(4096):
            pass
        process.send_signal(signal.SIGHUP)
        seen = b""
        while b"RELOADING=1" not in seen or not seen.endswith(b"workers serve"):
            seen += told.recv(4096)
        process.terminate()
        while b"STOPPING=1" not in told.recv(4096):
            pass
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        listener.close()
        told.close()


@pytest.mark.parametrize("named", [True, False])
def test_a_socket_of_systemd_s_is_taken_where_bind_names_it_and_a_reload_finds_nothing_changed(
    shop: Shop, tmp_path: Path, named: bool
) -> None:
    path, other = tmp_path / "http.sock", tmp_path / "other.sock"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as beside:
        for sock, place in ((listener, path), (beside, other)):
            sock.bind(str(place))
            sock.listen()
        fds = [listener.fileno(), beside.fileno()] if named else [listener.fileno()]
        # By way of high numbers, as 3 may be one of those that are copied.
        code = (
            f"import os; high = [os.dup2(fd, 100 + fd) for fd in {fds}]; [os.dup2(fd, 3 + n) for n, fd in "
            "enumerate(high)]; os.environ['LISTEN_PID'] = str(os.getpid()); os.execv(sys.argv[1], sys.argv[1:])"
        )
        command = [sys.executable, "-m", "forehand", "shop", "--control", str(tmp_path / "control")]
        command += ["--ready-fd", "9", *(["--bind", f"unix:{path}"] if named else [])]
        reader, writer = os.pipe()
        code = f"import sys; {code}".replace("os.execv", f"os.dup2({writer}, 9); os.execv", 1)
        process = subprocess.Popen(
            [sys.executable, "-c", code, *command], cwd=shop(), env={**os.environ, "LISTEN_FDS": str(len(fds))},
            pass_fds=[*fds, writer], stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        os.close(writer)
        try:
            assert os.read(reader, 100), "it did not start"
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(PATIENCE)
                client.connect(str(path))
                client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                assert read_reply(client, bytearray())[0] == 200
            ask = [sys.executable, "-m", "forehand", "reload", "--control", str(tmp_path / "control")]
            done = subprocess.run(ask, capture_output=True, text=True, timeout=PATIENCE, check=False)
            assert (done.returncode, done.stderr) == (0, "")
            process.terminate()
            said = process.communicate(timeout=PATIENCE)[1]
            assert (f"systemd listens at unix:{other} for this service" in said) == named
            assert f"listens at unix:{path}" not in said
        finally:
            process.kill()
            process.wait()
            os.close(reader)


def test_changed_files_reload_in_development(serve: Serve, shop: Shop) -> None:
    server = serve("shop", "--reload", cwd=shop("one"))
    # The watcher has hardly begun: what changes before it watches is seen, too.
    shop("two")
    server.until(lambda: version(server) == "two")
    server.says("shop.py changed: reloading")
    shop("three")
    server.until(lambda: version(server) == "three")


@pytest.mark.parametrize("options", [(), ("--preload",), ("--workers", "2")])
def test_what_is_broken_at_the_first_start_is_waited_for_in_development(
    shop: Shop, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """An editor saves what is half written: nobody has to begin the server again."""
    folder = shop("one")
    good = (folder / "shop.py").read_text()
    (folder / "shop.py").write_text("def application(:\n")
    log = tmp_path / "log"
    control = tmp_path / "control"
    words = ["shop", "--bind", "127.0.0.1:0", "--reload", "--control", str(control), *options]
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", "forehand", *words], cwd=folder, stdout=out, stderr=out)

    def says(text: str) -> None:
        until = time.monotonic() + PATIENCE
        while text not in log.read_text():
            assert process.poll() is None and time.monotonic() < until, log.read_text()
            time.sleep(0.02)

    try:
        says("SyntaxError: invalid syntax")
        says("forehand: the application has not come up; waiting for a change of its files (--reload)\n")
        told = subprocess.run(
            [sys.executable, "-m", "forehand", "status", "--control", str(control)], capture_output=True, text=True
        )
        assert "the application has not come up, and a change of its files is waited for (--reload): " in told.stdout
        (folder / "shop.py").write_text("import nowhere_at_all\n")
        says("the reload was given up: ")
        says("nowhere_at_all")
        (folder / "shop.py").write_text(good)
        says("Ctrl-C stops")
        says(" serves\n")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()


#: Begins every interpreter, as on a busy machine: who loads the application has ended before a worker is asked for.
LATE = """
import select
from forehand.supervisor.template import TemplateProcess
fork = TemplateProcess.fork
def late(self, *what):
    gone = select.poll()
    gone.register(self.channel.fd, 0)
    gone.poll(20_000)
    return fork(self, *what)
TemplateProcess.fork = late
"""


def test_why_it_cannot_be_loaded_is_told_also_where_that_was_known_before_a_worker_was_asked_for(
    shop: Shop, tmp_path: Path
) -> None:
    folder = shop("one")
    (folder / "shop.py").write_text("def application(:\n")
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "sitecustomize.py").write_text(LATE)
    words = ["shop", "--bind", "127.0.0.1:0", "--preload", "--workers", "2", "--control", str(tmp_path / "control")]
    told = subprocess.run(
        [sys.executable, "-m", "forehand", *words], cwd=folder, capture_output=True, text=True, timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "late")}, check=False,
    )  # fmt: skip
    assert told.returncode == 4, told.stderr
    assert "forehand: importing 'shop' raised SyntaxError\n" in told.stderr
    assert "could not be started" not in told.stderr


def test_files_to_watch_are_named_and_others_left_out(serve: Serve, shop: Shop, tmp_path: Path) -> None:
    folder = shop("one")
    (folder / "tests").mkdir()
    patterns = ("--reload-include", "*.sql", "--reload-exclude", "tests/*,secret.py")
    server = serve("shop", "--reload", *patterns, cwd=folder)
    server.until(lambda: any("forehand-watch" in comm(pid) for pid in children(server.pid)))

    def changed() -> bool:
        for name in ("tests/test_shop.py", "tests/rows.sql", "secret.py", "notes.txt", "query.sql"):
            (folder / name).write_text(f"# {time.monotonic()}")
        return "changed: reloading" in server.log()

    server.until(changed)
    told = [line for line in server.log().splitlines() if line.endswith("changed: reloading")]
    assert all(" query.sql changed: reloading" in line for line in told), told


def test_decisions_are_told_on_demand(serve: Serve, shop: Shop) -> None:
    folder = shop()
    options = ("--threads", "4", "--limit-queue", "1")
    server = serve("shop", "--log-level", "debug", *options, cwd=folder, env={"WEB_CONCURRENCY": "2"})
    told = server.until(lambda: (log := server.log()).count("debug: decided: ready ") == 2 and log)
    assert "debug: setting threads = 4, from command line" in told and "debug: setting workers = 2, from WEB_" in told
    assert "debug: decided: ready 1 -> " in told
    os.kill(min(pids(server)), signal.SIGKILL)
    server.until(lambda: "debug: decided: died 1 was killed by" in server.log() or "spawn 3 1" in server.log())
    assert server.order("reload")[0] == 0
    server.says("debug: decided: reload with new settings -> load 2")
    quiet = serve("shop", *options, cwd=folder)
    assert get(quiet)[0] == 200 and quiet.stop() == 0
    assert "debug" not in quiet.log()


def test_a_full_house_is_told_request_by_request(serve: Serve, shop: Shop) -> None:
    server = serve("shop", "--log-level", "debug", "--threads", "3", "--limit-queue", "1", cwd=shop())
    socks = [server.connect() for _ in range(5)]
    try:
        for sock in socks:
            sock.sendall(b"GET /sleep?1 HTTP/1.1\r\nHost: a\r\n\r\n")
        server.until(lambda: "a request waits for its turn: 0 before it" in server.log())
        server.until(lambda: "a request is not begun, and answered 503" in server.log())
        server.says("starts a thread, as a request blocks: 3 of at most 3")
    finally:
        for sock in socks:
            sock.close()


def test_a_full_disk_for_logs_stops_nothing(serve: Serve, shop: Shop) -> None:
    server = serve("shop", "--access-log", "common", "--access-log-file", "/dev/full", cwd=shop())
    for _ in range(20):
        assert get(server)[0] == 200
    assert server.order("reload")[0] == 0
    assert server.stop() == 0


def test_without_a_supervisor_hooks_readiness_and_the_pid_file_work_too(
    serve: Serve, shop: Shop, tmp_path: Path
) -> None:
    (tmp_path / "hooks.py").write_text(HOOKS.replace("\\\\", "\\"))
    options = [f"--on-{name.replace('_', '-')}=hooks:on_{name}" for name in NAMES if name != "reload"]
    pid_file = tmp_path / "pid"
    folder = shop()
    server = serve("shop", "--workers", "0", "--readiness", "/", "--pid-file", str(pid_file), *options, cwd=folder)
    assert pid_file.read_text() == f"{server.pid}\n"
    assert version(server) == "one"
    assert server.stop() == 0
    told = [line.split()[0] for line in (tmp_path / "told").read_text().splitlines()]
    assert told == ["start", "worker_start", "worker_ready", "worker_exit", "stop"]
    assert not pid_file.exists()


def test_a_control_folder_of_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a folder of somebody else's")
    from forehand.errors import Problem
    from forehand.supervisor import control

    theirs = tmp_path / "forehand"
    theirs.mkdir()
    monkeypatch.setattr(control, "folder", lambda: str(theirs))
    control.Control(str(theirs / "a.sock")).close()
    os.chown(theirs, 65534, 65534)
    with pytest.raises(Problem, match="it belongs to somebody else"):
        control.Control(str(theirs / "a.sock"))
