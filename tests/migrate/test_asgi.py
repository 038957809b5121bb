"""ASGI servers: what they have that exists here too, and what they start with when nobody says."""

from __future__ import annotations

from pathlib import Path

import pytest
from forehand.errors import Problem
from forehand.migrate import other_servers, page, recognised
from forehand.migrate.outcome import DIFFERENT, NOT_NEEDED, UNSUPPORTED
from test_pages import loads

HERE = {"bind": ["127.0.0.1:8000"]}


@pytest.mark.parametrize(
    ("line", "settings"),
    [
        ("uvicorn a:b --loop uvloop --lifespan on --interface asgi3 --ws-max-size 70000 --ws-max-queue 5 "
         "--ws-ping-interval 10 --ws-ping-timeout 4 --log-config log.json --use-colors --port 80",
         {"loop": "uvloop", "lifespan": "on", "interface": "asgi", "limit_ws_message_bytes": 70000,
          "limit_ws_queue": 5, "ws_ping_interval": 10, "ws_ping_timeout": 4, "log_config": "log.json",
          "log_colors": "on", "port": 80, "access_log": "common"}),
        ("gunicorn -k uvicorn.workers.UvicornWorker --threads 4 --keep-alive 0 -n shop a:b",
         {"interface": "asgi", "keep_alive_timeout": 0, "process_name": "shop"}),
        ("gunicorn -k asgi --asgi-loop uvloop --asgi-lifespan off --websocket-max-message-size 70000 a:b",
         {"interface": "asgi", "loop": "uvloop", "lifespan": "off", "limit_ws_message_bytes": 70000}),
        ("gunicorn -k gthread --log-syslog --log-syslog-prefix shop --log-syslog-facility daemon a:b",
         {"log_syslog": True, "log_syslog_to": "udp://localhost:514", "log_syslog_prefix": "shop",
          "log_syslog_facility": "daemon"}),
        ("gunicorn -k gthread --log-config-json l.json --log-syslog-to unix:///run/log#dgram a:b",
         {"log_config": "l.json", "log_syslog_to": "unix:///run/log"}),
        ("granian --interface asginl --loop asyncio --uds /run/x.sock --uds-permissions 0660 --process-name shop "
         "--no-http1-keep-alive --env-files .env a:b",
         {"interface": "asgi", "lifespan": "off", "loop": "asyncio", "bind": ["unix:/run/x.sock"],
          "socket_mode": "660", "process_name": "shop", "keep_alive_timeout": 0, "env_file": ".env"}),
        ("hypercorn -b 0.0.0.0:81 -b unix:/run/x.sock -k uvloop -w 3 --access-logfile - --websocket-ping-interval 9 "
         "--keep-alive 4 -p /run/x.pid --umask 7 asgi:a:b",
         {"interface": "asgi", "bind": ["0.0.0.0:81", "unix:/run/x.sock"], "loop": "uvloop", "workers": 3,
          "access_log": "combined", "access_log_file": "-", "ws_ping_interval": 9, "keep_alive_timeout": 4,
          "pid_file": "/run/x.pid", "socket_mode": "660"}),
        ("hypercorn a:b", HERE),
        # Its --http-timeout has no default: nothing is ended that was not.
        ("daphne a:b", {**HERE, "access_log": "common"}),
        ("daphne -b 0.0.0.0 -p 81 -v 0 -t 60 --ping-interval 9 -s shop a:b",
         {"host": "0.0.0.0", "port": 81, "log_level": "warning", "access_log": "none", "request_timeout": 60,
          "ws_ping_interval": 9, "server_header": "shop"}),
        ("daphne -p 81 -u /run/x.sock -e tcp:port=82:interface=127.0.0.1 -t 60 --access-log /x a:b",
         {"bind": ["127.0.0.1:81", "unix:/run/x.sock", "127.0.0.1:82"], "request_timeout": 60,
          "access_log": "common", "access_log_file": "/x"}),
        ("fastapi run shop/main.py --workers 4",
         {"host": "0.0.0.0", "workers": 4, "access_log": "common", "pythonpath": "shop"}),
        ("fastapi dev -e a:b", {"host": "127.0.0.1", "reload": True, "access_log": "common"}),
    ],
)  # fmt: skip
def test_what_exists_is_mapped(line: str, settings: dict[str, object], tmp_path: Path) -> None:
    outcome = recognised(line, str(tmp_path), {})
    assert outcome.settings == settings
    assert outcome.target in ("a:b", "main:app")
    assert not [remark for remark in outcome.remarks if "is not known to have" in remark.reason]


def test_what_cannot_be_switched_off_is_told_of() -> None:
    outcome = recognised("uvicorn a:b --ws none --ws-per-message-deflate false --ws-max-size 0", ".", {})
    for option in ("--ws", "--ws-per-message-deflate", "--ws-max-size"):
        assert [remark.kind for remark in outcome.about(option)] == [UNSUPPORTED]
    text = page("uvicorn a:b --reload --reload-include *.html --loop uvloop", ".", {})
    assert "there are no WebSockets" not in text and "no event loop" not in text and "Python files are" not in text
    assert 'reload_include = ["*.html"]' in text


