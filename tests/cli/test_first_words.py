"""What somebody is told who types something wrong on the first day, before anything is served."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forehand import cli, unix_socket
from forehand.errors import Problem
from forehand.listen import listen
from serving import HERE, Serving
from test_command import run

Told = Callable[..., tuple[int, str]]


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Told:
    """Exit status and everything printed of a command that is refused before a process of its own begins."""
    monkeypatch.chdir(tmp_path)

    def ask(*words: str) -> tuple[int, str]:
        status = cli.main(words)
        shown = capsys.readouterr()
        return status, shown.out + shown.err

    return ask


WRONG = [
    (["app", "--port", "80800"], "--port: there is no port 80800: ports end at 65535"),
    (["app", "--check", "--bind", "127.0.0.1:99999"], "'127.0.0.1:99999' is not an address: there is no port 99999"),
    (["app", "--check", "--bind", "127.0.0.1:80:81"], "'127.0.0.1:80:81' is not an address"),
    (["app", "--check", "--bind", "unix:"], "'unix:' is not an address"),
    (["app", "--check", "--bind", "fd://three"], "'fd://three' is not an address"),
    (["app", "--check", "--status-bind", "x:y"], "'x:y' is not an address"),
    (["app", "--check", "--status-bind", "https://127.0.0.1:9100"], "the status endpoint speaks plain HTTP"),
    (["app", "--check", "--ready-fd", "777"], "--ready-fd 777: this process has no descriptor of that number"),
    (["app", "--tls-key", "key.pem"], "there is no certificate for it: name that with tls_cert"),
    (["app", "-k", "uvicorn.workers.UvicornWorker"], "uvicorn.workers.UvicornWorker is `--interface asgi` here"),
    (["app", "-k", "tornado"], "gunicorn's --worker-class tornado has no counterpart here: requests run in threads"),
    (["app", "-k", "geven"], "did you mean 'gevent'?"),
    (["run", "app"], "the application alone is enough: forehand app"),
    (["-C", "8101", "status"], "the command stands first: forehand status -C 8101"),
    (["--control", "8101", "workers", "+1"], "the command stands first: forehand workers --control 8101"),
    (["app", "--metrics"], "granian's --metrics is `--status-bind 127.0.0.1:9090` here"),
]


@pytest.mark.parametrize(("words", "answer"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_what_cannot_be_used_is_said_before_anything_is_tried(told: Told, words: list[str], answer: str) -> None:
    status, text = told(*words)
    assert (status, answer in text) == (2, True), text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["shop.wsgi", "reload"], "a command stands in place of a target: forehand reload"),
        (["restart", "-C", "8000"], "did you mean 'forehand reload'?"),
    ],
)
def test_a_command_that_is_not_written_as_one_is_told_how(told: Told, words: list[str], answer: str) -> None:
    status, text = told(*words)
    assert status == 2 and answer in text, text


FILES = [
    ('application = "app"\n\n[lanes]\n"export" = "slow"\n', "forehand.toml:3: lanes: 'export=slow' is not"),
    ('application = "app"\nlanes."export" = "slow"\n', "forehand.toml:2: lanes: 'export=slow' is not"),
    ('[lanes]\nthreads = "slow"\n[request_timeouts]\n"/x" = "y"\n', "forehand.toml:1: lanes: 'threads=slow' is not"),
    ('[request_timeouts]\n"/a*" = 1\n', "forehand.toml:1: request_timeouts: '/a*=1' fits no path because of '*'"),
    ('[slow_requests]\n"/a" = 1\n"b" = 2\n', "forehand.toml:1: slow_requests: 'b=2' is not /PREFIX=TIME"),
    ('[tool.forehand]\napplication = "app"\n', "options stand at the top of this file, and not below [tool.forehand]"),
    ('[forehand]\napplication = "app"\n', "options stand at the top of this file, and not below [forehand]"),
    ('application = "app"\nbind = 8000\n', 'forehand.toml:2: bind: 8000 is a number, and text is wanted: "8000"'),
    ('worker_class = "eventlet"\n', "forehand.toml:1: gunicorn's worker_class eventlet has no counterpart here"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "answer"), FILES, ids=[answer.partition(": ")[2] or answer for _, answer in FILES])
def test_a_file_that_cannot_be_used_is_told_with_the_line(told: Told, tmp_path: Path, text: str, answer: str) -> None:
    (tmp_path / "forehand.toml").write_text(text)
    status, said = told("--check")
    assert (status, answer in said) == (3, True), said


def test_a_table_of_pyproject_is_found_at_its_line(told: Told, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nlanes = "x"\n[tool.forehand]\n[tool.forehand.lanes]\n"x" = "y"\n'
    )
    status, said = told("--check")
    assert (status, "pyproject.toml:4: lanes: 'x=y' is not" in said) == (3, True), said


def test_a_platform_s_port_is_judged_as_well(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "80800")
    status, said = told("app", "--check")
    assert (status, "the variable PORT: there is no port 80800" in said) == (2, True), said


def test_variables_of_the_lab_and_of_the_build_are_in_nobody_s_way(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def app(environ, start_response): ...\n")
    told = "".join(page.read_text() for page in (HERE.parent / "docs").glob("*.md"))
    names = set(re.findall(r"FOREHAND_(?:LAB_\w+|LOAD|WITH\w+)", told))
    assert {"FOREHAND_LAB_HOME", "FOREHAND_LOAD", "FOREHAND_WITHOUT_ENGINE"} <= names
    status, said = run("app", "--check", cwd=tmp_path, env=dict.fromkeys(names, "x"))
    assert status == 0, said


@pytest.mark.parametrize("words", [("status",), ("requests",), ("top", "--once"), ("heap",), ("profile",)])
def test_a_server_that_is_not_there_is_told_with_what_to_do(told: Told, tmp_path: Path, words: tuple[str, ...]) -> None:
    status, said = told(*words, "-C", str(tmp_path / "none.sock"))
    assert status == 5
    assert "none.sock: No such file or directory" in said and "is it running, and as your user?" in said


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("help", "did you mean 'forehand --help'?"),
        ("version", "did you mean 'forehand --version'?"),
        ("restart", "did you mean 'forehand reload'?"),
        ("serve", "the application alone is enough, without 'serve': forehand shop.wsgi"),
    ],
)
def test_words_of_other_programs_are_answered_with_ours(tmp_path: Path, word: str, answer: str) -> None:
    status, said = run(word, "--check", cwd=tmp_path)
    assert (status, answer in said) == (4, True), said


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("dev", "main.py"), "the application alone is enough: forehand main --reload"),
        (("run", "shop/main.py"), "the application alone is enough: forehand shop.main"),
        (("main", "--reload", "true"), "--reload takes no value: leave 'true' out; the opposite is --no-reload"),
        (("--preload", "no", "main"), "--preload takes no value: leave 'no' out; the opposite is --no-preload"),
        (("main", "--check", "main"), "leave 'main' out"),
        (("main", "8000"), "a port is an option: --port 8000"),
        (("main", "0.0.0.0:8000"), "an address is an option: --bind 0.0.0.0:8000"),
        (("main", "other"), "leave 'other' out"),
    ],
)
def test_a_second_word_is_told_what_it_was_meant_to_be(told: Told, words: tuple[str, ...], answer: str) -> None:
    status, said = told(*words)
    assert (status, answer in said) == (2, True), said


@pytest.mark.parametrize("words", [("--factory", "main:app"), ("main:app()",), ("main:needs()",)])
def test_what_cannot_be_called_without_arguments_is_told_how_to_name_it(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "main.py").write_text("def app(environ, start_response): ...\ndef needs(stage): return app\n")
    status, said = run(*words, "--check", cwd=tmp_path)
    assert status == 4 and "raised TypeError" in said, said
    assert "if it is the application itself, leave out --factory, or the brackets" in said, said


@pytest.mark.parametrize("name", ["log.ini", "log.json", "log.toml"])
def test_a_configuration_of_logging_that_is_not_there_is_told_so(name: str) -> None:
    status, said = run("echo", "--check", "--log-config", name)
    assert (status, f"--log-config: {name} cannot be read: No such file" in said) == (3, True), said


@pytest.mark.parametrize("order", ["status", "stop", "top", "requests"])
def test_a_server_that_is_named_without_its_option_is_told_where_it_belongs(
    told: Told, capsys: pytest.CaptureFixture[str], order: str
) -> None:
    with pytest.raises(SystemExit) as left:
        told(order, "8004")
    assert left.value.code == 2
    assert "'8004' is too much: a server is named with its option: -C 8004" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["manage.py", "manage", "shop"])
def test_a_django_project_is_told_its_application(tmp_path: Path, target: str) -> None:
    (tmp_path / "shop").mkdir()
    for name in ("manage.py", "shop/__init__.py", "shop/wsgi.py"):
        (tmp_path / name).write_text("")
    status, said = run(target, "--check", cwd=tmp_path)
    assert (status, "this is a Django project, try: forehand shop.wsgi" in said) == (4, True), said


def test_an_interval_that_is_no_number_is_told_in_words(told: Told, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        told("top", "--interval", "x")
    assert (ended.value.code, "'x' is not a number of seconds" in capsys.readouterr().err) == (2, True)


def test_a_profile_that_could_not_be_written_is_not_begun(told: Told, tmp_path: Path) -> None:
    # Whether there is a server is looked at later.
    status, said = told("profile", "--output", str(tmp_path / "no" / "x.html"), "-C", str(tmp_path / "none.sock"))
    assert (status, "nothing can be written in" in said) == (6, True), said
    assert "it is a folder" in told("profile", "--output", str(tmp_path), "-C", str(tmp_path / "none.sock"))[1]


@pytest.mark.parametrize("words", [("--print-config",), ("--version",), ("migrate", "uvicorn a:b")])
def test_output_that_nobody_reads_to_its_end_is_no_failure_of_ours(tmp_path: Path, words: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "forehand", *words]
    done = subprocess.run(command, cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, timeout=20, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_command_that_is_misspelt_is_guessed(tmp_path: Path) -> None:
    status, said = run("statsu", cwd=tmp_path)
    assert (status, "did you mean the command 'forehand status'?" in said) == (4, True), said


def test_a_wrong_attribute_is_answered_with_what_a_target_could_name(tmp_path: Path) -> None:
    """The object of a framework first: its class is from elsewhere, and views beside it are no applications."""
    (tmp_path / "shop.py").write_text("import functools\n\ndef view(): ...\n\napp = functools.partial(view)\n")
    status, said = run("shop:application", "--check", cwd=tmp_path)
    assert (status, "callable there: app, view" in said) == (4, True), said


@pytest.mark.parametrize(
    ("words", "status"), [(["uwsgi.ini"], 4), (["./uwsgi.ini"], 4), (["shop", "-c", "uwsgi.ini", "--check"], 3)]
)
def test_another_server_s_configuration_is_told_how_it_is_translated(
    tmp_path: Path, words: list[str], status: int
) -> None:
    (tmp_path / "uwsgi.ini").write_text("[uwsgi]\nmodule = shop.wsgi\n")
    found, text = run(*words, cwd=tmp_path)
    assert found == status, text
    assert re.search(r"translated: forehand migrate (\./)?uwsgi\.ini > forehand\.toml", text), text


def test_a_package_that_is_not_there_is_told_with_the_environment_that_lacks_it(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("import no_such_package.part\n")
    status, text = run("shop", "--check", cwd=tmp_path)
    assert status == 4 and f"'no_such_package' is neither in {tmp_path} nor installed for {sys.executable}: " in text


def test_who_starts_in_the_package_s_own_folder_is_told_of_the_one_above(tmp_path: Path) -> None:
    package = tmp_path / "no_such_shop"
    package.mkdir()
    (package / "wsgi.py").write_text("import no_such_shop.settings\n")
    status, text = run("wsgi", "--check", cwd=package)
    assert status == 4 and f"is the folder {package} itself: run forehand in the one above it" in text


def test_a_check_finds_what_a_start_would_find_later(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def app(environ, start_response): ...\n")
    status, said = run("app", "--check", "--on-stop", "app:nothing", cwd=tmp_path)
    assert (status, "the module 'app' has no attribute 'nothing'" in said) == (4, True), said
    endpoint = ("--status-bind", "127.0.0.1:0", "--status-token-file", "none")
    status, said = run("app", "--check", *endpoint, cwd=tmp_path)
    assert (status, "--status-token-file: none: No such file" in said) == (2, True), said


@pytest.mark.parametrize("option", ["--socket-user", "--socket-group"])
def test_a_check_looks_for_owners_of_sockets(tmp_path: Path, option: str) -> None:
    (tmp_path / "app.py").write_text("def app(environ, start_response): ...\n")
    status, text = run("app", "--check", "--bind", f"unix:{tmp_path}/s", option, "nobody-at-all", cwd=tmp_path)
    assert status == 2 and f"{option}: there is no " in text, text


def test_a_check_says_what_is_wrong_where_it_was_asked_and_not_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("1 / 0\n")
    status, said = run("app", "--check", "--log-file", "error.log", cwd=tmp_path)
    assert (status, "ZeroDivisionError" in said) == (4, True), said
    assert (tmp_path / "error.log").read_text() == ""


def test_who_starts_a_server_in_a_terminal_is_told_where_its_lines_go(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("1 / 0\n")
    ours, its = pty.openpty()
    words = [sys.executable, "-m", "forehand", "app", "--log-file", "error.log", "--bind", "127.0.0.1:0"]
    done = subprocess.run(words, cwd=tmp_path, stdout=its, stderr=its, timeout=20, check=False)
    os.close(its)
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        said = terminal.read(4096).decode()
    assert (done.returncode, said) == (4, f"forehand: what the server says goes to {tmp_path}/error.log\r\n")
    assert "ZeroDivisionError" in (tmp_path / "error.log").read_text()


@pytest.mark.parametrize(
    ("words", "coloured"),
    [([], True), (["--log-colors", "off"], False), (["--log-file", "own.log"], False), (["--workers", "0"], True),
     (["--workers", "0", "--log-colors", "off"], False)],
)  # fmt: skip
def test_colours_are_for_terminals_and_can_be_switched_off(tmp_path: Path, words: list[str], coloured: bool) -> None:
    (tmp_path / "app.py").write_text("def app(environ, start_response): pass\n")
    ours, its = pty.openpty()
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "forehand", "app", "--bind", "127.0.0.1:0", "--log-level", "debug", *words]
    env = {**{key: value for key, value in os.environ.items() if key != "NO_COLOR"}, "TERM": "xterm"}
    process = subprocess.Popen(
        [*command, "--ready-fd", str(writer)], cwd=tmp_path, stdout=its, stderr=its, env=env, pass_fds=[writer]
    )
    os.close(its)
    os.close(writer)
    with os.fdopen(reader) as ready:
        assert ready.readline()
    process.terminate()
    said = b""
    while part := _read(ours):
        said += part
    os.close(ours)
    assert process.wait(timeout=20) == 0
    said += (tmp_path / "own.log").read_bytes() if (tmp_path / "own.log").exists() else b""
    assert b"Ctrl-C stops" in said
    assert (b"\033[" in said) is coloured, said


def _read(terminal: int) -> bytes:
    """What comes next at a terminal; nothing when its last process has ended."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


