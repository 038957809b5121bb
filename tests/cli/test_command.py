"""The command line: what works, what is refused, and with which words and status."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import HERE, Serving, read_reply

pytestmark = pytest.mark.interpreters


def run(*arguments: str, cwd: Path | str = HERE / "apps", env: dict[str, str] | None = None) -> tuple[int, str]:
    """Exit status and everything printed, of a command that ends by itself."""
    done = subprocess.run(
        [sys.executable, "-m", "forehand", *arguments],
        cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=20,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("")
    (tmp_path / "shop" / "wsgi.py").write_text(
        "def application(environ, start_response):\n"
        "    start_response('200 OK', [])\n    return [b'shop']\n"
        "def make(name, debug=False):\n    return application\n"
        "def bad():\n    raise RuntimeError('factory failed')\n"
        "async def asgi(scope, receive, send): pass\n"
        "class Asgi:\n    async def __call__(self, scope, receive, send): pass\n"
        "asgi_object = Asgi()\nnumber = 3\n"
    )
    (tmp_path / "broken.py").write_text("import shop.wsgi\n1 / 0\n")
    (tmp_path / "needs.py").write_text("import no_such_dependency\n")
    (tmp_path / "syntax.py").write_text("def x(:\n")
    (tmp_path / "exits.py").write_text("raise SystemExit(9)\n")
    return tmp_path


def test_a_grammar_of_the_options_that_are_named_says_what_the_whole_one_does() -> None:
    from forehand import cli
    from forehand.settings import OPTIONS

    whole = cli.parser()
    flags = [flag for flag in whole._option_string_actions if flag not in ("-h", "--help")]
    assert len(flags) > len(OPTIONS)
    for flag in flags:
        action = whole._option_string_actions[flag]
        value = [] if action.nargs == 0 else [*(action.choices or "7")][:1]
        words = [flag, *value, "shop", "--threads", "3"]
        few = cli.parser({flag, "--threads"})
        assert len(few._option_string_actions) < 60, "the others are not among them"
        known, unknown = few.parse_known_args(words)
        for one in (action, whole._option_string_actions["--threads"]):
            one.__dict__.pop("said", None)
        expected, none = whole.parse_known_args(words)
        assert not unknown and not none
        assert vars(expected) == {**dict.fromkeys(vars(expected)), **vars(known)}, flag


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["-w3", "shop.wsgi"], "workers = 3"),
        (["-w", "3", "shop.wsgi", "--print-config"], "workers = 3"),
        (["--bind=127.0.0.1:81", "-c", "/dev/null"], 'bind = ["127.0.0.1:81"]'),
        (["--log-file", "-", "shop.wsgi"], 'log_file = "-"'),
        (["--no-access-log", "--", "shop.wsgi"], 'application = "shop.wsgi"'),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_flag_may_have_its_value_in_every_way(project: Path, words: list[str], answer: str) -> None:
    status, text = run("--print-config", *words, cwd=project)
    assert status == 0 and answer in text, text


@pytest.mark.parametrize(
    "target", ["shop.wsgi", "shop.wsgi:application", "shop.wsgi:make('a', debug=True)", "shop.wsgi:make('a')"]
)
def test_targets_that_load(project: Path, target: str) -> None:
    assert run(target, "--check", cwd=project) == (0, f"forehand: {target} loads, and all settings can be used\n")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("shop.wsg", ["no module 'shop.wsg'", "did you mean 'shop.wsgi'", "looked in", "--pythonpath"]),
        ("nosuch", ["no module 'nosuch'", "looked in"]),
        ("shop.wsgi:applicaton", ["no attribute 'applicaton'", "did you mean 'application'"]),
        ("shop", ["neither 'application' nor 'app'"]),
        ("shop.wsgi:number", ["is an int, which is not callable"]),
        ("shop.wsgi:bad()", ["the factory of 'shop.wsgi:bad()' raised RuntimeError", "factory failed"]),
        ("shop.wsgi:make(open('x'))", ["cannot be read", "literals"]),
        ("broken", ["ZeroDivisionError", "line 2", "importing 'broken' raised ZeroDivisionError"]),
        ("needs", ["No module named 'no_such_dependency'", "importing 'needs' raised"]),
        ("syntax", ["SyntaxError", "syntax.py"]),
        ("exits", ["importing 'exits' exited with 9"]),
        ("shop/wsgi.py", ["is a file", "try: forehand shop.wsgi"]),
        ("1x", ["is not a target"]),
    ],
)
def test_targets_that_do_not_load_say_why(project: Path, target: str, words: list[str]) -> None:
    status, text = run(target, "--check", cwd=project)
    assert status == 4, text
    for word in words:
        assert word in text, text
    assert "forehand/target.py" not in text, "the traceback is the application's, not ours"
    assert "importlib" not in text


def test_no_target_suggests_one(project: Path) -> None:
    (project / "manage.py").write_text("")
    status, text = run(cwd=project)
    assert status == 2
    assert "try: forehand shop.wsgi" in text


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--thread", "3"], 2, ["no option --thread", "did you mean '--threads'"]),
        (["--threads", "many"], 2, ["--threads: 'many' is not a whole number"]),
        (["--threads", "0"], 2, ["--threads: 0 is not between 1 and 1024"]),
        (["--limit-body-bytes", "1X"], 2, ["'1X' is not a size"]),
        (["--header-timeout", "soon"], 2, ["'soon' is not a time"]),
        (["--log-level", "loud"], 2, ["'loud' is none of"]),
        (["--http-relax", "bare-l"], 2, ["did you mean 'bare-lf'"]),
        (["--access-log", "%Z"], 2, ["'%Z' is not known"]),
        (["--forwarded-allow-ips", "10.0.0.0/33"], 2, ["'10.0.0.0/33' is no address"]),
        (["--ca-certs", "x.pem"], 2, ["gunicorn's --ca-certs is `--tls-client-ca x.pem` here"]),
        (["--cert-reqs", "2"], 2, ["gunicorn's --cert-reqs is `--tls-client-verify required` here"]),
        (["--ciphers", "HIGH"], 2, ["--ciphers has no counterpart here: suites cannot be chosen"]),
        (["--ssl-ca-certs", "x.pem"], 2, ["is `--tls-client-ca x.pem` here"]),
        (["--workers", "0", "--reload"], 2, ["with --workers 0 there are none"]),
        (["--workers", "many"], 2, ["'many' is not a number of processes or 'auto'"]),
        (["--workers", "1000"], 2, ["1000 is not between 0 and 256"]),
        (["--readiness", "nowhere"], 2, ["'nowhere' is not module:callable"]),
        (["--user", "nobody-at-all"], 2, ["there is no user 'nobody-at-all'"]),
        (["--umask", "999"], 2, ["'999' is not an octal mask"]),
        (["--request-timeouts", "export=3"], 2, ["'export=3' is not /PREFIX=TIME"]),
        (["--slow-requests", "export=3"], 2, ["'export=3' is not /PREFIX=TIME"]),
        (["--slow-requests", "/a/*=3"], 2, ["'/a/*=3' fits no path because of '*'"]),
        (["--slow-requests", "/a=3,/a=4"], 2, ["'/a' is there twice"]),
        (["--slow-requests", "/a=soon"], 2, ["'soon'"]),
        (["--access-log", "%{remote}p"], 2, ["'%{remote}p' is not known", "which are upstream, receive, queue,"]),
        (["--bind", "127.0.0.1:http"], 2, ["is not an address"]),
        (["--bind", "::1:80"], 2, ["ambiguous", "[::1]:80"]),
        (["--bind", "192.0.2.1:80"], 5, ["is not an address of this machine"]),
        (["--bind", "no-such-host.invalid:80"], 5, ["is not known"]),
        (["--bind", "fd://77"], 5, ["is not a listening socket"]),
        (["--chdir", "/no/such"], 2, ["--chdir: /no/such"]),
        (["--env", "novalue"], 2, ["is not NAME=VALUE"]),
        (["--config", "/no/such.toml"], 3, ["cannot be read"]),
        (["--access-log", "common", "--access-log-file", "/no/such/file"], 2, ["there is no folder /no/such: "]),
    ],
)
def test_options_that_cannot_be_used_say_why(arguments: list[str], status: int, words: list[str]) -> None:
    found, text = run("behaviours", *arguments)
    assert found == status, text
    for word in words:
        assert word in text, text


def test_a_busy_port_names_who_holds_it(echo: Serving) -> None:
    status, text = run("behaviours", "--bind", f"127.0.0.1:{echo.port}")
    assert status == 5
    assert f"127.0.0.1:{echo.port} is in use by process {echo.pid}" in text
    assert "choose another port" in text


LISTENS = """if True:
    import socket, sys
    host = sys.argv[1]
    held = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    held.bind((host, 0))
    held.listen()
    sys.stdout.write(f"{held.getsockname()[1]}\\n")
    sys.stdout.flush()
    sys.stdin.read()