def test_what_our_settings_refuse_beside_one_another_is_left_out(tmp_path: Path) -> None:
    outcome = recognised("uvicorn 'a:make()' --interface wsgi --loop uvloop --lifespan on --factory", ".", {})
    assert not {"loop", "lifespan", "factory"} & outcome.settings.keys()
    assert [remark.kind for remark in outcome.about("--loop")] == [NOT_NEEDED]


@pytest.mark.parametrize(
    ("line", "mode"),
    [("granian --interface wsgi --uds /x a:b", "755"), ("waitress-serve --unix-socket=/x a:b", "600"),
     ("hypercorn -b unix:/x a:b", "755"), ("uvicorn a:b --uds /x", None), ("gunicorn -b unix:/x a:b", None)],
)  # fmt: skip
def test_a_unix_socket_is_as_open_as_it_was(line: str, mode: str | None) -> None:
    outcome = recognised(line, ".", {})
    assert outcome.settings.get("socket_mode") == mode
    assert [remark.kind for remark in outcome.about("socket_mode")] == ([DIFFERENT] if mode else [])


def test_a_platform_s_port_opens_nothing_that_was_closed() -> None:
    # Beside nothing but defaults a variable PORT means all addresses.
    for line in ("uvicorn a:b", "granian --interface wsgi a:b", "hypercorn a:b", "daphne a:b"):
        assert recognised(line, ".", {"PORT": "80"}).settings["bind"] == ["127.0.0.1:8000"]
    outcome = recognised("uvicorn a:b --port $PORT", ".", {})
    assert (outcome.flags, outcome.settings["host"]) == (['--port "$PORT"'], "127.0.0.1")


def test_a_file_of_hypercorns_is_read(tmp_path: Path) -> None:
    (tmp_path / "hypercorn.toml").write_text(
        'bind = ["127.0.0.1:81", "unix:/run/x.sock"]\nworkers = 2\nkeep_alive_timeout = 9\nuse_reloader = true\n'
        'websocket_max_message_size = 70000\nloglevel = "WARNING"\nalpn_protocols = ["h2"]\n'
    )
    source = "hypercorn -c hypercorn.toml -w 3 a:b"
    outcome = recognised(source, str(tmp_path), {})
    assert outcome.settings == {
        "bind": ["127.0.0.1:81", "unix:/run/x.sock"], "workers": 3, "keep_alive_timeout": 9, "reload": True,
        "limit_ws_message_bytes": 70000, "log_level": "warning", "socket_mode": "755",
    }  # fmt: skip
    assert [remark.kind for remark in outcome.about("alpn_protocols")] == [UNSUPPORTED]
    text = page(source, str(tmp_path), {})
    assert "and hypercorn.toml" in text.partition("\n")[0]
    loads(text, tmp_path)
    with pytest.raises(Problem, match="is not run"):
        recognised("hypercorn -c file:conf.py a:b", str(tmp_path), {})


def test_fastapi_s_file_is_imported_as_fastapi_imports_it(tmp_path: Path) -> None:
    (tmp_path / "src" / "shop").mkdir(parents=True)
    (tmp_path / "src" / "shop" / "__init__.py").touch()
    outcome = recognised("fastapi run src/shop/main.py --app shop", str(tmp_path), {})
    assert (outcome.target, outcome.settings["pythonpath"]) == ("shop.main:shop", "src")
    (tmp_path / "main.py").touch()
    assert recognised("fastapi dev", str(tmp_path), {}).target == "main:app"


@pytest.mark.parametrize(
    ("word", "value", "answer"),
    [("--insecure-bind", "x", "hypercorn's --insecure-bind is `--bind http://x` here"),
     ("--websocket-ping-interval", "7", "hypercorn's --websocket-ping-interval is `--ws-ping-interval 7"),
     ("--endpoint", "tcp:81", "daphne's --endpoint is `--bind 0.0.0.0:81`"),
     ("--processes", "4", "uWSGI's --processes is `--workers 4` here"),
     ("--http-socket", ":81", "uWSGI's --http-socket is `--bind :81` here"),
     ("--wsgi-file", "x.py", "uWSGI's --wsgi-file is the application, which is named without an option"),
     ("--master", None, "uWSGI's --master is not needed here, leave it out: workers are supervised, always"),
     ("--http", "2", "HTTP/2 needs no option"),
     ("--ping-timeout", "7", "daphne's --ping-timeout is `--ws-ping-timeout 7")],
)  # fmt: skip
def test_single_options_of_other_servers_are_answered(word: str, value: str | None, answer: str) -> None:
    assert answer in other_servers.flag(word, value)
