"""uWSGI and Unit: what is bound, how much memory and how many threads, and where lines go."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from forehand.errors import CONFIG, Problem
from forehand.migrate import page, recognised
from forehand.migrate.outcome import DIFFERENT, UNSUPPORTED, Outcome
from test_narrow import shown
from test_pages import loads


def made(folder: Path, text: str, environment: dict[str, str] | None = None) -> Outcome:
    """What comes of a file of uWSGI's."""
    (folder / "a.ini").write_text(f"[uwsgi]\n{text}")
    loads(page("a.ini", str(folder), environment or {}), folder)
    return recognised("a.ini", str(folder), environment or {})


def test_an_address_from_a_variable_that_is_not_set_stands_on_the_command_line(tmp_path: Path) -> None:
    text = "module = a:app\nhttp-socket = 0.0.0.0:$(HTTP_PORT)\nchdir = $(HOME_OF_IT)/x\nprocesses = $(COUNT)\n"
    outcome = made(tmp_path, text)
    assert set(outcome.flags) == {
        '--bind "0.0.0.0:${HTTP_PORT}"', '--chdir "${HOME_OF_IT}/x"', '--workers "${COUNT}"',
    }  # fmt: skip
    assert "bind" not in outcome.settings
    assert [remark.reason for remark in outcome.about("http-socket")][-1] == "the variable HTTP_PORT is not set"
    assert made(tmp_path, text, {"HTTP_PORT": "81"}).settings["bind"] == ["0.0.0.0:81"]
    assert made(tmp_path, "module = a\nhttp = $(WHERE)\n").flags == ['--bind "${WHERE}"']
    assert '"${MODULE}:app"' in page("uwsgi --http-socket :1 -w '${MODULE}:app'", str(tmp_path), {})


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("logto = /var/log/a.log\n",
         {"log_file": "/var/log/a.log", "access_log": "combined", "access_log_file": "/var/log/a.log"}),
        ("logger = file:/dev/null\n",
         {"log_file": "/dev/null", "access_log": "combined", "access_log_file": "/dev/null"}),
        ("logger = errors file:/x\nreq-logger = file:/y\n",
         {"log_file": "/x", "access_log": "combined", "access_log_file": "/y"}),
        ("daemonize = /x\ndisable-logging = true\n", {"log_file": "/x", "access_log": "none"}),
        ("logger = rsyslog:10.0.0.1,shop\n",
         {"log_syslog": True, "log_syslog_to": "udp://10.0.0.1:514", "log_syslog_prefix": "shop",
          "access_log": "combined"}),
        ("logger = syslog:shop\n", {"log_syslog": True, "log_syslog_prefix": "shop", "access_log": "combined"}),
    ],
)  # fmt: skip
def test_lines_of_requests_go_where_they_went(text: str, settings: dict[str, object], tmp_path: Path) -> None:
    outcome = made(tmp_path, f"module = a\nhttp = :1\nthreads = 2\n{text}")
    assert outcome.settings == {"bind": [":1"], "threads": 2, **settings}


def test_requests_that_go_to_another_stream_are_told_of(tmp_path: Path) -> None:
    outcome = made(tmp_path, "module = a\nhttp = :1\nlogger = stdio:\n")
    assert "standard output" in outcome.about("access_log")[0].reason


def test_the_one_of_two_that_is_not_taken_is_told_of(tmp_path: Path) -> None:
    outcome = made(tmp_path, "module = a\nhttp = :1\nlogto = /x\nlogger = file:/y\npidfile = /p\npidfile2 = /p\n")
    assert outcome.settings["log_file"] == "/y"
    assert [(remark.kind, remark.value) for remark in outcome.about("logto")] == [(UNSUPPORTED, "/x")]
    assert outcome.took("pid_file", "pidfile") and outcome.took("pid_file", "pidfile2")


@pytest.mark.parametrize(
    ("text", "workers"),
    [("workers = 64\ncheaper = 8\n", 8), ("workers = 64\ncheaper = 8\nthreads = 2\n", 64), ("workers = 4\n", 4)],
)
def test_workers_by_load_become_as_many_as_memory_was_held_by_and_one_line_says_so(
    text: str, workers: int, tmp_path: Path
) -> None:
    more = "cheaper-step = 2\ncheaper-algo = busyness\ncheaper-initial = 8\n" if "cheaper" in text else ""
    outcome = made(tmp_path, f"module = a\nhttp = :1\n{text}{more}")
    assert outcome.settings["workers"] == workers
    told = [remark for remark in outcome.remarks if "cheaper" in remark.option]
    assert len(told) == (1 if more else 0)
    assert all("memory" in remark.reason and "8 to 64" in remark.reason for remark in told)


