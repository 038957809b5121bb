"""Workers as a client and an operator see them: reload, crash, stop, orders."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import forehand
import pytest
import serving
from serving import PATIENCE, Serving, read_reply

pytestmark = pytest.mark.interpreters

Shop = Callable[..., Path]
Serve = Callable[..., Serving]


def get(server: Serving, path: str = "/", body: bytes = b"") -> tuple[int, str]:
    """One request on a connection of its own: status, body."""
    method = "POST" if body else "GET"
    head = f"{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    with server.connect() as sock:
        sock.sendall(head.encode() + body)
        status, _, text = read_reply(sock, bytearray())
    return status, text.decode()


def version(server: Serving) -> str:
    return get(server)[1].split()[0]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"


def pids(server: Serving) -> set[int]:
    return {worker["pid"] for worker in server.status()["workers"] if worker["state"] == "ready"}


def test_one_worker_is_supervised_and_zero_are_not(serve: Serve, shop: Shop) -> None:
    folder = shop()
    one = serve("shop", cwd=folder)
    assert get(one)[1].split()[1] == str(one.workers[0]) != str(one.pid)
    none = serve("shop", "--workers", "0", cwd=folder)
    assert get(none)[1].split()[1] == str(none.pid)
    assert none.stop() == 0


def test_auto_is_the_number_of_cpus(serve: Serve, shop: Shop) -> None:
    server = serve("shop", "--workers", "auto", cwd=shop())
    assert len(server.workers) == len(os.sched_getaffinity(0)), "no quota is set here"


def test_web_concurrency_is_heeded(serve: Serve, shop: Shop) -> None:
    assert len(serve("shop", cwd=shop(), env={"WEB_CONCURRENCY": "2"}).workers) == 2


@pytest.mark.parametrize("strategy", ["rolling", "together"])
@pytest.mark.parametrize("preload", ["--preload", "--no-preload"])
def test_a_reload_brings_up_new_code(serve: Serve, shop: Shop, strategy: str, preload: str) -> None:
    server = serve("shop", "--workers", "2", "--reload-strategy", strategy, preload, cwd=shop("one"))
    assert version(server) == "one"
    shop("two")
    code, text = server.order("reload")
    assert code == 0, text
    assert version(server) == "two"
    assert len(pids(server)) == 2


def test_sighup_reloads(serve: Serve, shop: Shop) -> None:
    server = serve("shop", cwd=shop("one"))
    shop("two")
    os.kill(server.pid, signal.SIGHUP)
    server.until(lambda: version(server) == "two")


@pytest.mark.parametrize("preload", ["--preload", "--no-preload"])
def test_a_syntax_error_leaves_the_old_generation_serving_and_is_told(serve: Serve, shop: Shop, preload: str) -> None:
    server = serve("shop", "--workers", "2", preload, cwd=shop("one"))
    folder = shop("two", extra="def broken(:")
    code, text = server.order("reload")
    assert code != 0
    assert f'File "{folder}/shop.py", line 7' in text, text
    assert version(server) == "one"
    shop("three")
    assert server.order("reload")[0] == 0
    assert version(server) == "three"


@pytest.mark.parametrize("preload", ["--preload", "--no-preload"])
def test_a_syntax_error_at_the_first_start_ends_it_with_the_cause(shop: Shop, preload: str) -> None:
    folder = shop(extra="def broken(:")
    command = [sys.executable, "-m", "forehand", "shop", "--bind", "127.0.0.1:0", "--workers", "2", preload]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 4, done.stderr
    assert f'File "{folder}/shop.py", line 7' in done.stderr
    assert done.stderr.count("raised SyntaxError") == 1, done.stderr


@pytest.mark.parametrize("preload", ["--preload", "--no-preload"])
def test_an_import_that_hangs_is_given_up(serve: Serve, shop: Shop, preload: str) -> None:
    server = serve("shop", "--startup-timeout", "1s", preload, cwd=shop("one"))
    shop("two", extra="while True: pass")
    code, text = server.order("reload")
    assert code != 0 and "--startup-timeout" in text, text
    assert version(server) == "one"
    assert len(server.status()["workers"]) == 1


def test_an_import_that_hangs_at_the_first_start_ends_it(shop: Shop) -> None:
    folder = shop(extra="time.sleep(60)")
    command = [sys.executable, "-m", "forehand", "shop", "--bind", "127.0.0.1:0", "--startup-timeout", "500ms"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode != 0 and "--startup-timeout" in done.stderr


def test_an_import_that_forks_makes_no_second_worker(serve: Serve, shop: Shop) -> None:
    server = serve("shop", cwd=shop(extra="os.fork()"))
    assert version(server) == "one"
    assert "importing 'shop' forked" in server.until(server.log)
    assert len(server.status()["workers"]) == 1
    assert server.stop() == 0


def test_an_import_that_starts_threads_serves(serve: Serve, shop: Shop) -> None:
    extra = "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    server = serve("shop", cwd=shop(extra=extra))
    assert version(server) == "one"
    assert server.stop() == 0


def test_preloading_names_what_cannot_be_shared(serve: Serve, shop: Shop) -> None:
    extra = (
        "import socket, sqlite3\nBASE = sqlite3.connect(':memory:')\nOPEN = socket.socket()\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True, name='ticker').start()"
    )
    server = serve("shop", "--preload", cwd=shop(extra=extra))
    log = server.until(lambda: server.log() if "database" in server.log() else "")
    assert "the thread 'ticker' of the module 'time'" in log
    assert "module 'shop' holds a database handle (sqlite3.Connection)" in log
    assert "module 'shop' holds an open socket" in log


def test_a_worker_that_is_killed_is_replaced(serve: Serve, shop: Shop) -> None:
    server = serve("shop", "--workers", "2", cwd=shop())
    for preload in range(3):
        before = pids(server)
        victim = sorted(before)[preload % 2]
        os.kill(victim, signal.SIGKILL)
        server.until(lambda before=before: len(pids(server) - before) == 1)
        assert version(server) == "one"
    assert "was ended by signal 9 (SIGKILL)" in server.log()


def test_a_template_process_that_is_killed_is_made_again(serve: Serve, shop: Shop) -> None:
    server = serve("shop", "--preload", cwd=shop())
    ours = set(children(server.pid)) - pids(server)
    assert len(ours) == 1
    os.kill(ours.pop(), signal.SIGKILL)
    before = pids(server)
    os.kill(before.copy().pop(), signal.SIGKILL)
    server.until(lambda: pids(server) - before)
    assert version(server) == "one"


def children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def test_when_the_supervisor_is_killed_its_workers_go_and_the_port_is_free(serve: Serve, shop: Shop) -> None:
    server = serve("shop", "--workers", "2", "--preload", cwd=shop())
    workers = pids(server)
    begun = time.monotonic()
    os.kill(server.pid, signal.SIGKILL)
    server.until(lambda: not any(alive(pid) for pid in workers), patience=5)
    assert time.monotonic() - begun < 3
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", server.port))
        again.listen()


def test_even_a_worker_that_never_lets_go_of_its_interpreter_follows_its_supervisor(serve: Serve, shop: Shop) -> None:
    # A regular expression that takes for ever holds the interpreter in C.
    extra = "import re\nif os.environ.get('X'): pass\ndef hog(): re.match(r'(a+)+$', 'a' * 60 + 'b')"
    folder = shop(extra=extra)
    text = (
        (folder / "shop.py")
        .read_text()
        .replace('if path == "/spin":', 'if path == "/hog":\n        hog()\n    if path == "/spin":')
    )
    (folder / "shop.py").write_text(text)
    server = serve("shop", cwd=folder)
    with server.connect() as sock:
        sock.sendall(b"GET /hog HTTP/1.1\r\nHost: a\r\n\r\n")
        server.until(lambda: server.status()["workers"][0]["busy"] == 1)
        code, text = server.order("stacks")
        assert code == 0 and "hog" in text, "the signal's answer needs no interpreter"
        worker = server.workers[0]
        os.kill(server.pid, signal.SIGKILL)
        server.until(lambda: not alive(worker), patience=5)


def test_orders_say_what_they_have_done(serve: Serve, shop: Shop) -> None:
    server = serve("shop", "--workers", "2", cwd=shop())
    assert server.order("workers", "+1") == (0, "3 workers are wanted now; there were 2\n")
    server.until(lambda: len(pids(server)) == 3)
    assert server.order("workers", "-1")[0] == 0
    assert server.order("workers", "1")[0] == 0
    server.until(lambda: len(pids(server)) == 1)
    assert server.order("workers", "few") == (
        5 - 1,
        "forehand workers: 'few' is no number of workers: +1, -1 or a number\n",
    )
    code, text = server.order("status")
    assert code == 0 and "shop at http://127.0.0.1" in text and "private" in text
    assert os.stat(server.control).st_mode & 0o777 == 0o600
    assert server.order("stop") == (0, "the server has stopped\n")
    assert server.process.wait(PATIENCE) == 0
    assert not os.path.exists(server.control)


def test_stacks_show_what_each_request_is_doing(serve: Serve, shop: Shop) -> None:
    server = serve("shop", cwd=shop())
    with server.connect() as sock:
        sock.sendall(b"GET /sleep?30 HTTP/1.1\r\nHost: a\r\n\r\n")
        server.until(lambda: server.status()["workers"][0]["busy"] == 1)
        code, text = server.order("stacks")
    assert code == 0
    assert "in GET /sleep?30" in text
    assert 'time.sleep(float(environ["QUERY_STRING"]))' in text


def test_gunicorns_signals_add_and_remove_workers(serve: Serve, shop: Shop) -> None:
    server = serve("shop", cwd=shop())
    os.kill(server.pid, signal.SIGTTIN)
    server.until(lambda: len(pids(server)) == 2)
    os.kill(server.pid, signal.SIGTTOU)
    server.until(lambda: len(pids(server)) == 1)
    os.kill(server.pid, signal.SIGWINCH)
    assert version(server) == "one"
    os.kill(server.pid, signal.SIGQUIT)
    assert server.process.wait(PATIENCE) == 0


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


def test_the_program_itself_is_replaced_and_no_process_id_changes(serve: Serve, shop: Shop, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    server = serve("shop", "--workers", "2", "--pid-file", str(pid_file), cwd=shop("one"))
    before = pids(server)
    shop("two")
    code, text = server.order("upgrade")
    assert code == 0, text
    assert version(server) == "two"
    assert not before & pids(server)
    os.kill(server.pid, signal.SIGUSR2)
    server.until(lambda: server.status()["generation"] == 3)
    assert pid_file.read_text() == f"{server.pid}\n"
    assert server.stop() == 0
    assert not pid_file.exists()


def test_an_upgrade_to_what_does_not_start_changes_nothing(serve: Serve, shop: Shop) -> None:
    server = serve("shop", cwd=shop("one"))
    shop("two", extra="import nowhere_to_be_found")
    code, text = server.order("upgrade")
    assert code != 0 and "nowhere_to_be_found" in text
    assert version(server) == "one"


def test_a_configuration_that_became_nonsense_is_told_and_changes_nothing(serve: Serve, shop: Shop) -> None:
    folder = shop("one")
    (folder / "forehand.toml").write_text("threads = 4\n")
    server = serve("shop", cwd=folder)
    (folder / "forehand.toml").write_text("threads = 4\nthreds = 5\n")
    shop("two")
    code, text = server.order("reload")
    assert code != 0 and "forehand.toml:2: 'threds' is no option; did you mean 'threads'?" in text
    assert version(server) == "one"
    (folder / "forehand.toml").write_text("workers = 2\n")
    assert server.order("reload")[0] == 0
    server.until(lambda: len(pids(server)) == 2)
    assert version(server) == "two"


def test_a_pid_file_of_a_living_process_is_respected_and_of_a_dead_one_replaced(
    serve: Serve, shop: Shop, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    server = serve("shop", "--pid-file", str(pid_file), cwd=shop())
    command = [sys.executable, "-m", "forehand", "shop", "--bind", "127.0.0.1:0", "--pid-file", str(pid_file)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 5 and f"that of process {server.pid}, which lives" in done.stderr
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
    assert "the hook on_worker_ready ('hooks:bad') raised ValueError; going on" in server.log()
    assert version(server) == "one"


def test_a_readiness_call_that_fails_keeps_the_old_generation(serve: Serve, shop: Shop) -> None:
    folder = shop("one")
    text = (folder / "shop.py").read_text()
    (folder / "shop.py").write_text(
        text.replace('"200 OK"', '"200 OK" if path != "/ready" or VERSION == "one" else "500 No"')
    )
    server = serve("shop", "--readiness", "/ready", cwd=folder)
    (folder / "shop.py").write_text((folder / "shop.py").read_text().replace('VERSION = "one"', 'VERSION = "two"'))
    code, text = server.order("reload")
    assert code != 0 and "the readiness call '/ready' answered 500 No" in text
    assert version(server) == "one"


def test_requests_age_and_memory_replace_a_worker_and_say_why(serve: Serve, shop: Shop) -> None:
    server = serve("shop", "--max-requests", "5", cwd=shop())
    first = pids(server)
    server.until(lambda: get(server) and not first & pids(server))
    assert "it has served" in server.log() and "(--max-requests)" in server.log()
    aged = serve("shop", "--max-worker-age", "1s", cwd=shop())
    first = pids(aged)
    aged.until(lambda: not first & pids(aged))
    assert "(--max-worker-age)" in aged.log()


def test_memory_replaces_a_worker_and_names_the_route(serve: Serve, shop: Shop) -> None:
    server = serve("shop", "--max-worker-memory", "64M", cwd=shop())
    first = pids(server)
    for _ in range(25):
        assert get(server, "/leak")[0] == 200
        assert get(server, "/")[0] == 200
    server.until(lambda: not first & pids(server))
    log = server.log()
    assert "(--max-worker-memory 65536 KiB)" in log
    assert "routes that grew most: GET /leak +" in log


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


def test_changed_files_reload_in_development(serve: Serve, shop: Shop) -> None:
    server = serve("shop", "--reload", cwd=shop("one"))
    server.until(lambda: any("forehand-watch" in comm(pid) for pid in children(server.pid)))

    def changed() -> bool:
        # The watcher may not be ready for the first change.
        shop("two")
        return version(server) == "two"

    server.until(changed)
    assert "shop.py changed: reloading" in server.log()


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
    assert "debug: decided: reload with new settings -> load 2" in server.log()
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
        assert "starts a thread, as a request blocks: 3 of at most 3" in server.log()
    finally:
        for sock in socks:
            sock.close()


def comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


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
