"""uWSGI, NGINX Unit, the servers that only have flags, and files that have a command line in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from forehand.errors import Problem
from forehand.migrate import page, recognised
from forehand.migrate.outcome import DIFFERENT, NOT_NEEDED, UNSUPPORTED

DATA = Path(__file__).parent / "data"


FOR_GUNICORN = "gunicorn a:b\n"
STARTS = {
    "Procfile": f"web: {FOR_GUNICORN}",
    "Dockerfile": f"FROM python\nWORKDIR /srv\nCMD {FOR_GUNICORN}",
    "docker-compose.yml": f"services:\n  web:\n    command: {FOR_GUNICORN}",
    "shop.service": "[Service]\nWorkingDirectory={folder}\nExecStart=/venv/bin/gunicorn a:b\n",
    "supervisord.conf": "[program:web]\ndirectory={folder}\ncommand=gunicorn a:b\n",
    "start.sh": f"#!/bin/sh\nexec {FOR_GUNICORN}",
}


@pytest.mark.parametrize("name", STARTS)
def test_what_a_server_reads_where_it_is_started_is_found_from_another_folder(tmp_path: Path, name: str) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "gunicorn.conf.py").write_text("workers = 7\n")
    (shop / name).write_text(STARTS[name].format(folder=shop))
    assert recognised(f"shop/{name}", str(tmp_path), {}).settings["workers"] == 7
    # Where both have one, a Procfile belongs to what is beside it, and a script is called from the project's folder.
    (tmp_path / "gunicorn.conf.py").write_text("workers = 5\n")
    found = recognised(f"shop/{name}", str(tmp_path), {}).settings["workers"]
    assert found == (5 if name == "start.sh" else 7)


def test_a_file_beside_a_compose_file_is_read_from_another_folder(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/uwsgi.ini").write_text("[uwsgi]\nhttp = :8000\nmodule = shop.wsgi\n")
    (tmp_path / "shop/compose.yaml").write_text("services:\n  web:\n    command: uwsgi --ini uwsgi.ini\n")
    assert recognised("shop/compose.yaml", str(tmp_path), {}).settings["bind"] == [":8000"]


def test_hypercorn_with_a_format_and_a_file_has_one_access_log(tmp_path: Path) -> None:
    (tmp_path / "hypercorn.toml").write_text('accesslog = "-"\naccess_log_format = "%(h)s %(s)s"\n')
    outcome = recognised("hypercorn -c hypercorn.toml a:b", str(tmp_path), {})
    assert (outcome.settings["access_log"], outcome.settings["access_log_file"]) == ("%(h)s %(s)s", "-")
    assert [remark for remark in outcome.remarks if remark.kind == UNSUPPORTED] == []


def test_a_uwsgi_file() -> None:
    outcome = recognised(str(DATA / "flask.ini"), ".", {})
    assert outcome.target == "run:app"
    assert outcome.program == "/srv/shop/venv/bin/forehand"
    assert outcome.path_timeouts == {"/export": 600.0}
    assert outcome.settings == {
        "bind": ["uwsgi:unix:/srv/shop/flask.sock"],
        "pythonpath": "/srv/shop,/srv/shop/lib",
        "workers": 8,
        "threads": 4,
        "preload": True,
        "request_timeout": 60,
        "max_requests": 5000,
        "max_requests_jitter": 500,
        "max_worker_age": 3600,
        "max_worker_memory": 300 << 20,
        "graceful_timeout": 60,
        "backlog": 1024,
        "limit_body_bytes": 20971520,
        "socket_mode": "660",
        "log_file": "/var/log/uwsgi/flask.log",
        "access_log_file": "/var/log/uwsgi/flask.log",
        "access_log": '%h - %u %t "%r" %s %b "%{Referer}i" "%{User-Agent}i" %M',
        "user": "www-data",
        "group": "www-data",
        "env": ["SHOP_MODE=production", f"SHOP_HOME={DATA}/"],
        "static": ["/static=/srv/shop/static;try;max-age=86400"],
    }
    said = {remark.option: remark.kind for remark in outcome.remarks}
    for option in ("cheaper, cheaper-algo", "stats", "spooler", "cron", "touch-reload"):
        assert said[option] == UNSUPPORTED, option
    for option in ("threads", "lazy-apps", "home", "static-map"):
        assert said[option] == DIFFERENT, option
    for option in ("master", "enable-threads", "vacuum", "buffer-size", "die-on-term"):
        assert said[option] == NOT_NEEDED, option
    assert "base" not in said and "app" not in said, "placeholders are no options"


@pytest.mark.parametrize(("port", "bound"), [(None, "127.0.0.1:9009"), ("81", ":81")])
def test_conditions_loops_and_sections_of_uwsgi(port: str | None, bound: str) -> None:
    outcome = recognised(str(DATA / "logic.ini"), ".", {"SHOP_PORT": port} if port else {})
    assert outcome.settings == {
        "bind": [bound], "env": ["FLAG_one=1", "FLAG_two=1"], "chdir": "/srv/shop", "threads": 2, "workers": "auto",
        "umask": "002", "access_log": "none",
    }  # fmt: skip
    assert outcome.target == "shop.wsgi:application"


def test_loops_over_files_and_lines_of_uwsgi(tmp_path: Path) -> None:
    (tmp_path / "variables").write_text("A=1\nB=2\n")
    (tmp_path / "a.ini").write_text(
        f"[uwsgi]\nhttp = :1\nmodule = a\nfor-readline = {tmp_path}/variables\nenv = %(_)\nendfor =\n"
        f"for-glob = {tmp_path}/*.ini\npythonpath = %(_)\nendfor =\nfor-times = 2\nenv = T%(_)=x\nend-for =\n"
        "if-hostname = no.such.host\nthreads = 9\nendif =\nif-not-dir = /no/such\nprocesses = 3\nendif =\n"
    )
    found = recognised("a.ini", str(tmp_path), {}).settings
    assert found["env"] == ["A=1", "B=2", "T1=x", "T2=x"]
    assert found["pythonpath"] == f"{tmp_path}/a.ini"
    assert found["workers"] == 3 and "threads" not in found


def test_a_section_is_named_as_uwsgi_has_it() -> None:
    assert recognised(str(DATA / "logic.ini:other"), ".", {}).settings["workers"] == 99
    with pytest.raises(Problem, match="has no section nosuch; it has: uwsgi, app, other"):
        recognised(str(DATA / "logic.ini:nosuch"), ".", {})


def test_the_four_forms_of_uwsgi_say_the_same() -> None:
    made = {form: recognised(str(DATA / f"django.{form}"), ".", {}) for form in ("yaml", "json", "xml")}
    assert {form: outcome.target for form, outcome in made.items()} == dict.fromkeys(made, "site.wsgi:application")
    assert made["yaml"].settings["env"] == ["A=1", "B=2"]
    assert made["yaml"].settings["pythonpath"] == "/srv/site,/srv/lib"
    assert made["json"].settings["bind"] == ["127.0.0.1:8000", "unix:/run/site.sock"]
    assert made["json"].settings["access_log"] == "none"
    assert made["xml"].settings["bind"] == ["127.0.0.1:8000", ":8001"]
    assert made["xml"].settings["script_name"] == "/shop"
    assert (made["xml"].settings["worker_class"], made["xml"].settings["worker_connections"]) == ("gevent", 100)
    assert "threads" not in made["xml"].settings


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.ini", "processes = 2\n", "line 1 stands before the first"),
        ("a.ini", "[uwsgi]\nini = a.ini\n", "deep"),
        ("a.xml", "<uwsgi><a></uwsgi>", "cannot be read"),
        ("a.json", "{", "is not JSON"),
        ("a.json", "[1]", "is not an object"),
        ("a.json", '{"applications": {}, "listeners": {}}', "has no Python application"),
        ("a.yaml", "  a: 1\n", "stands before the first section"),
        ("Procfile", "web: node server.js\n", "no line of this Procfile starts a server"),
        ("a.service", "[Service]\nExecStart=/bin/true\n", "no line of this systemd unit"),
        ("a.txt", "x", "this form is not known"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(Problem, match=words) as caught:
        page(name, str(tmp_path), {})
    assert "Traceback" not in caught.value.text()


@pytest.mark.parametrize(
    ("source", "words"),
    [("nosuch.ini", "there is no file nosuch.ini"), ("node server.js", "no server that is known here"),
     (".", "is a folder"),
     ("gunicorn 'a", "cannot be read"), ("gunicorn -w", "-w has no value")],
)  # fmt: skip
def test_a_source_that_is_none_says_what_is_understood(tmp_path: Path, source: str, words: str) -> None:
    with pytest.raises(Problem, match=words):
        page(source, str(tmp_path), {})


def test_a_placeholder_that_nobody_set_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "a.ini").write_text("[uwsgi]\nmodule = %(nobody).wsgi\nhttp = :1\nchdir = $(NO_SUCH)/x\n")
    text = page("a.ini", str(tmp_path), {})
    assert "the placeholder %(nobody) is not known" in text
    assert "the variable NO_SUCH is not set" in text


def test_a_unit_configuration() -> None:
    outcome = recognised(str(DATA / "unit.json"), ".", {})
    assert (outcome.target, outcome.program) == ("shop.wsgi:app", "/srv/shop/venv/bin/forehand")
    assert outcome.settings == {
        "bind": [":8000", "127.0.0.1:8443"],
        "forwarded_allow_ips": "10.0.0.0/8",
        "pythonpath": "/srv/shop,/srv/lib",
        "user": "shop",
        "group": "shop",
        "threads": 4,
        "workers": 6,
        "request_timeout": 45,
        "max_requests": 10000,
        "env": ["SHOP_MODE=production"],
        "chdir": "/srv/shop",
        "limit_body_bytes": 22020096,
        "header_timeout": 20,
        "keep_alive_timeout": 90,
        "access_log": "combined",
        "access_log_file": "/var/log/unit/access.log",
    }
    lost = {remark.option for remark in outcome.remarks if remark.kind == UNSUPPORTED}
    assert {"applications.admin", "listeners.127.0.0.1:8443.tls", "listeners.*:9000", "routes[0]"} <= lost
    assert "applications.shop.isolation" in lost
    [keys] = outcome.about("listeners.127.0.0.1:8443.tls.session.tickets")
    assert "tls_ticket_keys" in keys.reason and "U2VjcmV0" not in str(outcome.remarks), "a secret is not told on"


def test_a_procfile_s_web_line_counts() -> None:
    outcome = recognised(str(DATA / "Procfile"), ".", {})
    assert (outcome.target, outcome.settings) == ("shop.wsgi", {"request_timeout": 120})
    assert outcome.flags == ['--workers "${WEB_CONCURRENCY:-3}"']


def test_unit_s_own_user_and_headers_that_are_not_understood_are_told(tmp_path: Path) -> None:
    forwarded = {"client_ip": "CF-Connecting-IP", "protocol": "x-forwarded-proto", "source": "10.0.0.1"}
    listener = {"pass": "applications/a", "forwarded": forwarded}
    document = {"listeners": {"*:80": listener}, "applications": {"a": {"type": "python", "module": "a"}}}
    (tmp_path / "unit.json").write_text(json.dumps(document))
    outcome = recognised("unit.json", str(tmp_path), {})
    assert [remark.kind for remark in outcome.about("user")] == [DIFFERENT]
    [lost] = outcome.about("listeners.*:80.forwarded.client_ip")
    assert lost.kind == UNSUPPORTED and "X-Forwarded-For" in lost.reason
    assert not outcome.about("listeners.*:80.forwarded.protocol")


def test_a_systemd_unit_gives_folder_variables_and_command() -> None:
    outcome = recognised(str(DATA / "shop.service"), ".", {})
    assert outcome.program == "/srv/shop/venv/bin/forehand"
    assert outcome.target == "shop.wsgi:application"
    assert outcome.settings == {
        "bind": ["127.0.0.1:8123"], "workers": 3, "threads": 4, "access_log": "combined", "access_log_file": "-",
        "chdir": "/srv/shop",
    }  # fmt: skip
    assert [remark.kind for remark in outcome.about("User")] == [NOT_NEEDED]


def test_a_socket_of_systemd_s_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "a.service").write_text(
        "[Unit]\nRequires=gunicorn.socket network.target\n[Service]\nSockets=gunicorn.socket\n"
        "ExecStart=/venv/bin/gunicorn --bind unix:/run/gunicorn.sock a:app\n"
    )
    outcome = recognised("a.service", str(tmp_path), {})
    assert outcome.settings["bind"] == ["unix:/run/gunicorn.sock"]
    [remark] = outcome.about("gunicorn.socket")
    assert remark.kind == DIFFERENT and "ListenStream=" in remark.reason


def test_a_signal_of_a_unit_s_that_cuts_requests_off_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "a.service").write_text("[Service]\nKillSignal=SIGQUIT\nExecStart=/venv/bin/uwsgi --http :80 -w a\n")
    [remark] = recognised("a.service", str(tmp_path), {}).about("KillSignal")
    assert remark.kind == DIFFERENT and "SIGTERM lets them end" in remark.reason


def test_specifiers_of_systemd_are_told_of(tmp_path: Path) -> None:
    (tmp_path / "a.service").write_text(
        "[Service]\nExecStart=\nExecStart=%h/venv/bin/gunicorn3 --bind unix:/run/%i.sock --access-logfile - "
        '--access-logformat "%%h %%r" a:app\n'
    )
    outcome = recognised("a.service", str(tmp_path), {})
    assert outcome.settings["access_log"] == "%h %r"
    assert [remark.kind for option in ("%h", "%i") for remark in outcome.about(option)] == [DIFFERENT, DIFFERENT]


@pytest.mark.parametrize("address", ["{eth0.ipv4.address}:port", "127.0.0.1:http", "a:b:c"])
def test_an_address_that_is_none_is_told_of(tmp_path: Path, address: str) -> None:
    (tmp_path / "a.ini").write_text(f"[uwsgi]\nhttp-socket = {address}\nmodule = a\nenv = NOTHING\n")
    outcome = recognised("a.ini", str(tmp_path), {})
    assert "bind" not in outcome.settings and "env" not in outcome.settings
    assert [remark.kind for remark in outcome.about("http-socket")] == [UNSUPPORTED]
    assert [remark.kind for remark in outcome.about("env")] == [UNSUPPORTED]


def test_a_dockerfile_and_a_script() -> None:
    assert recognised(str(DATA / "Dockerfile.txt"), ".", {}).settings["bind"] == ["0.0.0.0:5000"]
    script = recognised(str(DATA / "start.sh"), ".", {})
    assert (script.target, script.settings) == ("shop.wsgi", {"bind": ["0.0.0.0:8000"], "workers": 4})


@pytest.mark.parametrize(
    ("line", "settings", "target"),
    [
        ("uvicorn a:b --host 0.0.0.0 --port 80 --workers 2 --no-access-log",
         {"host": "0.0.0.0", "port": 80, "workers": 2, "access_log": "none"}, "a:b"),
        ("uvicorn --factory --interface wsgi a:make --uds /x",
         {"factory": True, "interface": "wsgi", "bind": ["unix:/x"], "access_log": "common"}, "a:make"),
        ("uvicorn a:b --no-access-log --no-proxy-headers",
         {"access_log": "none", "forwarded_allow_ips": "", "bind": ["127.0.0.1:8000"]}, "a:b"),
        ("granian --interface wsgi a:b --workers 2 --blocking-threads 8 --workers-max-rss 300",
         {"interface": "wsgi", "workers": 2, "threads": 8, "max_worker_memory": 300 << 20,
          "bind": ["127.0.0.1:8000"]}, "a:b"),
        ("granian --interface wsgi a:b --metrics --metrics-port 9100 --metrics-scrape-interval 5",
         {"status_bind": ["127.0.0.1:9100"], "interface": "wsgi", "bind": ["127.0.0.1:8000"]}, "a:b"),
        ("GRANIAN_WORKERS=3 granian --interface wsgi a:b --reload --no-reload-ignore-worker-failure",
         {"interface": "wsgi", "reload": True, "workers": 3, "bind": ["127.0.0.1:8000"]}, "a:b"),
        ("waitress-serve --listen=*:81 --listen=[::1]:82 --threads=8 --call a:make",
         {"bind": [":81", "[::1]:82"], "threads": 8, "factory": True}, "a:make"),
        ("waitress-serve a:b", {"host": "0.0.0.0", "port": 8080, "threads": 4}, "a:b"),
        ("mod_wsgi-express start-server --application-type module a.wsgi --processes 2 --url-alias /s static",
         {"workers": 2, "threads": 5, "host": "0.0.0.0", "limit_body_bytes": 10485760, "static": ["/s=static"]},
         "a.wsgi:application"),
        ("mod_wsgi-express start-server /a/b/wsgi.py --working-directory /a --threads 2 --host x --limit-request-bo 5",
         {"threads": 2, "host": "x", "limit_body_bytes": 5, "chdir": "/a"}, "b.wsgi:application"),
        ("uwsgi --http-socket :80 -w a.wsgi:app -M -p 4 --lazy-apps --threads 2 -L",
         {"bind": [":80"], "workers": 4, "threads": 2, "access_log": "none"}, "a.wsgi:app"),
        ("uwsgi --socket /run/x.sock --protocol=http --wsgi-file a.py --callable app --threads 1 --disable-logging",
         {"bind": ["unix:/run/x.sock"], "threads": 1, "access_log": "none", "socket_mode": "755"}, "a:app"),
    ],
)  # fmt: skip
def test_command_lines(line: str, settings: dict[str, object], target: str, tmp_path: Path) -> None:
    outcome = recognised(line, str(tmp_path), {})
    assert (outcome.settings, outcome.target) == (settings, target)


def test_what_apache_did_is_told_of() -> None:
    outcome = recognised(
        "mod_wsgi-express start-server a.wsgi --url-alias /static /srv/static --compress-responses", ".", {}
    )
    told = [remark.option for remark in outcome.remarks if remark.kind == UNSUPPORTED]
    assert "--compress-responses" in told
    assert (outcome.target, "the script" in told) == ("./a.wsgi:application", False), "a file can be served"


def test_a_compose_file_s_service_that_starts_a_server_counts(tmp_path: Path) -> None:
    outcome = recognised(str(DATA / "docker-compose.yml"), ".", {})
    assert outcome.target == "shop.wsgi"
    assert outcome.settings == {"threads": 4, "chdir": "/srv/shop", "workers": 3}
    assert outcome.flags == ['--bind "0.0.0.0:$PORT"']
    assert [remark.value for remark in outcome.about("live")] == ["shop.asgi:application"]
    assert "Compose service web, gunicorn" in page(str(DATA / "docker-compose.yml"), ".", {}).partition("\n")[0]
    (tmp_path / "compose.yaml").write_text("services:\n  db:\n    image: postgres\n")
    with pytest.raises(Problem, match="no service of this file starts a server"):
        recognised("compose.yaml", str(tmp_path), {})


@pytest.mark.parametrize(
    "command",
    ["command: uvicorn a:b --port 81", "command: 'uvicorn a:b --port 81'  # ours",
     'command: ["uvicorn", a:b, --port=81]',
     "command:\n      - uvicorn\n      - a:b\n      - '--port'\n      - \"81\"",
     "command: uvicorn a:b\n      --port 81",
     "command: |\n      uvicorn a:b --port 81", "entrypoint: [uvicorn]\n    command: [a:b, '--port', '$$P']\n"
     "    environment: # variables\n      P: 81", 'command: >-\n      sh -c "exec\n      uvicorn a:b --port 81"'],
)  # fmt: skip
def test_commands_of_compose_in_their_forms(command: str, tmp_path: Path) -> None:
    (tmp_path / "docker-compose.yml").write_text(
        f"version: '3'\nservices:\n  web:\n    {command}\n    restart: always\n"
    )
    outcome = recognised("docker-compose.yml", str(tmp_path), {})
    assert (outcome.target, outcome.settings) == ("a:b", {"port": 81, "access_log": "common"})


def test_a_program_of_supervisord() -> None:
    outcome = recognised(str(DATA / "supervisord.conf"), ".", {})
    assert (outcome.target, outcome.program) == ("shop.wsgi", "/srv/shop/venv/bin/forehand")
    assert outcome.settings == {"workers": 3, "process_name": "shop", "chdir": "/srv/shop", "umask": "027"}
    assert outcome.flags == ['--bind "${ADDRESS}"']
    assert [remark.kind for remark in outcome.about("numprocs")] == [DIFFERENT]
    assert [remark.kind for remark in outcome.about("user")] == [NOT_NEEDED]