def test_an_emperor_names_the_pages_of_its_vassals(tmp_path: Path) -> None:
    (tmp_path / "vassals").mkdir()
    for name in ("shop.ini", "blog.yaml", "readme"):
        (tmp_path / "vassals" / name).touch()
    with pytest.raises(Problem) as caught:
        made(tmp_path, "emperor = vassals\nuid = www-data\n")
    assert caught.value.status == CONFIG
    lines = caught.value.hint.splitlines()[1:]
    assert lines == [
        f"forehand migrate {tmp_path}/vassals/blog.yaml > blog.toml",
        f"forehand migrate {tmp_path}/vassals/shop.ini > shop.toml",
    ]
    with pytest.raises(Problem, match="this is an emperor") as caught:
        made(tmp_path, "emperor = /no/such/*.ini\n")
    assert "for file in" in caught.value.hint


def test_permissions_and_owners_of_sockets(tmp_path: Path) -> None:
    text = "module = a\nsocket = /run/a.sock\n"
    found = made(tmp_path, f"{text}chmod-socket = 660\nchown-socket = www-data:web\n").settings
    assert (found["socket_mode"], found["socket_user"], found["socket_group"]) == ("660", "www-data", "web")
    assert made(tmp_path, f"{text}chmod-socket\n").settings["socket_mode"] == "666"
    assert made(tmp_path, text).settings["socket_mode"] == "755", "as open as it was"
    assert "socket_mode" not in made(tmp_path, f"{text}umask = 007\n").settings


def test_a_socket_that_spoke_http_needs_no_other_proxy(tmp_path: Path) -> None:
    text = "module = a\nsocket = :1\nthreads = 2\n"
    for key in ("protocol", "socket-protocol"):
        found = made(tmp_path, f"{text}{key} = http\n")
        assert "proxy_pass" not in page_of(found)
        assert found.settings["bind"] == [":1"]


def test_a_socket_that_spoke_a_web_servers_protocol_goes_on_to(tmp_path: Path) -> None:
    for text, bind in [
        ("socket = /run/a.sock\n", "uwsgi:unix:/run/a.sock"),
        ("uwsgi-socket = 127.0.0.1:3031\n", "uwsgi:127.0.0.1:3031"),
        ("socket = :3031\nprotocol = uwsgi\n", "uwsgi::3031"),
        ("scgi-socket = /run/a.sock\n", "scgi:unix:/run/a.sock"),
        ("socket = 127.0.0.1:1\nprotocol = scgi\n", "scgi:127.0.0.1:1"),
        ("fastcgi-socket = /run/a.sock\n", "fastcgi:unix:/run/a.sock"),
        ("socket = 127.0.0.1:1\nprotocol = fastcgi\n", "fastcgi:127.0.0.1:1"),
    ]:
        found = made(tmp_path, f"module = a\nthreads = 2\n{text}")
        assert found.settings["bind"] == [bind]
        assert "proxy_pass" not in page_of(found)
        assert ("gateway_allow" in page_of(found)) == (bind == "uwsgi::3031"), "others than this machine's"
    assert "proxy_pass" in page_of(made(tmp_path, "module = a\nsocket = :1\nprotocol = puwsgi\n"))


def page_of(outcome: Outcome) -> str:
    from forehand.migrate import written

    return written(outcome, "a.ini")


@pytest.mark.parametrize("text", ["psgi = app.pl\n", "plugins = php\nphp-docroot = /srv\n", "rack = config.ru\n"])
def test_what_is_no_python_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(Problem, match="this is not a Python application") as caught:
        made(tmp_path, f"http = :1\n{text}")
    assert caught.value.status == CONFIG


