"""Lines of the log: a line for each refusal, headers of the reply, JSON, Python's logging, syslog."""

from __future__ import annotations

import json
import os
import re
import resource
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import requests
from gatewayrequests import WRITERS, exchange, parsed, variables
from h2client import Client
from serving import HERE, PYTHON, Serving

CLOSE = b"Host: a\r\nConnection: close\r\n"
WAYS = {
    "threads": ["failures"],
    "gevent": ["failures", "--worker-class", "gevent"],
    "asgi": ["failures:asgi", "--interface", "asgi", "--lifespan", "off"],
}
REFUSED = [
    (b"bad\r\n\r\n", 400, "-"),
    (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n", 414, "-"),
    (b"GET /431 HTTP/1.1\r\nHost: a\r\n" + b"A: b\r\n" * 200 + b"\r\n", 431, "GET /431 HTTP/1.1"),
    (b"GET /large HTTP/1.1\r\nHost: a\r\nA: " + b"b" * 70_000, 431, "GET /large HTTP/1.1"),
    (b"GET /505 HTTP/3.0\r\nHost: a\r\n\r\n", 505, "GET /505 HTTP/3.0"),
    (b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400, "GET /a b HTTP/1.1"),
    (b'GET /a\x7f" HTTP/1.1\r\nHost: a\r\n\r\n', 400, "GET /a\\x7f\\x22 HTTP/1.1"),
    (b"GET /lf HTTP/1.1\nHost: a\n\n", 400, "GET /lf HTTP/1.1"),
    (b"GET /none HTTP/1.1\r\n\r\n", 400, "GET /none HTTP/1.1"),
    (b"POST /two HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "POST /two HTTP/1.1"),
    (b"POST /te HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "POST /te HTTP/1.0"),
    (b"POST /who HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501, "POST /who HTTP/1.1"),
    (b"POST /no HTTP/1.1\r\nHost: a\r\nExpect: more\r\nContent-Length: 1\r\n\r\n", 417, "POST /no HTTP/1.1"),
    (b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 405, "CONNECT a:443 HTTP/1.1"),
]


@pytest.mark.parametrize("way", WAYS)
def test_each_refusal_has_its_line_with_what_was_sent(serve: Callable[..., Serving], way: str) -> None:
    target, *options = WAYS[way]
    server = serve(target, *options, "--access-log", "common", env={"FAILURE": os.devnull})
    for data, status, line in REFUSED:
        content = server.raw(data).partition(b"\r\n\r\n")[2]
        wanted = f'"{line}" {status} {len(content)}'
        server.until(lambda wanted=wanted: wanted in server.log())  # type: ignore[misc]


def test_a_body_that_is_too_large_is_logged_with_its_request(serve: Callable[..., Serving]) -> None:
    server = serve(
        "failures", "--access-log", '%h %m %U "%r" %s %b %{User-Agent}i', "--limit-body-bytes", "10",
        env={"FAILURE": os.devnull},
    )  # fmt: skip
    for path, rest in (
        ("/length", b"Content-Length: 11\r\n\r\n"),
        ("/chunked", b"Transfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n0\r\n\r\n"),
    ):
        head = f"POST {path} HTTP/1.1\r\nHost: a\r\nUser-Agent: u\r\nX-Forwarded-For: 192.0.2.7\r\n".encode()
        content = server.raw(head + rest).partition(b"\r\n\r\n")[2]
        # With the client that a proxy names, which is trusted on this machine.
        wanted = f'192.0.2.7 POST {path} "POST {path} HTTP/1.1" 413 {len(content)} u\n'
        server.until(lambda wanted=wanted: wanted in server.log())  # type: ignore[misc]


def test_a_head_that_comes_too_slowly_is_logged_with_its_line(serve: Callable[..., Serving]) -> None:
    server = serve("failures", "--access-log", "common", "--header-timeout", "0.1", env={"FAILURE": os.devnull})
    for begun, line in ((b"GET /slow HTTP/1.1\r\nHost: a\r\n", "GET /slow HTTP/1.1"), (b"GET /slo", "-")):
        assert server.raw(begun).startswith(b"HTTP/1.1 408 ")
        server.until(lambda line=line: f'"{line}" 408 ' in server.log())  # type: ignore[misc]


@pytest.mark.parametrize("protocol", sorted(WRITERS))
def test_what_a_web_server_hands_on_and_is_refused_is_logged_with_its_request(
    serve: Callable[..., Serving], protocol: str
) -> None:
    server = serve(
        "failures", f"--bind={protocol}://127.0.0.1:0", "--access-log", "common", "--limit-body-bytes=10",
        "--limit-header-lines=20", env={"FAILURE": os.devnull},
    )  # fmt: skip
    many = {f"HTTP_A{number}": "b" for number in range(21)}
    for target, body, more, status in (
        ("/large", b"x" * 11, {}, 413), ("/host", b"", {"HTTP_HOST": "a b"}, 400), ("/many", b"", many, 431),
    ):  # fmt: skip
        sent = WRITERS[protocol](variables("POST", target, body, more), body)
        assert parsed(exchange(server, sent))[0] == status
        line = f'"POST {target} HTTP/1.1" {status} '
        server.until(lambda line=line: line in server.log())  # type: ignore[misc]
    assert '"-" 4' not in server.log()


def test_what_is_refused_on_a_stream_is_logged_with_its_request(serve: Callable[..., Serving]) -> None:
    server = serve(
        "failures", "--bind=h2c://127.0.0.1:0", "--access-log", '%h "%r" %s %{User-Agent}i',
        "--limit-body-bytes=10", "--limit-header-lines=20", env={"FAILURE": os.devnull},
    )  # fmt: skip
    agent = ("user-agent", "u")
    with Client(server.port) as client:
        for path, fields, told in (
            ("/large", (("content-length", "11"), agent), '"POST /large HTTP/2.0" 413 u'),
            ("/expect", (("expect", "more"), agent), '"POST /expect HTTP/2.0" 417 u'),
            ("/many", tuple((f"a{number}", "b") for number in range(21)), '"POST /many HTTP/2.0" 431 -'),
        ):
            client.ask(path, body=True, fields=fields)
            client.flush()
            server.until(lambda told=told: f"{told}\n" in server.log())  # type: ignore[misc]


def test_what_a_refusal_has_told_of_is_not_told_of_the_next(serve: Callable[..., Serving]) -> None:
    server = serve("failures", "--access-log", "common", env={"FAILURE": os.devnull})
    server.raw(b"GET /first HTTP/1.1\r\n\r\n")
    server.raw(b"bad\r\n\r\n")
    server.until(lambda: server.log().count('HTTP/1.1" 400 ') == 1 and '"-" 400 ' in server.log())


def test_replies_of_the_server_itself_have_their_length(serve: Callable[..., Serving]) -> None:
    server = serve("failures", "--access-log", "common", env={"FAILURE": os.devnull})
    content = server.raw(b"GET / HTTP/1.1\r\n" + CLOSE + b"\r\n").partition(b"\r\n\r\n")[2]
    server.until(lambda: f'"GET / HTTP/1.1" 500 {len(content)}' in server.log())
    server = serve("behaviours", "--access-log", "common", "--request-timeout", "0.1")
    content = server.raw(b"GET /sleep?5 HTTP/1.1\r\n" + CLOSE + b"\r\n").partition(b"\r\n\r\n")[2]
    assert content
    server.until(lambda: f'HTTP/1.1" 504 {len(content)}' in server.log())


@pytest.mark.parametrize(
    "spelling", ["%s %{X-Trace}o %{shop.user}e %{x-none}o", "%(s)s %({X-Trace}o)s %({shop.user}e)s %({x-none}o)s"]
)
@pytest.mark.parametrize("way", ["threads", "gevent"])
def test_headers_of_the_reply_and_keys_of_environ_are_in_the_line(
    serve: Callable[..., Serving], way: str, spelling: str
) -> None:
    target, *options = WAYS[way]
    server = serve(target, *options, "--access-log", spelling)
    assert server.raw(b"GET /noted HTTP/1.1\r\n" + CLOSE + b"\r\n").endswith(b"ok")
    server.until(lambda: "200 t1, t2 ann -\n" in server.log())


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ([], False), (["--access-log"], True), (["--no-access-log", "--reload"], False), (["--reload"], True),
        (["--access-log=none"], False),
    ],
)  # fmt: skip
def test_the_access_log_is_kept_in_development_or_where_it_is_asked_for(
    serve: Callable[..., Serving], words: list[str], kept: bool
) -> None:
    server = serve("failures", *words)
    assert server.raw(b"GET /noted HTTP/1.1\r\n" + CLOSE + b"\r\n").endswith(b"ok")
    assert server.stop() == 0
    assert ('"GET /noted HTTP/1.1" 200 2' in server.log()) is kept, server.log()


def test_a_flag_without_its_value_does_not_take_the_target() -> None:
    done = subprocess.run(
        [PYTHON, "-m", "forehand", "--access-log", "echo", "--check"], cwd=HERE / "apps", capture_output=True, text=True
    )
    assert (done.returncode, "echo loads" in done.stdout) == (0, True), done.stderr
    (done := subprocess.run(
        [PYTHON, "-m", "forehand", "echo", "--access-log", "nonsense", "--check"],
        cwd=HERE / "apps", capture_output=True, text=True,
    ))  # fmt: skip
    assert (done.returncode, "'nonsense' is neither" in done.stderr) == (2, True)


def test_true_and_false_mean_it_in_the_file(tmp_path: Path) -> None:
    for text, wanted in (("true", 'access_log = "common"'), ("false", 'access_log = "none"')):
        (tmp_path / "forehand.toml").write_text(f"access_log = {text}\n")
        done = subprocess.run(
            [PYTHON, "-m", "forehand", "--print-config"], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert wanted in done.stdout


@pytest.mark.parametrize("way", WAYS)
def test_the_servers_own_lines_can_be_json(serve: Callable[..., Serving], tmp_path: Path, way: str) -> None:
    target, *options = WAYS[way]
    server = serve(target, *options, "--log-format", "json", env={"FAILURE": str(tmp_path / "failure")})
    server.raw(b"bad\r\n\r\n")
    server.raw(b"GET /deep HTTP/1.1\r\n" + CLOSE + b"\r\n")
    assert server.order("reload")[0] == 0
    assert server.stop() == 0
    lines = [json.loads(line) for line in server.log().splitlines() if line.startswith("{")]
    assert all({"time", "level", "pid", "message"} <= line.keys() for line in lines)
    assert any("refused a request" in line["message"] for line in lines), "of the engine"
    assert any("reload" in line["message"] for line in lines), "of the supervisor"
    (failed,) = [line for line in lines if "the application failed: GET /deep" in line["message"]]
    assert failed["level"] == "error"
    assert "innermost" in failed["traceback"]
    others = [line for line in server.log().splitlines() if not line.startswith("{")]
    assert not [line for line in others if re.match(r"\d{4}-", line)], others


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize("way", WAYS)
def test_every_line_is_json_from_the_first_to_the_last(serve: Callable[..., Serving], way: str, workers: str) -> None:
    target, *options = WAYS[way]
    server = serve(target, *options, "--log-format", "json", "--workers", workers, env={"FAILURE": os.devnull})
    assert server.stop() == 0
    said = [json.loads(line)["message"] for line in server.log().splitlines()]
    assert any("Ctrl-C stops" in text for text in said) and any("stopping: waiting" in text for text in said), said


HOOKS = """
def broken(facts):
    raise RuntimeError("innermost")
"""


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize(
    ("words", "status", "message", "innermost"),
    [
        (["nosuch"], 4, "forehand: there is no module 'nosuch'", ""),
        (["broken"], 4, "forehand: importing 'broken' raised", "ZeroDivisionError"),
        (["whole", "--on-start", "hooks:broken"], 4, "forehand: the hook on_start ", "RuntimeError: innermost"),
        (["whole", "--bind", "192.0.2.1:80"], 5, "forehand: ", ""),
    ],
    ids=["module", "import", "hook", "address"],
)
def test_why_a_server_does_not_begin_is_json_too_and_the_gravest(
    tmp_path: Path, workers: str, words: list[str], status: int, message: str, innermost: str
) -> None:
    (tmp_path / "hooks.py").write_text(HOOKS)
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "whole.py").write_text("def app(environ, start_response):\n    raise KeyError\n")
    command = [PYTHON, "-m", "forehand", *words, "--log-format", "json", "--workers", workers]
    if "--bind" not in words:
        command.append("--bind=127.0.0.1:0")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    said = [json.loads(line) for line in done.stderr.splitlines()]
    assert (done.returncode, said[-1]["level"]) == (status, "critical"), done.stderr
    assert said[-1]["message"].startswith(message)
    assert innermost in said[-1].get("traceback", "")


CONFIG = {
    "version": 1,
    "formatters": {"own": {"format": "%(name)s|%(levelname)s|%(message)s"}},
    "handlers": {"file": {"class": "logging.FileHandler", "filename": "", "formatter": "own"}},
    "root": {"handlers": ["file"], "level": "DEBUG"},
}


def as_toml(config: dict) -> str:  # type: ignore[type-arg]
    handler = config["handlers"]["file"]
    return (
        "version = 1\n[formatters.own]\nformat = '%(name)s|%(levelname)s|%(message)s'\n"
        f"[handlers.file]\nclass = 'logging.FileHandler'\nfilename = '{handler['filename']}'\nformatter = 'own'\n"
        "[root]\nhandlers = ['file']\nlevel = 'DEBUG'\n"
    )


@pytest.mark.parametrize("suffix", [".json", ".toml"])
@pytest.mark.parametrize("way", WAYS)
def test_lines_go_to_pythons_logging(serve: Callable[..., Serving], tmp_path: Path, way: str, suffix: str) -> None:
    config = json.loads(json.dumps(CONFIG))
    config["handlers"]["file"]["filename"] = str(tmp_path / "own.log")
    file = tmp_path / f"logging{suffix}"
    file.write_text(json.dumps(config) if suffix == ".json" else as_toml(config))
    target, *options = WAYS[way]
    server = serve(
        target, *options, "--log-config", str(file), "--access-log", "common",
        env={"FAILURE": str(tmp_path / "failure")},
    )  # fmt: skip
    server.raw(b"bad\r\n\r\n")
    server.raw(b"GET /deep HTTP/1.1\r\n" + CLOSE + b"\r\n")
    assert server.order("reload")[0] == 0
    assert server.stop() == 0
    found = (tmp_path / "own.log").read_text()
    assert re.search(r"^forehand.error\|INFO\|refused a request", found, re.M), found
    assert re.search(r"^forehand.error\|ERROR\|the application failed: GET /deep", found, re.M), found
    assert "innermost" in found
    assert re.search(r"^forehand.error\|INFO\|reload", found, re.M), found
    assert re.search(r'^forehand.access\|INFO\|.*"GET /deep HTTP/1.1" 500', found, re.M), found
    assert found.count("refused a request") == 1, "each line once"
    assert re.search(r"^forehand.error\|INFO\|Forehand \d", found, re.M) and "|forehand: stopping" in found, "all lines"
    assert server.log() == "", "and nowhere else"
    assert "refused a request" not in server.log()


def test_pythons_logging_hears_why_a_server_does_not_begin_and_so_does_who_starts_it(tmp_path: Path) -> None:
    config = json.loads(json.dumps(CONFIG))
    config["handlers"]["file"]["filename"] = str(tmp_path / "own.log")
    (tmp_path / "logging.json").write_text(json.dumps(config))
    command = [PYTHON, "-m", "forehand", "nosuch", "--log-config", "logging.json", "--bind=127.0.0.1:0"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    said = "forehand: there is no module 'nosuch'"
    assert f"forehand.error|CRITICAL|{said}" in (tmp_path / "own.log").read_text()
    assert (done.returncode, said in done.stderr) == (4, True), done.stderr


CONFIGURES = """
import logging.config
logging.config.dictConfig({"version": 1})  # which disables every logger that is there
"""


@pytest.mark.parametrize("way", WAYS)
def test_an_application_that_configures_logging_disables_no_line_of_ours(
    serve: Callable[..., Serving], tmp_path: Path, way: str
) -> None:
    config = json.loads(json.dumps(CONFIG))
    config["loggers"] = {name: {"handlers": ["file"]} for name in ("forehand.error", "forehand.access")}
    config["handlers"]["file"]["filename"] = str(tmp_path / "own.log")
    (tmp_path / "logging.json").write_text(json.dumps(config))
    target, *options = WAYS[way]
    module, _, name = target.partition(":")
    (tmp_path / "own.py").write_text(f"{CONFIGURES}from {module} import {name or 'application'} as app\n")
    server = serve(
        "own:app", *options, "--log-config", "logging.json", "--access-log", "common", cwd=tmp_path,
        env={"FAILURE": os.devnull, "PYTHONPATH": str(HERE / "apps")},
    )  # fmt: skip
    server.raw(b"GET /deep HTTP/1.1\r\n" + CLOSE + b"\r\n")
    assert server.stop() == 0
    found = (tmp_path / "own.log").read_text()
    assert "forehand.error|ERROR|the application failed: GET /deep" in found
    assert re.search(r'^forehand.access\|INFO\|.*"GET /deep HTTP/1.1" 500', found, re.M), found


@pytest.mark.parametrize("way", WAYS)
def test_a_failure_is_told_after_the_application_has_configured_logging_anew(
    serve: Callable[..., Serving], tmp_path: Path, way: str
) -> None:
    target, *options = WAYS[way]
    module, _, name = target.partition(":")
    (tmp_path / "configures.py").write_text(CONFIGURES)
    (tmp_path / "own.py").write_text(
        f"from {module} import {name or 'application'} as inner\nasked = []\ndef app(*given):\n    asked.append(1)\n"
        "    if len(asked) == 2:\n        import configures\n    return inner(*given)\n"
    )
    options = [*options, "--env", "FAILURE=/dev/null", "--pythonpath", str(HERE / "apps")]
    server = serve("own:app", *options, cwd=tmp_path)
    for _ in range(2):
        server.raw(b"GET /deep HTTP/1.1\r\n" + CLOSE + b"\r\n")
    server.until(lambda: server.log().count("the application failed: GET /deep") == 2)


def test_a_configuration_for_another_server_loses_no_line(serve: Callable[..., Serving], tmp_path: Path) -> None:
    handlers = {"none": {"class": "logging.NullHandler"}}
    others = {"version": 1, "handlers": handlers, "loggers": {"uvicorn": {"handlers": ["none"]}}}
    (tmp_path / "logging.json").write_text(json.dumps(others))
    server = serve("failures", "--log-config", str(tmp_path / "logging.json"), "--access-log", "common")
    server.raw(b"GET /noted HTTP/1.1\r\n" + CLOSE + b"\r\n")
    server.raw(b"bad\r\n\r\n")
    assert server.stop() == 0
    assert "logging.json has no handler for forehand.error: its lines go to standard error" in server.log()
    assert "info: refused a request" in server.log() and '"GET /noted HTTP/1.1" 200' in server.log()
    assert server.log().count("has no handler") == 1


SLOW = """
import logging, time
class Slow(logging.FileHandler):
    def emit(self, record):
        time.sleep(0.002)
        super().emit(record)
def app(environ, start_response):
    start_response("200 OK", [])
    return [b"ok"]
async def asgi(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})
"""


@pytest.mark.parametrize("way", WAYS)
def test_a_stop_waits_for_lines_that_pythons_logging_has_still_to_be_told(
    serve: Callable[..., Serving], tmp_path: Path, way: str
) -> None:
    config = json.loads(json.dumps(CONFIG))
    config["handlers"]["file"] |= {"class": "slowly.Slow", "filename": str(tmp_path / "own.log")}
    (tmp_path / "logging.json").write_text(json.dumps(config))
    (tmp_path / "slowly.py").write_text(SLOW)
    target, *options = WAYS[way]
    server = serve(
        target.replace("failures", "slowly"), *options, "--log-config", "logging.json", "--access-log", "common",
        cwd=tmp_path,
    )  # fmt: skip
    server.raw(b"GET /noted HTTP/1.1\r\nHost: a\r\n\r\n" * 150 + b"GET /noted HTTP/1.1\r\n" + CLOSE + b"\r\n")
    assert server.stop() == 0
    assert (tmp_path / "own.log").read_text().count('"GET /noted HTTP/1.1" 200') == 151


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", ["logging.json cannot be read"]),
        ('{"version": 3}', ["is not a configuration for Python's logging", "version"]),
        ('{"version": 1, "root": {"handlers": ["none"]}}', ["is not a configuration for Python's logging", "none"]),
        (None, ["cannot be read", "No such file"]),
    ],
)
def test_a_configuration_that_cannot_be_used_says_why(tmp_path: Path, text: str | None, words: list[str]) -> None:
    if text is not None:
        (tmp_path / "logging.json").write_text(text)
    done = subprocess.run(
        [PYTHON, "-m", "forehand", "echo", "--log-config", str(tmp_path / "logging.json"), "--check"],
        cwd=HERE / "apps", capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    for word in words:
        assert word in done.stderr


def test_lines_go_to_syslog(serve: Callable[..., Serving], tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as syslog:
        syslog.bind(("127.0.0.1", 0))
        syslog.settimeout(20)
        server = serve(
            "failures", "--log-syslog", "--log-syslog-to", f"udp://127.0.0.1:{syslog.getsockname()[1]}",
            "--log-syslog-facility", "daemon", "--log-syslog-prefix", "shop", "--access-log", "common",
        )  # fmt: skip
        server.raw(b"GET /noted HTTP/1.1\r\n" + CLOSE + b"\r\n")
        server.raw(b"bad\r\n\r\n")
        found: list[bytes] = []
        while not (any(b"/noted" in line for line in found) and any(b"refused" in line for line in found)):
            found.append(syslog.recv(65536))
        # daemon is 3, info 6: 3 * 8 + 6.
        assert all(re.match(rb"<30>shop\[\d+\]: INFO: ", line) for line in found), found
        assert sum(b"/noted" in line for line in found) == 1
    for words, status in (
        (["--log-syslog-to", "nowhere"], 2),
        (["--log-syslog", "--log-syslog-to", "unix:///no/such"], 5),
    ):
        done = subprocess.run(
            [PYTHON, "-m", "forehand", "echo", *words, "--check"], cwd=HERE / "apps", capture_output=True, text=True
        )
        assert done.returncode == status, done.stderr


def test_a_log_that_has_no_room_is_told_of_at_once_and_goes_on_with_whole_lines(
    serve: Callable[..., Serving], tmp_path: Path
) -> None:
    access = tmp_path / "access.log"
    # Longer than the server's own log, which the bound below leaves alone.
    access.write_text("an earlier line\n" * 10_000)
    before = access.stat().st_size
    server = serve("echo", "--access-log", "common", "--access-log-file", str(access))
    assert requests.get(f"{server.url}/first", timeout=20).status_code == 200
    line = server.until(lambda: access.stat().st_size - before)
    # A line and a half have room, as where a disk is nearly full.
    worker = server.workers[0]
    unbounded = resource.prlimit(worker, resource.RLIMIT_FSIZE)
    resource.prlimit(worker, resource.RLIMIT_FSIZE, (before + line * 5 // 2, unbounded[1]))
    try:
        for _ in range(2):
            assert requests.get(f"{server.url}/first", timeout=20).status_code == 200
        server.says("access log: it cannot be written: File too large")
    finally:
        resource.prlimit(worker, resource.RLIMIT_FSIZE, unbounded)
    assert requests.get(f"{server.url}/again", timeout=20).status_code == 200
    server.until(lambda: "GET /again" in access.read_text())
    *_, cut, last = access.read_text().splitlines()
    assert 0 < len(cut) < line - 1 and last.count("HTTP/1.1") == 1, (cut, last)
    # The line that was cut, and not the one that went out with it.
    server.says("access log: 1 line was lost")
    assert server.log().count("it cannot be written") == 1
