"""`forehand.serve` and `forehand.Server`: beside what else a process does, and what they refuse."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import forehand
import pytest
from embedding import asgi, entered, get, leave, life, wsgi
from forehand.errors import Problem

pytestmark = pytest.mark.interpreters

LOOPS = ["asyncio", *(["uvloop"] if importlib.util.find_spec("uvloop") else [])]
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def test_a_server_serves_in_a_with_block_and_is_gone_behind_it() -> None:
    with forehand.Server(wsgi) as server:
        url = server.url
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url) and server.urls == [url]
        assert server.port == int(url.rpartition(":")[2]) != 8000
        assert get(url) == b"wsgi"
    with pytest.raises(OSError):
        get(url)
    with pytest.raises(RuntimeError, match="has not been started"):
        _ = server.url
    assert server.stop(), "once more is no mistake"
    with pytest.raises(RuntimeError, match="make another one"):
        server.start()


def test_several_serve_at_the_same_time_and_after_one_another() -> None:
    for _ in range(3):
        with forehand.Server(wsgi) as one, forehand.Server(asgi) as other:
            assert (get(one.url), get(other.url)) == (b"wsgi", b"asgi")


@pytest.mark.parametrize("loop", LOOPS)
def test_an_asgi_application_has_its_lifespan_and_its_loop(loop: Any) -> None:
    life.clear()
    with forehand.Server(asgi, loop=loop) as server:
        assert life == ["lifespan.startup"]
        assert get(server.url) == b"asgi"
    assert life == ["lifespan.startup", "lifespan.shutdown"]


@pytest.mark.parametrize("application", [wsgi, asgi])
def test_it_serves_beside_an_event_loop_that_runs(application: Any) -> None:
    async def main() -> bytes:
        with forehand.Server(application) as server:
            return await asyncio.to_thread(get, server.url)

    assert asyncio.run(main()) in (b"wsgi", b"asgi")


@pytest.mark.parametrize("application", ["wsgi", "asgi"])
def test_a_forked_child_has_nothing_to_stop(application: str) -> None:
    # A process of its own: `fork` copies what other tests have left.
    code = (
        f"import os, forehand, embedding as here\n"
        f"server = forehand.Server(here.{application}).start()\n"
        "child = os.fork()\n"
        "if not child: os._exit(not server.stop())\n"
        "_, status = os.waitpid(child, 0)\n"
        "print(status, here.get(server.url), server.stop())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=HERE, capture_output=True, text=True, timeout=60)
    assert done.stdout == f"0 b'{application}' True\n", done.stderr


def test_it_serves_from_a_thread() -> None:
    found: list[bytes] = []

    def live() -> None:
        server = forehand.Server(wsgi).start()
        found.append(get(server.url))
        server.stop()

    thread = threading.Thread(target=live)
    thread.start()
    thread.join(20)
    assert found == [b"wsgi"]


def test_a_stop_within_its_own_loop_is_refused_and_changes_nothing() -> None:
    heard: list[str] = []

    async def stopping(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == "/stop":
            try:
                server.stop()
            except RuntimeError as error:
                heard.append(str(error))
        await asgi(scope, receive, send)

    with forehand.Server(stopping) as server:
        assert (get(server.url + "/stop"), get(server.url)) == (b"asgi", b"asgi")
    assert len(heard) == 1 and "threading.Thread(target=server.stop)" in heard[0]


def test_children_of_multiprocessing_end_well_that_a_request_has_started() -> None:
    code = (
        "import multiprocessing, forehand, embedding as here\n"
        "def view(environ, start_response):\n"
        "    child = multiprocessing.get_context('fork').Process(target=print, args=('child',))\n"
        "    child.start()\n"
        "    child.join()\n"
        "    start_response('200 OK', [])\n"
        "    return [str(child.exitcode).encode()]\n"
        "with forehand.Server(view) as server:\n"
        "    print(here.get(server.url))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=HERE, capture_output=True, text=True, timeout=60)
    assert done.stdout == "child\nb'0'\n", done.stderr


@pytest.mark.parametrize("held", [False, True])
def test_a_start_that_is_interrupted_leaves_nothing_behind(held: bool) -> None:
    """`held`: the startup holds its loop, which hears of the interruption when it is over."""
    started, go_on = threading.Event(), threading.Event()
    ended: list[str] = []

    async def starting(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        started.set()
        try:
            if held:
                go_on.wait(20)
            else:
                await asyncio.Event().wait()
            await send({"type": "lifespan.startup.complete"})
            ended.append((await receive())["type"])
            await send({"type": "lifespan.shutdown.complete"})
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    def interrupt() -> None:
        started.wait(20)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    server = forehand.Server(starting, lifespan="on")
    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        server.start()
    go_on.set()
    for thread in threading.enumerate():
        if thread.name == "forehand-loop":
            thread.join(20)
    assert ended == (["lifespan.shutdown"] if held else ["cancelled"])
    assert server.urls == []


def test_threads_that_gevent_has_patched_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("gevent")
    text = (
        "from gevent import monkey; monkey.patch_all()\nimport forehand\nfrom forehand.errors import Problem\n"
        "try:\n    forehand.Server(lambda e, s: [])\nexcept Problem as problem:\n    print(problem)\n"
    )
    out, err = own_process(tmp_path, text).communicate(timeout=30)
    assert "gevent has patched this process's threads" in out and "worker_class='gevent'" in out, err


def test_a_target_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "embedded_shop.py").write_text("from embedding import wsgi as application\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    with forehand.Server("embedded_shop") as server:
        assert get(server.url) == b"wsgi"
    with pytest.raises(Problem, match="no module 'no_such_shop'"):
        forehand.Server("no_such_shop")


def test_a_stop_waits_for_what_runs_and_then_cuts_it() -> None:
    entered.clear()
    leave.clear()
    server = forehand.Server(wsgi).start()
    thread = threading.Thread(target=lambda: get(server.url + "/slow"), daemon=True)
    thread.start()
    assert entered.wait(20)
    threading.Timer(0.1, leave.set).start()
    assert server.stop(timeout=20), "it was waited for"
    entered.clear()
    leave.clear()
    server = forehand.Server(wsgi).start()
    url = server.url + "/slow"

    def ask() -> None:
        # Cut, or answered after all, where the view has left before its connection was closed.
        with contextlib.suppress(OSError):
            get(url)

    cut = threading.Thread(target=ask, daemon=True)
    cut.start()
    assert entered.wait(20)
    assert not server.stop(timeout=0.1), "it was cut"
    leave.set()
    cut.join(20)


def test_the_module_shows_its_names_before_they_are_used() -> None:
    code = (
        "import forehand, sys\nassert 'forehand.embedded' not in sys.modules\n"
        "print([name for name in (*forehand.__all__, 'errors') if name not in dir(forehand)])\n"
        "print(forehand.errors.Problem.__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\nProblem\n", done.stderr


def test_a_notebook_sees_every_option_as_a_keyword() -> None:
    code = (
        "import sys, types\nsys.modules['IPython'] = types.ModuleType('IPython')\n"
        "import forehand, inspect\n"
        "for taking in (forehand.serve, forehand.Server):\n"
        "    names = list(inspect.signature(taking).parameters)\n"
        "    print(names[0], 'workers' in names, 'timeout' in names, 'request_timeout' in names)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "application True True True\n" * 2, done.stderr
    code = (
        "import sys, forehand\nforehand.Server\n"
        "print([name for name in ('inspect', 'forehand.interactive') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", "and nothing is imported for it elsewhere"


def test_an_address_of_another_server_in_this_process_is_said_to_be_so() -> None:
    with forehand.Server(wsgi) as server, pytest.raises(Problem, match="by this process itself: .* serves there"):
        forehand.Server(wsgi, port=server.port).start()


@pytest.mark.parametrize("application", [wsgi, asgi])
def test_the_access_log_goes_to_its_file(tmp_path: Path, application: Any) -> None:
    file = tmp_path / "access.log"
    with forehand.Server(application, access_log_file=str(file)) as server:
        get(server.url + "/logged")
        assert str(file) in _open()
    assert file.read_text().count('"GET /logged HTTP/1.1" 200') == 1
    del server


@pytest.mark.parametrize("application", [wsgi, asgi])
def test_nothing_is_left_of_servers_that_have_ended(tmp_path: Path, application: Any) -> None:
    def used() -> tuple[int, int]:
        gc.collect()
        return len(_open()), len(os.listdir("/proc/self/task"))

    def serve_once() -> None:
        with forehand.Server(application, access_log_file=str(tmp_path / "access.log")) as server:
            get(server.url)

    serve_once()
    before = used()
    for _ in range(20):
        serve_once()
    # A thread of the engine's may end a moment later; the first one's may have been counted, which are fewer than 20.
    until = time.monotonic() + 20
    while any(now > then for now, then in zip(used(), before, strict=True)) and time.monotonic() < until:
        time.sleep(0.01)
    assert all(now <= then for now, then in zip(used(), before, strict=True)), (used(), before)


def _open() -> list[str]:
    """What this process has open."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return found