@pytest.mark.parametrize(
    ("path", "why", "remedy"),
    [("nowhere/x.sock", "No such file", "there is no folder {here}/nowhere: make it"),
     ("x" * 200, "path too long", "the system allows 107 bytes")],
)  # fmt: skip
def test_a_unix_socket_that_cannot_be_made_says_what_to_do(tmp_path: Path, path: str, why: str, remedy: str) -> None:
    access = {"mode": 0o666, "user": "", "group": ""}
    with pytest.raises(Problem, match=why) as refused:
        unix_socket.listen(str(tmp_path / path), 1, access)
    assert remedy.format(here=tmp_path) in refused.value.hint


def test_an_address_that_is_named_twice_is_not_somebody_else_s() -> None:
    plan: dict[str, Any] = {"addresses": ["127.0.0.1:0"], "backlog": 1, "defer_accept": False}
    [first] = listen(plan)
    try:
        plan["addresses"] = [first.url.removeprefix("http://")]
        with pytest.raises(Problem, match="in use by this process itself") as refused:
            listen(plan, "--status-bind")
    finally:
        first.close()
    assert "another port with --status-bind" in refused.value.hint


def test_there_is_always_a_worker_and_it_is_said_so(serve: Callable[..., Serving]) -> None:
    server = serve("echo")
    status, said = server.order("workers", "0")
    assert (status, said) == (
        0,
        "1 worker is wanted now (there is always one: `forehand stop` ends the server); there was 1\n",
    )
    assert server.order("workers", "many")[0] == 2


