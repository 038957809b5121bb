"""gunicorn's configurations: which settings come out, and what is said about the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from forehand.errors import CONFIG, Problem
from forehand.migrate import page, recognised
from forehand.migrate.outcome import DIFFERENT, NOT_NEEDED, UNSUPPORTED, Outcome

DATA = Path(__file__).parent / "data"


def kinds(outcome: Outcome, option: str) -> list[str]:
    """The kinds of the remarks about an option."""
    return [remark.kind for remark in outcome.about(option)]


def test_a_threaded_configuration() -> None:
    outcome = recognised(str(DATA / "gunicorn_flask.conf.py"), ".", {"SHOP_PORT": "8099", "SHOP_WORKERS": "3"})
    assert outcome.settings == {
        "bind": ["0.0.0.0:8099"],
        "backlog": 2048,
        "workers": 3,
        "threads": 8,
        "limit_connections": 1000,
        "graceful_timeout": 60,
        "keep_alive_timeout": 5,
        "max_requests": 10000,
        "max_requests_jitter": 1000,
        "preload": True,
        "access_log": '%(h)s %(l)s %(u)s %(t)s "%(r)s" %(s)s %(b)s "%(f)s" "%(a)s" %(D)s',
        "access_log_file": "-",
        "log_file": "/var/log/shop/error.log",
        "log_level": "warning",
        "limit_header_lines": 200,
        "forwarded_allow_ips": "10.0.0.0/8,127.0.0.1",
        "env": ["SHOP_MODE=production", "TZ=UTC"],
        "pid_file": "/run/shop/shop.pid",
        "user": "www-data",
        "group": "www-data",
        "umask": "027",
        "process_name": "shop",
    }
    # A heartbeat is no deadline, hooks are code, and a misspelt name is nobody's.
    assert kinds(outcome, "timeout") == [UNSUPPORTED]
    assert (
        kinds(outcome, "post_fork") == kinds(outcome, "when_ready") == kinds(outcome, "worker_abort") == [UNSUPPORTED]
    )
    assert kinds(outcome, "pre_fork") == [NOT_NEEDED], "a hook that does nothing"
    assert "did you mean 'max_requests'" in outcome.about("max_request")[0].reason
    assert kinds(outcome, "limit_request_line") == [NOT_NEEDED]
    assert "FOREHAND_BIND" in outcome.about("bind")[0].reason, "computed from a variable, behind two names"


def test_computed_workers_are_told_of() -> None:
    outcome = recognised(str(DATA / "gunicorn_flask.conf.py"), ".", {})
    assert outcome.settings["workers"] == min((os.cpu_count() or 1) * 2 + 1, 8)
    assert 'workers = "auto"' in outcome.about("workers")[0].reason


def test_a_sync_configuration() -> None:
    outcome = recognised(str(DATA / "gunicorn_django.conf.py"), ".", {})
    assert outcome.target == "site.wsgi:application"
    assert outcome.settings == {
        "bind": ["https://unix:/run/site/gunicorn.sock", "127.0.0.1:8001"],
        "workers": 3,
        "request_timeout": 90,
        "access_log": "combined",
        "access_log_file": "/var/log/site/access.log",
        "chdir": "/srv/site",
        "http_relax": ["obs-fold"],
        "tls_cert": ["/etc/ssl/site.crt"],
        "tls_key": ["/etc/ssl/site.key"],
        "statsd_host": "localhost:8125",
    }
    assert kinds(outcome, "timeout") == [DIFFERENT], "with sync workers it is a deadline"
    assert kinds(outcome, "worker_connections") == [NOT_NEEDED]
    assert kinds(outcome, "keepalive") == [DIFFERENT]
    assert kinds(outcome, "logconfig_dict") == [UNSUPPORTED]
    assert kinds(outcome, "limit_request_line") == [UNSUPPORTED], "nothing is unlimited"
    assert kinds(outcome, "proxy_protocol") == kinds(outcome, "spew") == [], "what is off says nothing"


def test_the_proxy_protocol_is_the_addresses_own() -> None:
    words = "gunicorn --proxy-protocol --proxy-allow-from 10.0.0.0/8 -b :80 -b unix:/run/x shop"
    outcome = recognised(words, ".", {})
    assert outcome.settings["bind"] == [":80?proxy=any", "unix:/run/x?proxy=any"]
    assert outcome.settings["proxy_protocol_from"] == "10.0.0.0/8,unix", "gunicorn's list is of no unix socket"
    assert kinds(outcome, "proxy_protocol") == [DIFFERENT]
    assert recognised("gunicorn --proxy-protocol=v2 shop", ".", {}).settings["bind"] == ["127.0.0.1:8000?proxy=v2"]
    outcome = recognised("gunicorn --proxy-protocol --bind $HOST:80 shop", ".", {})
    assert kinds(outcome, "proxy_protocol") == [UNSUPPORTED], "the shell's part of an address is not known here"
    outcome = recognised("gunicorn --proxy-allow-from 10.0.0.1 shop", ".", {})
    assert kinds(outcome, "proxy_allow_ips") == [NOT_NEEDED]


def test_the_uwsgi_protocol_goes_on_to_be_spoken() -> None:
    words = "gunicorn --protocol uwsgi --uwsgi-allow-from 10.0.0.1,10.0.0.2 -b :80 -b unix:/run/x shop"
    outcome = recognised(words, ".", {})
    assert outcome.settings == {
        "bind": ["uwsgi::80", "uwsgi:unix:/run/x"], "gateway_allow": "10.0.0.1,10.0.0.2,unix",
    }  # fmt: skip
    assert recognised("gunicorn --protocol uwsgi shop", ".", {}).settings["bind"] == ["uwsgi:127.0.0.1:8000"]
    both = recognised("gunicorn --protocol uwsgi --proxy-protocol=v1 shop", ".", {})
    assert both.settings["bind"] == ["uwsgi:127.0.0.1:8000?proxy=v1"]
    shell = recognised("gunicorn --protocol uwsgi --bind $HOST:80 shop", ".", {})
    assert kinds(shell, "protocol") == [UNSUPPORTED], "the shell's part of an address is not known here"
    plain = recognised("gunicorn --protocol http --uwsgi-allow-from 10.0.0.1 shop", ".", {})
    assert plain.settings == {} and kinds(plain, "uwsgi_allow_ips") == [NOT_NEEDED]


def test_greenlets_stay_greenlets() -> None:
    words = "gunicorn -k gevent --worker-connections 500 --threads 4 shop"
    outcome = recognised(words, ".", {})
    assert outcome.settings == {"worker_class": "gevent", "worker_connections": 500}
    assert kinds(outcome, "threads") == [NOT_NEEDED]
    assert kinds(outcome, "worker_connections") == [DIFFERENT], "here it bounds requests"
    assert recognised("gunicorn -k gthread --worker-connections 500 shop", ".", {}).settings == {
        "limit_connections": 500
    }


def test_what_a_configuration_prints_is_not_in_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    text = page("gunicorn_asgi.conf.py", str(DATA), {"PORT": "81"})
    assert "for a terminal" not in text
    assert "for a terminal" in capsys.readouterr().err
    assert 'bind = ["0.0.0.0:81"]' in text
    assert 'interface = "asgi"' in text


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("workers = 2\nbind = undefined\n", ["conf.py:2: the file raised NameError", "undefined"]),
        ("import no_such_thing_here\n", ["ModuleNotFoundError", "the Python that gunicorn runs with"]),
        ("import os\nos.environ['NO_SUCH_VARIABLE']\n", ["conf.py:2: the file raised KeyError"]),
        ("def x(:\n", ["conf.py:1: the file raised SyntaxError"]),
        ("raise SystemExit('no')\n", ["the file raised SystemExit: no"]),
        ("a = 1\n", ["sets none of gunicorn's settings"]),
    ],
)
def test_a_file_that_fails_says_where(tmp_path: Path, source: str, words: list[str]) -> None:
    (tmp_path / "conf.py").write_text(source)
    with pytest.raises(Problem) as caught:
        page("conf.py", str(tmp_path), {})
    assert caught.value.status == CONFIG
    for word in words:
        assert word in caught.value.text()
    assert "gunicorn_file.py" not in caught.value.text(), "the traceback is the file's own"


def test_the_environment_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "conf.py").write_text(
        "import os, sys\nos.environ['LEFT_BEHIND'] = '1'\nsys.path.append('x')\nworkers = 2\n"
    )
    import sys

    before = list(sys.path)
    page("conf.py", str(tmp_path), {})
    assert "LEFT_BEHIND" not in os.environ
    assert sys.path == before


def test_a_file_imports_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside_the_configuration.py").write_text("COUNT = 7\n")
    (tmp_path / "conf.py").write_text("from beside_the_configuration import COUNT\nworkers = COUNT\n")
    assert recognised("conf.py", str(tmp_path), {}).settings["workers"] == 7


def test_the_command_line_goes_before_variables_and_those_before_the_file(tmp_path: Path) -> None:
    (tmp_path / "gunicorn.conf.py").write_text("workers = 2\nthreads = 2\nbacklog = 2\n")
    outcome = recognised("gunicorn app:app -w 4", str(tmp_path), {"GUNICORN_CMD_ARGS": "-w 3 --threads 3"})
    assert {name: outcome.settings[name] for name in ("workers", "threads", "backlog")} == {
        "workers": 4, "threads": 3, "backlog": 2,
    }  # fmt: skip


def test_a_configuration_that_is_a_module(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "conf.py").write_text("workers = 6\n")
    assert recognised("gunicorn -c python:shop.conf a:b", str(tmp_path), {}).settings["workers"] == 6
    assert kinds(recognised("gunicorn -c python:elsewhere a:b", str(tmp_path), {}), "config") == [UNSUPPORTED]


def test_a_file_that_is_named_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="names nowhere.py, which is not in"):
        recognised("gunicorn app:app -c nowhere.py", str(tmp_path), {})


@pytest.mark.parametrize(
    ("line", "settings", "target"),
    [
        ("gunicorn -w4 -b :80 -b unix:/x shop.wsgi", {"workers": 4, "bind": [":80", "unix:/x"]}, "shop.wsgi"),
        ("gunicorn --worker-class=gthread --threads=2 'a:make(\"x y\")'", {"threads": 2}, 'a:make("x y")'),
        ("gunicorn a:b --access-logfile - --log-file -", {"access_log": "combined", "access_log_file": "-"}, "a:b"),
        (
            "gunicorn a:b --access-logfile - --access-logformat %z",
            {"access_log": "combined", "access_log_file": "-"},
            "a:b",
        ),
        (
            "gunicorn a:b --preload --reload --max-requests 5",
            {"preload": True, "reload": True, "max_requests": 5},
            "a:b",
        ),
        ("gunicorn a:b --umask 0o22 -u web", {"umask": "022", "user": "web"}, "a:b"),
        ("gunicorn a:b --umask 022", {"umask": "022"}, "a:b"),
        ("gunicorn a:b -k gthread --timeout 0 --graceful-timeout 5", {"graceful_timeout": 5}, "a:b"),
        ("gunicorn a:b --error-logf x", {"log_file": "x"}, "a:b"),
        ("WEB_CONCURRENCY=3 PORT=8 gunicorn a:b", {"workers": 3, "bind": ["0.0.0.0:8"]}, "a:b"),
        ("gunicorn a:b --header-map refuse", {"http_refuse": ["underscore-names"]}, "a:b"),
    ],
)
def test_command_lines(line: str, settings: dict[str, object], target: str, tmp_path: Path) -> None:
    outcome = recognised(line, str(tmp_path), {})
    assert (outcome.settings, outcome.target) == (settings, target)


def test_variables_of_a_shell_stay_on_the_command_line(tmp_path: Path) -> None:
    text = page("gunicorn a:b --bind 0.0.0.0:$PORT -w ${N:-2}", str(tmp_path), {})
    assert '# Start it with: forehand --bind "0.0.0.0:$PORT" --workers "${N:-2}"\n' in text


def test_an_unknown_flag_is_told_with_the_nearest(tmp_path: Path) -> None:
    outcome = recognised("gunicorn --treads 4 a:b", str(tmp_path), {})
    assert outcome.target == "a:b"
    assert "did you mean '--threads'" in outcome.remarks[-1].reason


def test_a_value_under_a_condition_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "conf.py").write_text(
        "import os\nif os.getenv('MODE') == 'production':\n    workers = 8\nelse:\n    workers = 2\n"
        "try:\n    import no_such_module\nexcept ImportError:\n    backlog = 10\n"
    )
    outcome = recognised("conf.py", str(tmp_path), {"MODE": "production"})
    assert outcome.settings["workers"] == 8
    assert outcome.about("workers")[0].value == "if os.getenv('MODE') == 'production'"
    assert outcome.about("backlog")[0].value == "except ImportError"


def test_settings_from_variables_in_a_loop(tmp_path: Path) -> None:
    # A common idiom: every GUNICORN_ variable becomes a setting, and so a text.
    (tmp_path / "conf.py").write_text(
        "import os\nfor name, value in os.environ.items():\n    if name.startswith('GUNICORN_'):\n"
        "        locals()[name.split('_', 1)[1].lower()] = value\n"
    )
    found = recognised("conf.py", str(tmp_path), {"GUNICORN_WORKERS": "4", "GUNICORN_BIND": "[::]:80"}).settings
    assert found == {"workers": 4, "bind": ["[::]:80"]}


@pytest.mark.parametrize(("name", "value"), [("umask", "9x"), ("bind", 80), ("raw_env", 3)])
def test_a_value_of_a_wrong_kind_is_told_of(tmp_path: Path, name: str, value: object) -> None:
    (tmp_path / "conf.py").write_text(f"{name} = {value!r}\n")
    outcome = recognised("conf.py", str(tmp_path), {})
    assert kinds(outcome, name)[:1] == [UNSUPPORTED]