LOGGING = """
import forehand, sys
from embedding import {application} as app, get
with open("logging.toml", "w") as file:
    file.write("version = 1\\n[formatters.own]\\nformat = '%(name)s|%(message)s'\\n[handlers.file]\\n"
               "class = 'logging.FileHandler'\\nfilename = 'own.log'\\nformatter = 'own'\\n"
               "[root]\\nhandlers = ['file']\\n")
for path in ("/first", "/second"):
    with forehand.Server(app, log_config="logging.toml", access_log="common") as server:
        get(server.url + path)
"""


@pytest.mark.parametrize("application", ["wsgi", "asgi"])
def test_pythons_logging_has_the_lines_of_one_server_after_the_other(tmp_path: Path, application: str) -> None:
    with pytest.raises(Problem, match="--log-config: /no/such.json cannot be read"):
        forehand.Server(wsgi, log_config="/no/such.json").start()
    text = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n" + LOGGING.format(application=application)
    process = own_process(tmp_path, text)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")
    found = (tmp_path / "own.log").read_text()
    for path in ("/first", "/second"):
        assert len(re.findall(rf'^forehand.access\|.*"GET {path} HTTP/1.1" 200', found, re.M)) == 1, found


def test_variables_of_a_file_reach_the_target_that_serve_imports(tmp_path: Path) -> None:
    pytest.importorskip("dotenv")
    (tmp_path / ".env").write_text("COLOUR=red\n")
    (tmp_path / "shop.py").write_text(
        "import os, sys\nprint(os.environ.get('COLOUR'), flush=True)\nsys.exit('that is all')\n"
    )
    process = own_process(
        tmp_path,
        "import forehand\nfrom forehand.errors import Problem\ntry:\n"
        f"    forehand.serve('shop:app', env_file='.env', workers=0, bind='unix:{tmp_path}/s')\n"
        "except Problem as problem:\n    print(problem.args[0])\n",
    )
    out, err = process.communicate(timeout=30)
    assert out == "red\nimporting 'shop' exited with 'that is all'\n", err