"""


def listeners(port: int) -> int:
    """How many sockets listen at a port, at whichever addresses."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    return sum(line[3] == "0A" and line[1].endswith(f":{port:04X}") for line in lines)


@pytest.mark.parametrize(
    ("held", "asked", "beside"),
    [("127.0.0.1", "127.0.0.1", "127.0.0.9"), ("0.0.0.0", "127.0.0.1", "::1"), ("127.0.0.1", "0.0.0.0", "::1"),
     ("::1", "[::1]", "127.0.0.1"), ("::1", "[::]", "127.0.0.1"), ("::ffff:127.0.0.1", "127.0.0.1", "127.0.0.9"),
     ("::", "127.0.0.1", None)],
)  # fmt: skip
def test_who_has_the_port_at_another_address_is_not_named(held: str, asked: str, beside: str | None) -> None:
    """This process has the lower number, and is looked at first."""
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            command = [sys.executable, "-c", LISTENS, held]
            holder = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            assert holder.stdout
            port = int(holder.stdout.readline())
            if not beside:
                break
            # Another test's server has it at an address of its own: for all addresses that one is in the way, too.
            if listeners(port) > 1:
                holder.communicate(b"")
                continue
            other = stack.enter_context(socket.socket(socket.AF_INET6 if ":" in beside else socket.AF_INET))
            # Somebody else may have the port there.
            with contextlib.suppress(OSError):
                other.bind((beside, port))
                other.listen()
                break
            holder.communicate(b"")
        status, text = run("behaviours", "--bind", f"{asked}:{port}")
        holder.communicate(b"")
    assert status == 5
    assert f"{asked}:{port} is in use by process {holder.pid} (" in text