def in_a_folder_that_is_gone(tmp_path: Path, words: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "gone").mkdir()
    command = f"rmdir {tmp_path}/gone && exec {Path(sys.executable).with_name('forehand')} {words}"
    return subprocess.run(["sh", "-c", command], cwd=tmp_path / "gone", capture_output=True, text=True, timeout=30)


def test_a_folder_that_was_removed_is_said_to_be(tmp_path: Path) -> None:
    done = in_a_folder_that_is_gone(tmp_path, "echo --check")
    assert (done.returncode, "the current folder is not there any more" in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_is_asked_from_a_folder_that_was_removed(serve: Callable[..., Serving], tmp_path: Path) -> None:
    for _ in range(2):
        serve("echo", "--control", "auto")
    done = in_a_folder_that_is_gone(tmp_path, "status")
    assert (done.returncode, "servers are running; say which one with -C" in done.stderr) == (2, True), done.stderr


INTERRUPTED = """
import sys
class Interrupts:
    def find_spec(self, name, path, target=None):
        if name == "forehand.launch":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupts())
from forehand.reexec import main
main(0)
"""


def test_ctrl_c_is_no_traceback_while_the_server_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (130, "")


PRINTS = """import os, sys
def app(environ, start_response):
    for stream in (sys.stdout, sys.stderr):
        stream.write("something")
        stream.flush()
    os.write(1, b"to one")
    os.write(2, b"to two")
    start_response("200 OK", [])
    return [" ".join(os.readlink(f"/proc/self/fd/{fd}") for fd in range(3)).encode()]
"""


@pytest.mark.parametrize("workers", ["0", "1"])
def test_nothing_is_opened_where_standard_streams_are_closed(
    serve: Callable[..., Serving], tmp_path: Path, workers: str
) -> None:
    (tmp_path / "prints.py").write_text(PRINTS)
    closing = "import os, sys; os.closerange(0, 3); os.execv(sys.executable, [sys.executable, '-m', *sys.argv[1:]])"
    server = serve(
        "prints", "--workers", workers, "--access-log", "common", "--log-level", "debug",
        cwd=tmp_path, program=(sys.executable, "-c", closing, "forehand"),
    )  # fmt: skip
    for _ in range(3):
        reply = server.raw(b"GET / HTTP/1.0\r\n\r\n")
        assert reply.endswith(b"\r\n\r\n/dev/null /dev/null /dev/null"), reply
    assert server.stop() == 0
