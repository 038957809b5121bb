"""One set of words: aliases everywhere, other servers' names answered, contradictions refused, files read back."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import HERE, Serving
from test_command import run


def setting(name: str, *arguments: str, cwd: Path, env: dict[str, str] | None = None) -> str:
    """One line of --print-config."""
    status, text = run("--print-config", *arguments, cwd=cwd, env=env)
    assert status == 0, text
    return next(line for line in text.splitlines() if line.startswith(f"{name} ="))


ALIASES = [
    ("timeout", "30", "request_timeout"),
    ("keep_alive", "7", "keep_alive_timeout"),
    ("error_logfile", '"x.log"', "log_file"),
    ("pid", '"x.pid"', "pid_file"),
    ("root_path", '"/x"', "script_name"),
    ("app_dir", '"src"', "pythonpath"),
    ("log_level", '"INFO"', "log_level"),
    ("ws_max_size", "7", "limit_ws_message_bytes"),
]


@pytest.mark.parametrize(("alias", "value", "name"), ALIASES, ids=[alias for alias, _, _ in ALIASES])
def test_an_alias_works_in_each_place(tmp_path: Path, alias: str, value: str, name: str) -> None:
    plain = value.strip('"')
    by_flag = setting(name, f"--{alias.replace('_', '-')}", plain, cwd=tmp_path)
    by_variable = setting(name, cwd=tmp_path, env={f"FOREHAND_{alias.upper()}": plain})
    (tmp_path / "forehand.toml").write_text(f"{alias} = {value}\n")
    by_file = setting(name, cwd=tmp_path)
    values = {text.partition("  #")[0].replace(".0", "") for text in (by_flag, by_variable, by_file)}
    assert len(values) == 1, values
    assert "default" not in by_flag + by_variable + by_file


def test_two_names_of_one_option_in_one_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "forehand.toml").write_text("timeout = 3\nrequest_timeout = 4\n")
    status, text = run("behaviours", "--check", cwd=tmp_path)
    assert status == 3
    assert "forehand.toml:2: 'request_timeout' and 'timeout' are the same option" in text
    (tmp_path / "forehand.toml").unlink()
    status, text = run("behaviours", "--check", env={"FOREHAND_TIMEOUT": "3", "FOREHAND_REQUEST_TIMEOUT": "4"})
    assert status == 2
    assert "FOREHAND_REQUEST_TIMEOUT and FOREHAND_TIMEOUT are the same option" in text


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["--timeout", "5", "--request-timeout=9"], "--timeout and --request-timeout are the same option: name one"),
        (["-t", "5", "--timeout", "5"], "-t and --timeout are the same option"),
        (["--keep-alive", "5", "behaviours", "--timeout-keep-alive", "9"], "are the same option"),
    ],
)
def test_two_names_of_one_option_on_the_command_line_are_refused(words: list[str], answer: str) -> None:
    status, text = run("--print-config", *words)
    assert (status, answer in text) == (2, True), text


def test_an_option_may_be_given_again_by_the_same_name(tmp_path: Path) -> None:
    assert setting("request_timeout", "-t", "5", "-t", "9", cwd=tmp_path).startswith("request_timeout = 9")
    assert setting("bind", "-b", ":1", "--bind", ":2", cwd=tmp_path).startswith('bind = [":1", ":2"]')


def test_what_has_commas_between_its_members_may_be_a_list_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "forehand.toml").write_text('forwarded_allow_ips = ["10.0.0.1", "unix"]\npythonpath = ["a", "b"]\n')
    assert setting("forwarded_allow_ips", cwd=tmp_path).startswith('forwarded_allow_ips = "10.0.0.1,unix"')
    assert setting("pythonpath", cwd=tmp_path).startswith('pythonpath = "a,b"')


def test_a_number_in_place_of_text_is_told_without_a_guess(tmp_path: Path) -> None:
    (tmp_path / "forehand.toml").write_text("socket_mode = 0o660\n")
    status, text = run("--print-config", cwd=tmp_path)
    assert (status, "432 is a number, and text in quotes is wanted" in text) == (3, True), text


FOREIGN = [
    (["--static-map", "/a=/b"], "uWSGI's --static-map is --static here, with the same value"),
    (["--uds", "/run/x.sock"], "uvicorn's --uds is `--bind unix:/run/x.sock` here"),
    (["--fd=3"], "uvicorn's --fd is `--bind fd://3` here"),
    (["--blocking-threads", "4"], "granian's --blocking-threads is `--threads 4` here"),
    (["--http1-header-read-timeout", "500"], "`--header-timeout 0.5` here"),
    (["--no-control-socket"], "gunicorn's --no-control-socket is `--control none` here"),
    (["--access-logformat", "%(h)s"], "gunicorn's --access-logformat"),
    (["--http2"], "clients choose it at https:// addresses"),
    (["--paste", "x.ini"], "PasteDeploy files are not read"),
    (["--daemon"], "let systemd run it"),
    (["--header", "A:b"], "let the application or the proxy add headers"),
    (["--worker-tmp-dir", "/dev/shm"], "gunicorn's --worker-tmp-dir is not needed here, leave it out"),
    (
        ["--proxy-headers"],
        "is not needed here, leave it out: forwarding headers are understood, from the peers in --forwarded-allow-ips",
    ),
    (
        ["--h11-max-incomplete-event-size", "9"],
        "not needed here, leave it out: heads have limits of their own: --limit-header-bytes",
    ),
    (["--limit-request-fields", "50"], "gunicorn's --limit-request-fields is `--limit-header-lines 50` here"),
    (["--proxy-allow-from", "10.0.0.1"], "gunicorn's --proxy-allow-from is `--proxy-protocol-from 10.0.0.1` here"),
    (["--uwsgi-allow-from", "10.0.0.1"], "gunicorn's --uwsgi-allow-from is `--gateway-allow 10.0.0.1` here"),
    (["--reload-ignore-dirs", "media"], "granian's --reload-ignore-dirs is `--reload-exclude media` here"),
    (["--reload-extra-file", "x.yaml"], "gunicorn's --reload-extra-file is `--reload-include x.yaml` here"),
    (["--proxy-protocol"], "`--bind '127.0.0.1:8000?proxy=any'` here"),
    (["--no-proxy-headers"], "`--forwarded-allow-ips ''` here"),
]


def test_the_value_of_an_unknown_option_is_not_the_application_behind_it() -> None:
    status, text = run("--uds", "/run/shop.sock", "behaviours")
    assert (status, "uvicorn's --uds is `--bind unix:/run/shop.sock` here" in text) == (2, True), text


def test_a_port_is_no_name_of_a_file() -> None:
    status, text = run("-b", "0.0.0.0", "-p", "8001", "behaviours")
    assert (status, "'8001' looks like a port, which is --port or -b :8001" in text) == (2, True), text


@pytest.mark.parametrize(("words", "answer"), FOREIGN, ids=[words[0] for words, _ in FOREIGN])
def test_an_option_of_another_server_is_answered_with_ours(words: list[str], answer: str) -> None:
    status, text = run("behaviours", *words)
    assert status == 2
    assert answer in text
    assert "did you mean" not in text


def test_a_key_of_gunicorns_file_is_answered_with_ours(tmp_path: Path) -> None:
    (tmp_path / "forehand.toml").write_text("limit_request_fields = 200\n")
    status, text = run("behaviours", "--check", cwd=tmp_path)
    assert status == 3
    assert "forehand.toml:1: gunicorn's 'limit_request_fields' is limit_header_lines = 200 here" in text


def test_every_option_of_three_servers_has_an_answer() -> None:
    from forehand.cli import parser
    from forehand.migrate import other_servers

    own = set(parser()._option_string_actions)
    for grammar in other_servers.GRAMMARS.values():
        for flag in {*grammar.valued, *grammar.switches} - own:
            for value in (None, "1", "x"):
                told = other_servers.flag(flag, value)
                assert " here" in told, (flag, value, told)


def test_what_the_page_says_of_options_of_uvicorn_is_so() -> None:
    from forehand.cli import parser
    from forehand.migrate import other_servers

    own = set(parser()._option_string_actions)
    seen = set()
    for line in (HERE.parent / "docs" / "from-uvicorn.md").read_text().splitlines():
        if not line.startswith("| `--"):
            continue
        _, theirs, ours, remarks, _ = (cell.strip() for cell in line.split("|"))
        flags, answers = (re.findall(r"`(--[a-z0-9-]+)[^`]*`", cell) for cell in (theirs, ours))
        seen.update(flags)
        for at, flag in enumerate(flags):
            if ours == "the same":
                assert flag in own, flag
            elif answers:
                assert flag not in own and f"`{answers[at]} " in other_servers.flag(flag, "1"), flag
            else:
                assert "leave them out" in remarks and flag not in own
                assert "is not needed here, leave it out" in other_servers.flag(flag, "1"), flag
    assert {"--host", "--uds", "--proxy-headers"} <= seen


CONTRADICTIONS = [
    (["--host", "0.0.0.0", "-b", "127.0.0.1:8104"], "bind and host both say where to listen"),
    (["--port", "8105", "-b", "127.0.0.1:8104"], "bind and port both say where to listen"),
    (["--worker-class", "gevent", "--threads", "4"], "threads has no meaning with worker_class gevent"),
    (["--interface", "asgi", "-k", "gevent"], "worker_class gevent runs WSGI applications"),
    (["--interface", "wsgi", "--lifespan", "on"], "lifespan is for ASGI applications"),
    (["--interface", "wsgi", "--limit-concurrency", "5"], "limit_concurrency is for ASGI applications"),
    (["-k", "gevent", "--limit-concurrency", "5"], "worker_connections is the bound"),
    (["--workers", "0", "--reload", "--reload-include", "*.sql"], "with --workers 0 there are none"),
    (["--workers", "0", "--preload"], "with --workers 0 there are none"),
    (["--workers", "0", "--reload-strategy", "together"], "--reload-strategy is about workers"),
    (["--workers", "0", "--on-reload", "a:b"], "--on-reload is about workers"),
    (["--workers", "0", "--max-requests", "5"], "with --workers 0 there are none"),
    (["--application", "echo"], "the application is named twice"),
    (["--bind", "htps://localhost:0", "--tls-self-signed"], "nothing here speaks 'htps'"),
    (["--bind", "https:localhost:8443", "--tls-self-signed"], "write https://localhost:8443"),
    (
        ["--bind", "127.0.0.1:0", "--tls-client-verify", "required"],
        "name those who have issued them with tls_client_ca",
    ),
]


@pytest.mark.parametrize(("words", "answer"), CONTRADICTIONS, ids=[" ".join(words) for words, _ in CONTRADICTIONS])
def test_two_that_contradict_each_other_are_refused(words: list[str], answer: str) -> None:
    status, text = run("behaviours", *words)
    assert (status, answer in text) == (2, True), text


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["--threads", "\u0663"], "--threads: '\u0663' is not a whole number or 'auto'"),
        (["--workers", "\u0663"], "--workers: '\u0663' is not a number of processes or 'auto'"),
        (["--backlog", "\u0661\u0660"], "--backlog: '\u0661\u0660' is not a whole number"),
        (["--limit-header-bytes", "\u0663k"], "--limit-header-bytes: '\u0663k' is not a size"),
        (["--header-timeout", "\u0663s"], "--header-timeout: '\u0663s' is not a time"),
        (["--request-timeouts", "/a=\u0663"], "--request-timeouts: '\u0663' is not a time"),
        (["--socket-mode", "\u0666\u0660"], "--socket-mode: '\u0666\u0660' is not an octal mode"),
        (["--umask", "\u0660"], "--umask: '\u0660' is not an octal mask"),
        (["--bind", "127.0.0.1:\u0668\u0660"], "'127.0.0.1:\u0668\u0660' is not an address"),
        (["--bind", "127.0.0.1:\u00b2"], "'127.0.0.1:\u00b2' is not an address"),
        (["--statsd-host", "localhost:\u0668"], "'localhost:\u0668' is not HOST:PORT"),
    ],
)
def test_numbers_have_the_digits_of_ascii(words: list[str], answer: str) -> None:
    """Others look like what is meant to those who read them, and like something else to everybody beside."""
    status, text = run("behaviours", "--check", *words)
    assert (status, answer in text) == (2, True), text


def test_a_factory_that_is_called_twice_is_refused() -> None:
    status, text = run("behaviours:make()", "--factory", "--check")
    assert (status, "is a call already" in text) == (2, True), text


def test_a_stronger_place_wins_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "forehand.toml").write_text('bind = ["127.0.0.1:1"]\nmax_requests = 5\n')
    assert setting("port", "--port", "8105", cwd=tmp_path) == "port = 8105  # command line"
    assert setting("host", "--port", "8105", cwd=tmp_path).startswith('host = "127.0.0.1"')
    status, text = run("behaviours", "-c", str(tmp_path / "forehand.toml"), "--workers", "0", "--check")
    assert status == 0, text


def test_what_platforms_set_is_heeded_beside_nothing_else(tmp_path: Path) -> None:
    platform = {"PORT": "8105", "WEB_CONCURRENCY": "3", "FORWARDED_ALLOW_IPS": "10.0.0.1"}
    assert setting("host", cwd=tmp_path, env=platform).startswith('host = "0.0.0.0"')
    assert setting("port", cwd=tmp_path, env=platform) == "port = 8105  # PORT"
    assert setting("workers", cwd=tmp_path, env=platform) == "workers = 3  # WEB_CONCURRENCY"
    assert setting("forwarded_allow_ips", cwd=tmp_path, env=platform).endswith('"10.0.0.1"  # FORWARDED_ALLOW_IPS')
    assert setting("host", "--host", "::1", cwd=tmp_path, env=platform).startswith('host = "::1"')
    (tmp_path / "forehand.toml").write_text('bind = ["127.0.0.1:1"]\nworkers = 4\nforwarded_allow_ips = ""\n')
    assert setting("bind", cwd=tmp_path, env=platform).startswith('bind = ["127.0.0.1:1"]')
    assert setting("workers", cwd=tmp_path, env=platform).startswith("workers = 4")
    assert setting("forwarded_allow_ips", cwd=tmp_path, env=platform).startswith('forwarded_allow_ips = ""')
    status, text = run("behaviours", "--check", env={"PORT": "http"})
    assert (status, "the variable PORT: 'http' is not a whole number" in text) == (2, True), text


SOURCES: list[list[str]] = [
    [],
    ["--port", "8104"],
    ["--host", "::1"],
    ["-b", "unix:/tmp/x", "-b", ":1", "--env", "A=b,c", "--access-log", '%h "%r"', "--threads", "3"],
    ["-k", "gevent", "--worker-connections", "5"],
    ["--workers", "auto", "--request-timeouts", "/a=3,/b=4s", "--http-relax", "trace", "--umask", "027"],
]


@pytest.mark.parametrize("words", SOURCES, ids=[" ".join(words) or "nothing" for words in SOURCES])
def test_what_is_printed_is_read_back_and_means_the_same(tmp_path: Path, words: list[str]) -> None:
    status, printed = run("--print-config", *words, cwd=tmp_path)
    assert status == 0
    (tmp_path / "x.toml").write_text(printed)
    status, again = run("--print-config", "-c", "x.toml", cwd=tmp_path)
    assert status == 0, again

    def plain(text: str) -> list[str]:
        return [line.partition("  #")[0] for line in text.splitlines()]

    assert plain(again) == plain(printed)
    groups = [line for line in printed.splitlines() if line.startswith("# ")]
    assert len(groups) == len(set(groups)), "each group once"
    status, named = run("--print-config", *words, "behaviours:raises", cwd=tmp_path)
    assert (status, 'application = "behaviours:raises"  # command line\n' in named) == (0, True), named
    assert [line for line in plain(named) if not line.startswith("application =")] == [
        line for line in plain(printed) if not line.startswith("application =")
    ]
    status, text = run("behaviours", "-c", str(tmp_path / "x.toml"), "--check")
    assert status == 0, text


def test_the_file_names_the_application(tmp_path: Path, serve: Callable[..., Serving]) -> None:
    (tmp_path / "shop.py").write_text("def app(e, s):\n    s('200 OK', [])\n    return [b'named in the file']\n")
    (tmp_path / "forehand.toml").write_text('application = "shop:app"\n')
    server = serve("--log-level=info", cwd=tmp_path)
    assert server.raw(b"GET / HTTP/1.0\r\n\r\n").endswith(b"named in the file")
    status, text = run("other:app", "--check", cwd=tmp_path)
    assert (status, "there is no module 'other'" in text) == (4, True), "the command line goes first"
    (tmp_path / "forehand.toml").write_text("")
    status, text = run(cwd=tmp_path)
    assert status == 2
    assert 'application = "MODULE:ATTRIBUTE"' in text
    assert "forehand --help" in text


ENVIRONMENT = """import os
def app(environ, start_response):
    start_response('200 OK', [])
    return [f"{os.environ.get('COLOUR')} {os.environ.get('SHAPE')} {os.environ.get('SIZE')}".encode()]