def test_a_path_that_is_taken_is_not_removed(tmp_path: Path, serve: Callable[..., Serving]) -> None:
    (tmp_path / "file").write_text("precious")
    assert run("behaviours", f"--bind=unix:{tmp_path}/file")[0] == 5
    assert (tmp_path / "file").read_text() == "precious"
    serve("behaviours", f"--bind=unix:{tmp_path}/sock")
    status, text = run("behaviours", f"--bind=unix:{tmp_path}/sock")
    assert (status, "a server answers there" in text) == (5, True)


def test_what_a_dead_server_left_is_replaced(tmp_path: Path, serve: Callable[..., Serving]) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(f"{tmp_path}/sock")
    serve("behaviours", f"--bind=unix:{tmp_path}/sock")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("threads = 1\nbind = = 2", ["forehand.toml is not TOML", "line 2"]),
        ("application = shop.wsgi", ["forehand.toml is not TOML", "line 1", "texts stand in quotes"]),
        ("bind = ['a:1']\nthread = 3", ["forehand.toml:2: 'thread' is not an option", "did you mean 'threads'"]),
        ("threads = 'x'", ["forehand.toml:1: threads: 'x' is not a whole number"]),
        ("threads = true", ["forehand.toml:1: threads"]),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path: Path, text: str, words: list[str]) -> None:
    (tmp_path / "forehand.toml").write_text(text)
    status, told = run("behaviours", "--check", cwd=tmp_path)
    assert status == 3, told
    for word in words:
        assert word in told, told


