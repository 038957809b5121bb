"""Workers as a client and an operator see them: reload, crash, orders, upgrade, replacement."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from asking import alive, children, get, pids, version  # type: ignore[import-not-found]
from serving import PATIENCE, Serving, read_reply

pytestmark = pytest.mark.interpreters

Shop = Callable[..., Path]
Serve = Callable[..., Serving]


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


@pytest.mark.parametrize("strategy", ["rolling", "together"])
def test_who_connects_after_a_reload_has_ended_comes_to_a_new_worker(serve: Serve, strategy: str) -> None:
    server = serve("late_to_hear:application", "--workers", "2", "--reload-strategy", strategy)
    old = set(server.workers)
    with ExitStack() as stack:
        late: dict[int, socket.socket] = {}
        while set(late) != old:
            sock = stack.enter_context(server.connect())
            sock.sendall(b"GET /late HTTP/1.1\r\nHost: a\r\n\r\n")
            late[int(read_reply(sock, bytearray())[2])] = sock
        code, text = server.order("reload")
        assert code == 0, text
        assert old.isdisjoint(int(get(server)[1]) for _ in range(50))
        kept = late[min(old)]
        kept.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        answered = int(read_reply(kept, bytearray())[2])
        if answered != min(old):
            # One that a busy machine has held up gives its idle clients away, to whoever goes on.
            assert answered in server.workers, "its connections are answered once more"
            assert server.counters()["connections_taken_over"] > 0


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
    folder = shop("one")
    config = folder / "forehand.toml"
    config.write_text("")
    server = serve("shop", "--config", str(config), preload, cwd=folder)
    # Only what hangs has so little time: on a busy machine the first start takes longer.
    config.write_text('startup_timeout = "1s"\n')
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
    server.says("importing 'shop' forked")
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
    server.says("was ended by signal 9 (SIGKILL)")


def test_a_template_process_that_is_killed_is_made_again(serve: Serve, shop: Shop) -> None:
    server = serve("shop", "--preload", cwd=shop())
    ours = set(children(server.pid)) - pids(server)
    assert len(ours) == 1
    os.kill(ours.pop(), signal.SIGKILL)
    before = pids(server)
    os.kill(before.copy().pop(), signal.SIGKILL)
    server.until(lambda: pids(server) - before)
    assert version(server) == "one"


def test_when_the_supervisor_is_killed_its_workers_go_and_the_port_is_free(serve: Serve, shop: Shop) -> None:
    # An address of its own: a port of 127.0.0.1 that is free is soon another test's.
    server = serve("shop", "--workers", "2", "--preload", "--bind", "127.0.0.77:0", cwd=shop())
    workers = pids(server)
    begun = time.monotonic()
    os.kill(server.pid, signal.SIGKILL)
    server.until(lambda: not any(alive(pid) for pid in workers), patience=5)
    assert time.monotonic() - begun < 3

    def free() -> bool:
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                again.bind((server.host, server.port))
                again.listen()
            except OSError:
                return False  # the template process is on its way out, too
        return True

    server.until(free, patience=5)


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
    for wrong in ("few", "+\u0663"):
        assert server.order("workers", wrong) == (
            2,
            f"forehand workers: '{wrong}' is not a number of workers: give +1, -1 or a number\n",
        )
    code, text = server.order("status", "--json")
    assert code == 0 and json.loads(text).keys() == {*server.status(), "counters", "limits", "situation"}
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


def test_stacks_of_a_worker_that_takes_its_time_are_its_own(serve: Serve) -> None:
    # Where others use the processors, half a second is too little to import what writes stacks.
    server = serve("slow_to_tell:application")
    code, text = server.order("stacks")
    assert code == 0 and "which waits for the supervisor's word" in text
    assert "its interpreter does not let it answer" not in text


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
    # A signal is not waited for: the check, the new program, and its workers.
    server.until(lambda: server.status()["generation"] == 3, patience=90)
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
    assert code != 0 and "forehand.toml:2: 'threds' is not an option; did you mean 'threads'?" in text
    assert version(server) == "one"
    (folder / "forehand.toml").write_text("workers = 2\n")
    assert server.order("reload")[0] == 0
    server.until(lambda: len(pids(server)) == 2)
    assert version(server) == "two"


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
    server.says("it has served")
    server.says("(--max-requests)")
    aged = serve("shop", "--max-worker-age", "1s", cwd=shop())
    first = pids(aged)
    aged.until(lambda: not first & pids(aged))
    aged.says("(--max-worker-age)")


def test_memory_replaces_a_worker_and_names_the_route(serve: Serve, shop: Shop) -> None:
    server = serve("shop", "--max-worker-memory", "64M", cwd=shop())
    first = pids(server)
    for _ in range(25):
        assert get(server, "/leak")[0] == 200
        assert get(server, "/")[0] == 200
    server.until(lambda: not first & pids(server))
    server.says("(--max-worker-memory 65536 KiB)")
    # A line of the worker's own, which may still be on its way when it has left.
    server.says("routes that grew most: GET /leak +")