def test_serve_refuses_two_applications() -> None:
    with pytest.raises(Problem, match="the application is named twice: 'a:b' and application 'c:d'"):
        forehand.serve("a:b", app="c:d")


def test_the_port_is_that_of_the_first_address_whatever_is_spoken_there(tmp_path: Path) -> None:
    with forehand.Server(wsgi, bind="fastcgi:127.0.0.1:0") as server:
        assert server.port == int(server.url.rpartition(":")[2]) > 0
    with forehand.Server(wsgi, bind=f"https://unix:{tmp_path}/s", tls_self_signed=True) as server:
        assert server.port == 0


def test_what_is_no_application_says_so() -> None:
    with pytest.raises(Problem, match=r"^Server\(\): 3 is no application\n.*environ, start_response"):
        forehand.Server(3)  # type: ignore[arg-type]
    with pytest.raises(Problem, match=r"^serve\(\): None is no application\n"):
        forehand.serve(None, bind="127.0.0.1:0")  # type: ignore[arg-type]
    with pytest.raises(Problem, match=r"<module 'gc' .* is no application\n.*the module in a text: 'gc'"):
        forehand.Server(gc)  # type: ignore[arg-type]


def test_serve_says_that_it_blocks_where_a_loop_runs() -> None:
    async def main() -> None:
        forehand.serve(asgi, bind="127.0.0.1:0")

    with pytest.raises(Problem, match="forehand.Server"):
        asyncio.run(main())


def test_serve_says_so_of_a_target_too(tmp_path: Path) -> None:
    process = own_process(
        tmp_path,
        f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
        "import asyncio, forehand\nfrom forehand.errors import Problem\n"
        "async def main():\n"
        f"    forehand.serve('embedding:asgi', workers=0, bind='unix:{tmp_path}/s')\n"
        "try:\n    asyncio.run(main())\nexcept Problem as problem:\n    print(problem)\n",
    )
    out, err = process.communicate(timeout=30)
    assert out.startswith("serve() blocks, and an event loop runs") and err == "", err