"""


def test_variables_come_from_a_file_and_anew_at_a_reload(tmp_path: Path, serve: Callable[..., Serving]) -> None:
    (tmp_path / "shop.py").write_text(ENVIRONMENT)
    (tmp_path / ".env").write_text("# a comment\nexport COLOUR=red\nSHAPE='round one'\nSIZE=1\nFOREHAND_THREADS=3\n")
    server = serve("shop", "--env-file", ".env", "--env", "SIZE=2", cwd=tmp_path, env={"SHAPE": "square"})
    ask = b"GET / HTTP/1.0\r\n\r\n"
    assert server.raw(ask).endswith(b"red square 2"), "what is set goes before the file, --env before both"
    server.says("up to 3 threads")
    (tmp_path / ".env").write_text("COLOUR=blue\n")
    assert server.order("reload")[0] == 0
    assert server.raw(ask).endswith(b"blue square 2")


def test_a_file_of_variables_is_named_where_it_is_wrong_and_goes_behind_what_is_set(tmp_path: Path) -> None:
    (tmp_path / "wrong.env").write_text("FOREHAND_REQUEST_TIMEOUT=7\nFOREHAND_NOSUCH=1\n")
    status, text = run("shop", "--env-file", "wrong.env", "--check", cwd=tmp_path)
    assert (status, "the variable FOREHAND_NOSUCH in wrong.env names no option" in text) == (2, True), text
    (tmp_path / "other.env").write_text("FOREHAND_REQUEST_TIMEOUT=7\n")
    said = setting("request_timeout", "--env-file", "other.env", cwd=tmp_path, env={"FOREHAND_TIMEOUT": "3"})
    assert said == "request_timeout = 3.0  # FOREHAND_TIMEOUT", "what is set keeps its value"


def test_a_file_of_variables_that_is_not_there_is_named() -> None:
    status, text = run("behaviours", "--env-file", "/no/such.env", "--check")
    assert (status, "--env-file: there is no file /no/such.env" in text) == (2, True), text


TARGETS = {
    "dash-ed.py": "def app(e, s): s('200 OK', []); return [b'dashed']\n",
    "my-app.wsgi": "def application(e, s): s('200 OK', []); return [b'by path']\n",
    "made.py": "from my import app as inner\ndef create_app(name=None): return inner\ndef needs(name): return inner\n",
    "my.py": "def app(e, s): s('200 OK', []); return [b'made']\n",
}


@pytest.fixture
def targets(tmp_path: Path) -> Path:
    for name, text in TARGETS.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("target", "answer"),
    [("dash-ed", b"dashed"), ("./my-app.wsgi", b"by path"), ("my-app.wsgi:application", b"by path")],
)
def test_modules_with_a_dash_and_files_are_served(
    targets: Path, serve: Callable[..., Serving], target: str, answer: bytes
) -> None:
    server = serve(target, cwd=targets)
    assert server.raw(b"GET / HTTP/1.0\r\n\r\n").endswith(answer)


def test_a_factory_is_seen_and_said(targets: Path, serve: Callable[..., Serving]) -> None:
    server = serve("made:create_app", cwd=targets)
    assert server.raw(b"GET / HTTP/1.0\r\n\r\n").endswith(b"made")
    server.says("'made:create_app' can only be a factory, and is called as one: say --factory")
    status, text = run("made:needs", "--check", cwd=targets)
    assert (status, "takes one argument: 'name'" in text) == (4, True), text
    status, text = run("./gone.wsgi", "--check", cwd=targets)
    assert (status, "there is no file './gone.wsgi'" in text) == (4, True), text


def completed(shell_words: list[str]) -> list[str]:
    """What bash completes, by our script."""
    script = run("--completion", "bash")[1]
    asked = (
        f"{script}\nCOMP_WORDS=({' '.join(map(repr, shell_words))}); COMP_CWORD={len(shell_words) - 1}\n"
        "_forehand; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True, cwd=os.sep)
    return done.stdout.split()


def test_completion_knows_orders_choices_and_no_words_of_our_own() -> None:
    assert {"status", "stop", "stacks"} <= set(completed(["forehand", "st"]))
    assert "migrate" in completed(["forehand", "mi"])
    assert set(completed(["forehand", "--worker-class", "g"])) == {"gevent", "gthread"}
    assert set(completed(["forehand", "--log-level", ""])) >= {"debug", "error"}
    assert "--preload-app" in completed(["forehand", "app", "--prel"])
    assert set(completed(["forehand", "reload", "--"])) == {"--help", "--control", "--timeout"}
    assert "--follow" in completed(["forehand", "requests", "--f"])
    assert completed(["forehand", "workers", ""]) == ["+1", "-1"]
    assert completed(["forehand", "tls", ""]) == ["reload"]
    assert "verify" in completed(["forehand", "lab", "ver"])
    assert "bin/" in {f"{name}/" for name in completed(["forehand", "reload", "-C", "b"])}, "a socket's path"
    for shell in ("bash", "zsh", "fish"):
        text = run("--completion", shell)[1]
        assert "print-plan" not in text and "adopt" not in text and "SUPPRESS" not in text
        assert "reload" in text and "gevent" in text


def test_completion_knows_which_options_take_a_value() -> None:
    zsh = run("--completion", "zsh")[1]
    flags = ("--bind", "--check", "--worker-class")
    ends = {flag: re.search(rf"^  '{flag}\[[^\]]*\](.*)' \\$", zsh, re.M) for flag in flags}
    assert {flag: end and end[1].partition("(")[0] for flag, end in ends.items()} == {
        "--bind": ":value:_files", "--check": "", "--worker-class": ":value:",
    }  # fmt: skip
    assert re.search(r"^  '--access-log\[[^\]]*\]::value:", zsh, re.M), "its value may be left out"
    assert "'1:order or module: _alternative " in zsh, "without the space it gets options that it does not know"
    fish = run("--completion", "fish")[1]
    assert re.search(r"^complete -c forehand -l bind .* -r$", fish, re.M)
    assert re.search(r"^complete -c forehand -l check [^$]*-d '[^']*'$", fish, re.M)


def test_python_runs_the_module_too() -> None:
    done = subprocess.run([sys.executable, "-m", "forehand", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("forehand ")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_file_that_is_printed_is_utf_8_in_every_locale(tmp_path: Path, encoding: str) -> None:
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    prefix = "/Zürich/\U0001f3be/\U0010fffd"

    def printed(*words: str) -> Path:
        done = subprocess.run([sys.executable, "-m", "forehand", *words], cwd=tmp_path, env=env, capture_output=True)
        assert done.returncode == 0, done.stderr
        (tmp_path / "made.toml").write_bytes(done.stdout)
        return tmp_path / "made.toml"

    from forehand.toml import read, table

    file = printed("--pid-file", prefix, "--print-config")
    assert (table(str(file), read(str(file))) or {})["pid_file"] == prefix
    file = printed("migrate", f"gunicorn --pid {prefix} shop.wsgi")
    assert (table(str(file), read(str(file))) or {})["pid_file"] == prefix


#: What is for the other kind of application, with a value that is not its default; and how it is told.
FOR_WSGI = ("--threads", "3", "--limit-queue", "5", "--queue-timeout", "3")
FOR_ASGI = ("--loop", "asyncio", "--lifespan", "on", "--limit-concurrency", "7", "--ws-ping-interval", "9")
KINDS = {
    "asynchronous": (FOR_WSGI, "threads, limit_queue, queue_timeout", "which is ASGI"),
    "plain": (FOR_ASGI, "loop, lifespan, limit_concurrency, ws_ping_interval", "which is WSGI"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_for_the_other_kind_of_application_is_told(
    tmp_path: Path, kind: str, serve: Callable[..., Serving]
) -> None:
    options, names, which = KINDS[kind]
    (tmp_path / "shop.py").write_text(
        "from wsgiref.simple_server import demo_app as plain\n"
        "async def asynchronous(scope, receive, send):\n    raise ValueError\n"
    )
    status, text = run(f"shop:{kind}", *options, "--check", cwd=tmp_path)
    assert status == 0 and which in text and all(name in text for name in names.split(", ")), text
    status, text = run(f"shop:{kind}", "--check", cwd=tmp_path)
    assert status == 0 and "without effect" not in text
    for workers in ("0", "1"):
        server = serve(f"shop:{kind}", *options, "--workers", workers, cwd=tmp_path)
        server.says(names.split(", ")[0])
        assert which in server.log()
        server.stop()
    interface = "asgi" if kind == "asynchronous" else "wsgi"
    status, text = run(f"shop:{kind}", *options[:2], "--interface", interface, cwd=tmp_path)
    assert status == 2 and f"and interface says {interface}: leave one of them out" in text, text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--trace-sample", "0.1"), ["trace_sample: without effect without trace_endpoint"]),
        (("--statsd-interval", "1s", "--statsd-prefix", "shop", "--dogstatsd-tags", "a:b"),
         ["statsd_interval, statsd_prefix, dogstatsd_tags: without effect without statsd_host"]),
        (("--statsd-prefix", "shop", "--statsd-host", "127.0.0.1:8125"), []),
        (("--status-token-file", "shop.py"), ["status_token_file: without effect without status_bind"]),
        (("--status-token-file", "nothing"),
         ["status_token_file: without effect without status_bind", "status_token_file: nothing is not there"]),
        (("--status-token-file", "shop.py", "--status-bind", "unix:s"), []),
        (("--log-syslog-prefix", "shop"), ["log_syslog_prefix: without effect without log_syslog"]),
    ],
)  # fmt: skip
def test_what_only_says_more_about_another_option_is_told_where_that_one_is_not_there(
    tmp_path: Path, options: tuple[str, ...], said: list[str]
) -> None:
    (tmp_path / "shop.py").write_text("from wsgiref.simple_server import demo_app as app\n")
    status, text = run("shop:app", *options, "--check", cwd=tmp_path)
    warned = [line for line in text.splitlines() if "warning" in line]
    assert status == 0 and len(warned) == len(said), text
    assert all(words in line for words, line in zip(said, warned, strict=True)), text


def test_what_a_hub_of_greenlets_has_as_well_is_not_told(tmp_path: Path) -> None:
    pytest.importorskip("gevent")
    (tmp_path / "shop.py").write_text("from wsgiref.simple_server import demo_app as plain\n")
    words = ("shop:plain", "-k", "gevent", "--interface", "wsgi", "--slow-callback-duration", "0.2", "--check")
    status, text = run(*words, cwd=tmp_path)
    assert status == 0 and "without effect" not in text, text