def test_options_of_plugins_have_their_answers(tmp_path: Path) -> None:
    outcome = made(tmp_path, "module = a\nhttp = :1\ncarbon = 10.0.0.1:2003\nsymcall = x\nharakiri = 5\n"
                   "harakiri-graceful-timeout = 3\nharakiri-queue-threshold = 4\nprocname = shop\n")  # fmt: skip
    assert outcome.settings["request_timeout_grace"] == 3
    assert outcome.settings["process_name"] == "shop"
    assert "status_bind answers Prometheus" in outcome.about("carbon")[0].reason


def test_statsd_goes_on_to_be_told(tmp_path: Path) -> None:
    outcome = made(tmp_path, "module = a\nhttp = :1\nstats-push = statsd:127.0.0.1:8125,shop\nstats = 127.0.0.1:9191\n")
    assert outcome.settings["statsd_host"] == "127.0.0.1:8125" and outcome.settings["statsd_prefix"] == "shop"
    assert "/status.json" in outcome.about("stats")[0].reason
    outcome = made(tmp_path, "module = a\nhttp = :1\nstats-push = mongodb:127.0.0.1:1\n")
    assert "statsd_host" not in outcome.settings and "status_bind" in outcome.about("stats-push")[0].reason
    assert not [remark for remark in outcome.remarks if "no option of uWSGI's" in remark.reason]


UNIT = {
    "listeners": {
        "*:8000": {"pass": "routes/main"},
        "*:8001": {"pass": "routes/metrics"},
        "*:8181": {"pass": "routes/status"},
        "*:8002": {"pass": "applications/$host"},
    },
    "routes": {
        "main": [{"match": {"uri": "/static/*"}, "action": {"share": "/s$uri"}}, {"action": {"pass": "routes/inner"}}],
        "inner": [{"action": {"pass": "applications/shop"}}],
        "metrics": [{"action": {"pass": "applications/metrics"}}],
        "status": [{"action": {"return": 200}}],
    },
    "applications": {
        "metrics": {"type": "python", "module": "metrics"},
        "shop": {"type": "python", "module": "shop.asgi", "protocol": "asgi", "processes": 2},
    },
}


def test_of_unit_only_listeners_that_lead_to_the_application_are_bound(tmp_path: Path) -> None:
    (tmp_path / "unit.json").write_text(json.dumps(UNIT))
    outcome = recognised("unit.json", str(tmp_path), {})
    shared = ["/static=/s/static;index=index.html"]
    assert outcome.settings == {"bind": [":8000"], "workers": 2, "interface": "asgi", "static": shared}
    for address in ("*:8001", "*:8181", "*:8002"):
        assert [remark.kind for remark in outcome.about(f"listeners.{address}")] == [UNSUPPORTED]
    assert [remark.kind for remark in outcome.about("threads")] == [DIFFERENT], "one there, 32 here"
    loads(page("unit.json", str(tmp_path), {}), tmp_path)


def test_of_unit_without_a_way_to_the_application_nothing_but_loopback_is_bound(tmp_path: Path) -> None:
    (tmp_path / "unit.json").write_text(json.dumps({**UNIT, "listeners": {"*:8181": {"pass": "routes/status"}}}))
    printed = shown(page("unit.json", str(tmp_path), {}), tmp_path)
    assert 'bind = ["127.0.0.1:8000"]' in printed.stdout


@pytest.mark.parametrize(
    ("words", "target"),
    [("--wsgi-file shop.py", "shop:application"), ("--wsgi-file /srv/a-b/my.wsgi", "/srv/a-b/my.wsgi:application"),
     ("--wsgi-file my.wsgi --callable app", "./my.wsgi:app"), ("--wsgi-file a-b/my.py", "a-b/my.py:application"),
     ("--chdir {} --wsgi-file my-app.py", "my-app.py:application")],
)  # fmt: skip
def test_a_file_that_is_no_module_is_served_as_a_file(tmp_path: Path, words: str, target: str) -> None:
    text = page(f"uwsgi --http-socket :8000 {words.format(tmp_path)}")
    assert f'application = "{target}"' in text and "the script" not in text, text
    if "/srv" not in target:
        file = tmp_path / words.split("--wsgi-file ")[1].partition(" ")[0]
        file.parent.mkdir(exist_ok=True)
        file.write_text("def application(environ, start_response): pass\napp = application\n")
        (tmp_path / "forehand.toml").write_text(text)
        command = [sys.executable, "-m", "forehand", "--check"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