def test_a_startup_that_fails_is_the_callers_exception() -> None:
    async def failing(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})

    with pytest.raises(Problem, match="no database"):
        forehand.Server(failing).start()


def own_process(folder: Path, text: str) -> subprocess.Popen[str]:
    (folder / "own.py").write_text(text)
    return subprocess.Popen(
        [sys.executable, "own.py"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("application", ["wsgi", "asgi"])
def test_a_process_that_forgets_to_stop_ends_in_order(tmp_path: Path, application: str) -> None:
    process = own_process(
        tmp_path,
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        f"import forehand, embedding\nserver = forehand.Server(embedding.{application}).start()\n"
        "print(embedding.get(server.url).decode())\n",
    )
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out.strip(), err) == (0, application, "")


def test_a_target_is_served_with_workers_and_reloads(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("def app(e, s):\n    s('200 OK', [])\n    return [b'first']\n")
    process = own_process(
        tmp_path,
        "import forehand, sys\nif __name__ == '__main__':\n"
        f"    sys.exit(forehand.serve('shop:app', workers=2, bind='unix:{tmp_path}/s', control='{tmp_path}/c'))\n",
    )
    assert process.stderr is not None
    try:
        line = ""
        while "Ctrl-C stops" not in line:
            line = process.stderr.readline()
            assert line, "it has ended"

        def order(*words: str) -> str:
            command = [sys.executable, "-m", "forehand", words[0], "--control", f"{tmp_path}/c", *words[1:]]
            return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout

        assert order("status", "--json").count('"requests"') == 2
        (tmp_path / "shop.py").write_text("def app(e, s):\n    s('200 OK', [])\n    return [b'second']\n")
        # Modules are compared by their time in whole seconds.
        os.utime(tmp_path / "shop.py", (time.time() + 10, time.time() + 10))
        assert "generation 2" in order("reload")
        import socket

        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(f"{tmp_path}/s")
            sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert b"".join(iter(lambda: sock.recv(4096), b"")).endswith(b"second")
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0


@pytest.mark.parametrize(
    "served",
    [
        "embedding.wsgi",
        "embedding.asgi",
        "'embedding:wsgi', workers=2",
        "'embedding:wsgi', workers=0",
        "'embedding:asgi', workers=0",
        *(["embedding.wsgi, worker_class='gevent'"] if importlib.util.find_spec("gevent") else []),
    ],
)
def test_signals_are_the_programs_again_that_goes_on_after_serve(tmp_path: Path, served: str) -> None:
    patch = "from gevent import monkey; monkey.patch_all()\n" if "gevent" in served else ""
    process = own_process(
        tmp_path,
        f"{patch}import os, signal, sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import forehand, embedding\n"
        "def heard(*_):\n    print('heard')\n"
        "signal.signal(signal.SIGTERM, heard)\n"
        "before = [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]\n"
        "wakeup = signal.set_wakeup_fd(-1)\n"
        f"status = forehand.serve({served}, bind='unix:{tmp_path}/s')\n"
        "assert [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)] == before\n"
        "assert signal.set_wakeup_fd(-1) == -1\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "print(status)\n",
    )
    assert process.stderr is not None
    try:
        line = ""
        while "Ctrl-C stops" not in line:
            line = process.stderr.readline()
            assert line, "it has ended"
    finally:
        process.send_signal(signal.SIGINT if "workers" in served else signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "heard\n0\n"), err


def test_workers_are_refused_outside_the_main_thread() -> None:
    found: list[BaseException] = []

    def live() -> None:
        try:
            forehand.serve("echo", workers=2)
        except Problem as problem:
            found.append(problem)

    thread = threading.Thread(target=live)
    thread.start()
    thread.join(20)
    assert "workers need the main thread" in str(found[0])


def test_the_page_of_documentation_works_as_printed(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "from-python.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    (tmp_path / "beside.py").write_text(next(block for block in blocks if "urlopen(server.url).read()" in block))
    done = subprocess.run([sys.executable, "beside.py"], cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, "b'hello'\n"), done.stderr
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "wsgi.py").write_text("def application(e, s):\n    s('200 OK', [])\n    return [b'']\n")
    (tmp_path / "test_page.py").write_text(next(block for block in blocks if "pytest.fixture" in block))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_page.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