def test_an_unknown_variable_is_refused() -> None:
    status, text = run("behaviours", "--check", env={"FOREHAND_THREAD": "3"})
    assert status == 2
    assert "did you mean 'FOREHAND_THREADS'" in text


def test_command_line_goes_before_environment_before_file(tmp_path: Path) -> None:
    def threads(*arguments: str, env: dict[str, str] | None = None) -> str:
        status, text = run("--print-config", *arguments, cwd=tmp_path, env=env)
        assert status == 0, text
        return next(line for line in text.splitlines() if line.startswith("threads ="))

    assert threads() == "threads = 32  # default"
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n[tool.forehand]\nthreads = 3\n")
    assert threads() == "threads = 3  # ./pyproject.toml:4"
    (tmp_path / "forehand.toml").write_text("threads = 4\n")
    assert threads() == "threads = 4  # ./forehand.toml:1"
    assert threads(env={"FOREHAND_THREADS": "5"}) == "threads = 5  # FOREHAND_THREADS"
    assert threads("--threads=6", env={"FOREHAND_THREADS": "5"}) == "threads = 6  # command line"


SAMPLES = {
    "str": "x",
    "int": "7",
    "bool": "false",
    "size": "7K",
    "time": "7s",
    "list": "x",
    "count": "auto",
    "workers": "auto",
}
SPECIAL = {
    "health_paths": "/livez",
    "static": "/s=x;try;header=X-A: b; c, d,/t=y",
    "sendfile": "/s=x,t=y",
    "umask": "027", "socket_mode": "660", "readiness": "/ready", "request_timeouts": "/a=7s", "slow_requests": "/a=7s",
    "lanes": "/a=slow,/b=quick", "route_limits": "/a=4", "priorities": "/a=high,/b=low", "fair_by": "header:X-Key",
    "reload_strategy": "together", "worker_memory_kind": "rss", **{f"on_{what}": "hooks:call" for what in (
        "start", "worker_start", "worker_ready", "worker_exit", "reload", "stop")},
    "bind": "127.0.0.1:1", "env": "A=b", "script_name": "/x", "forwarded_allow_ips": "10.0.0.1", "url_scheme": "https",
    "forwarded_headers": "x-forwarded", "proxy_protocol_from": "10.0.0.1", "gateway_allow": "10.0.0.1",
    "access_log": "json", "log_level": "error", "http_relax": "trace", "http_refuse": "trailers", "chdir": ".",
    "log_format": "json", "log_colors": "on", "log_syslog_to": "udp://127.0.0.1:1", "log_syslog_facility": "daemon",
    "tls_min": "1.3", "tls_client_verify": "optional",
    "interface": "asgi", "lifespan": "off", "loop": "asyncio", "worker_class": "gevent",
    "statsd_host": "127.0.0.1:1",
    "server_timing": "trusted", "trace_endpoint": "http://127.0.0.1:1", "trace_sample": "0.5",
}  # fmt: skip


def test_every_option_works_from_all_three_sources(tmp_path: Path) -> None:
    from forehand.settings import OPTIONS
    from forehand.sources import as_toml, gather

    (tmp_path / "x").write_text("")
    for name, option in OPTIONS.items():
        text = SPECIAL.get(name, SAMPLES.get(option.kind, ""))
        if name == "env_file":
            text = str(tmp_path / "x")
        value = option.parse(text)
        # Without somebody who issues certificates nobody is asked for one, and a file does not say how.
        beside = {"tls_client_ca": str(tmp_path / "x")} if name == "tls_client_verify" else {}
        from_flag = gather({name: value, **beside}, None, str(tmp_path))
        os.environ[option.variable] = text
        try:
            from_variable = gather({}, None, str(tmp_path))
        finally:
            del os.environ[option.variable]
        (tmp_path / "forehand.toml").write_text(as_toml(from_flag))
        from_file = gather({}, None, str(tmp_path))
        (tmp_path / "forehand.toml").unlink()
        assert from_flag[name] == from_variable[name] == from_file[name] == value, name


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_option(shell: str) -> None:
    from forehand.settings import OPTIONS

    status, text = run("--completion", shell)
    assert status == 0
    for option in OPTIONS.values():
        assert (option.flag if shell != "fish" else option.flag[2:]) in text
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)


