"""What is printed loads: every configuration here, through the table of options and through the command.

The configurations under data/ are written for this test in the manner of published ones.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from forehand import contradictions, toml
from forehand.migrate import page, recognised, unit
from forehand.sources import gather

DATA = Path(__file__).parent / "data"
FILES = sorted(path for path in DATA.iterdir() if path.is_file())
LINES = [
    "gunicorn -w 4 shop.wsgi --timeout 30",
    "gunicorn -w4 -b:8000 -k gevent 'shop:create_app(\"x\")' --log-file=- --error-log -",
    "gunicorn app:app --bind 0.0.0.0:$PORT --workers ${WEB_CONCURRENCY:-2}",
    "GUNICORN_CMD_ARGS='--bind 0.0.0.0:9 -w 2' gunicorn app:app",
    "GUNICORN_CMD_ARGS='--bind 0.0.0.0:9 -w 2'",
    "cd shop && exec poetry run gunicorn --umask 027 -u www-data -g www-data -D -p /run/shop.pid shop.wsgi",
    "python3 -m gunicorn a --header-map dangerous --limit-request-line 0 --access-logfile - --access-logformat '%z'",
    "bash -c 'python manage.py migrate && gunicorn shop.wsgi --certfile a --keyfile b'",
    "newrelic-admin run-program uvicorn app:app --uds /run/app.sock --no-proxy-headers --no-access-log --root-path /x",
    "uvicorn a:b --host :: --port 80 --fd 3 --limit-concurrency 5 --ssl-keyfile x --env-file x --log-level trace",
    "granian --interface wsgi a:b --workers-max-rss 300 --workers-lifetime 2h --http1-header-read-timeout 5000",
    "granian --interface asgi main:app --static-path-mount static --metrics --no-log --access-log-fmt '[x]'",
    "waitress-serve --unix-socket=/run/x.sock --url-prefix=/a/b/ --url-scheme=https --call shop:make",
    "waitress-serve --port=$PORT shop.wsgi:application",
    "mod_wsgi-express start-server --application-type module shop.wsgi --processes 2 --setenv A B --https-only",
    "mod_wsgi-express start-server /srv/shop/app.wsgi --request-timeout 30 --access-log --access-log-format '%h %>s'",
    "uvicorn a:b --loop uvloop --lifespan on --interface wsgi --ws none --ws-max-size 0 --factory --log-config l.yaml",
    "gunicorn -k uvicorn.workers.UvicornH11Worker --threads 4 --worker-connections 9 --log-syslog --keep-alive 0 a:b",
    "hypercorn -b 0.0.0.0:$PORT --worker-class trio -m 7 --access-logfile - wsgi:shop:app --certfile x",
    "daphne -u /run/x.sock -p 8001 -e ssl:443 -e tcp:port=80:interface=\\:\\:1 shop.asgi:application",
    "fastapi run shop/main.py --workers 4 --port 80",
    "uwsgi --ini flask.ini --processes 2",
    "uwsgi --http-socket :8000 -w shop.wsgi:app -M -p 4 -R 100 --enable-threads --disable-logging",
]


def loads(text: str, folder: Path) -> dict[str, object]:
    """The settings of a page, as the server reads its file."""
    table = toml.table("forehand.toml", text)
    assert table is not None
    kept = folder / "forehand.toml"
    kept.write_text(text)
    (folder / "x").touch()  # a file of variables that some command lines name
    before = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("FOREHAND_")}
    try:
        settings = gather({}, str(kept), str(folder))
    finally:
        os.environ.update(before)
    assert contradictions.find(settings) == ""
    return {name: settings[name] for name in table if name in settings.values}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_page_of_a_file_loads(path: Path, tmp_path: Path) -> None:
    text = page(path.name, str(DATA), {"PATH": "/usr/bin"})
    loads(text, tmp_path)
    assert text.startswith(f"# Made by `forehand migrate` from {path.name}")


@pytest.mark.parametrize("line", LINES)
def test_the_page_of_a_command_line_loads(line: str, tmp_path: Path) -> None:
    text = page(line, str(DATA), {"PATH": "/usr/bin"})
    loads(text, tmp_path)
    assert "# Start it with: " in text


def test_every_option_that_is_given_is_told_of() -> None:
    # What is neither a setting nor in a remark was lost.
    for path in FILES:
        if path.suffix != ".ini" or path.name == "logic.ini":
            continue
        outcome = recognised(str(path), ".", {})
        told = {word for origin in outcome.origins.values() for word in origin.split(", ")}
        told |= {option for remark in outcome.remarks for option in remark.option.split(", ")}
        given = {line.partition("=")[0].strip() for line in path.read_text().splitlines() if line[:1].isalpha()}
        # Placeholders, and those that the target and the times of paths are made of.
        assert given - told - {"base", "app", "module", "callable", "route", "py-auto-reload"} == set()


def test_the_command_prints_the_page_and_the_server_reads_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "forehand"]
    made = subprocess.run([*command, "migrate", "uvicorn app:app --host 0.0.0.0 --backlog 99 --interface wsgi"],
                          cwd=tmp_path, capture_output=True, text=True, timeout=30)  # fmt: skip
    assert (made.returncode, made.stderr) == (0, "")
    (tmp_path / "forehand.toml").write_text(made.stdout)
    told = subprocess.run([*command, "--print-config"], cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert told.returncode == 0, told.stderr
    for line in ('host = "0.0.0.0"', "backlog = 99", 'access_log = "common"'):
        assert line in told.stdout


def test_a_command_line_needs_no_quotes(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "forehand", "migrate", "gunicorn", "-b", ":8123", "shop.wsgi"],
                          cwd=tmp_path, capture_output=True, text=True, timeout=30)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert 'bind = [":8123"]' in done.stdout
    assert "# Start it with: forehand\n" in done.stdout
    assert 'application = "shop.wsgi"' in done.stdout


def test_what_a_configuration_says_cannot_leave_its_comment(tmp_path: Path) -> None:
    (tmp_path / "evil.conf.py").write_text("proc_name = 'a\\nbind = [\"0.0.0.0:1\"]'\nworkers = 2\n")
    text = page("evil.conf.py", str(tmp_path), {})
    table = toml.table("forehand.toml", text)
    assert table is not None and "bind" not in table


def test_the_page_about_unit_has_each_of_its_options() -> None:
    text = (Path(__file__).parents[2] / "docs" / "from-unit.md").read_text()
    words = set(re.findall(r"`([\w.]+)`", text))
    lost = {key for key in (*unit.APPLICATION, *unit.SETTINGS) if not {key, key.rpartition(".")[2]} & words}
    assert lost == set()


def test_the_first_of_the_two_steps_is_what_migrate_writes_and_an_address_for_later(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "from-uwsgi.md").read_text()
    found = re.search(r"^## In two steps.*?^```toml\n(.*?)^```", text, re.S | re.M)
    assert found
    settings = loads(found[1], tmp_path)
    by_migrate = recognised("uwsgi --socket /run/shop/uwsgi.sock -w shop.wsgi", ".", {}).settings
    assert settings["bind"] == [*by_migrate["bind"], "unix:/run/shop/http.sock"]
    assert settings["forwarded_headers"] == "x-forwarded"