def test_help_and_version() -> None:
    status, text = run("--help-all")
    assert status == 0
    for word in ("Application:", "Timeouts:", "--limit-body-bytes", "FOREHAND_", "exit statuses", "ASGI"):
        assert word in text
    status, text = run("--help")
    assert status == 0
    assert len(text.splitlines()) <= 48, "two screens"
    assert max(map(len, text.splitlines())) <= 80
    for word in ("ASGI", "--bind", "--workers", "--help-all", "status", "migrate"):
        assert word in text
    assert run("-v") == run("--version")
    assert run("--version")[1].startswith("forehand 0.1.0 (Python ")


def test_the_banner_tells_what_a_person_wants_to_know(serve: Callable[..., Serving]) -> None:
    server = serve("behaviours", "--threads", "7")
    for word in (server.url, "behaviours (WSGI)", "up to 7 threads", str(server.pid)):
        server.says(word)


def test_several_addresses_answer(serve: Callable[..., Serving], tmp_path: Path) -> None:
    server = serve("echo", "--bind", "127.0.0.1:0", "--bind", f"unix:{tmp_path}/s", "--bind", "[::1]:0")
    assert len(server.urls) == 3
    port = int(server.urls[2].rpartition(":")[2])
    for family, address in [
        (socket.AF_INET, ("127.0.0.1", server.port)),
        (socket.AF_UNIX, f"{tmp_path}/s"),
        (socket.AF_INET6, ("::1", port)),
    ]:
        with socket.socket(family) as sock:
            sock.connect(address)
            sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert read_reply(sock, bytearray())[0] == 200


def test_an_inherited_socket_is_served() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        reader, writer = os.pipe()
        command = [sys.executable, "-m", "forehand", "behaviours", "--bind", f"fd://{listener.fileno()}"]
        process = subprocess.Popen(
            [*command, "--ready-fd", str(writer)], cwd=HERE / "apps", pass_fds=[writer, listener.fileno()]
        )
        os.close(writer)
        with os.fdopen(reader) as ready:
            assert "listeners" in ready.readline()
        with socket.create_connection(listener.getsockname()) as sock:
            sock.sendall(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
            assert read_reply(sock, bytearray())[2] == b"hello"
        process.terminate()
        assert process.wait(20) == 0


def test_the_installed_command_serves(tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("forehand")
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [script, "behaviours", "--bind", "127.0.0.1:0", "--ready-fd", str(writer)],
        cwd=HERE / "apps", pass_fds=[writer], stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(writer)
    with os.fdopen(reader) as ready:
        assert str(process.pid) in ready.readline(), "the fresh interpreter is the same process"
    process.terminate()
    assert process.wait(20) == 0


def test_serve_from_python(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import forehand, sys, threading, os, signal\n"
        "def app(environ, start_response):\n"
        "    start_response('200 OK', [])\n"
        "    threading.Timer(0.01, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()\n"
        "    return [b'own']\n"
        "sys.exit(forehand.serve(app, bind=f'unix:{sys.argv[1]}/s', threads=2))\n"
    )
    process = subprocess.Popen([sys.executable, "own.py", str(tmp_path)], cwd=tmp_path, stderr=subprocess.PIPE)
    assert process.stderr is not None
    assert b"Forehand" in process.stderr.readline()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(f"{tmp_path}/s")
        sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert read_reply(sock, bytearray())[2] == b"own"
    process.communicate(timeout=20)
    assert process.returncode == 0
