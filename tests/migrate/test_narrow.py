"""Nothing is opened that the original kept closed, and nothing is started: addresses, scripts, what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from forehand.errors import CONFIG, Problem
from forehand.migrate import page, recognised
from forehand.migrate.outcome import DIFFERENT, NOT_NEEDED
from test_pages import loads


def shown(text: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What the command makes of a page."""
    (folder / "forehand.toml").write_text(text)
    known = {name: value for name, value in os.environ.items() if name != "PORT" and not name.startswith("FOREHAND_")}
    return subprocess.run([sys.executable, "-m", "forehand", "--print-config", *words], cwd=folder, env=known,
                          capture_output=True, text=True, timeout=30)  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "granian --interface asgi app:app --host 0.0.0.0 --port 8111 --uds /run/gr.sock",
        "uvicorn app:app --uds /run/gr.sock --host 0.0.0.0 --port 80",
        "waitress-serve --unix-socket=/run/gr.sock --host=0.0.0.0 --port=80 app:app",
    ],
)
def test_a_private_socket_stays_one_beside_host_and_port(line: str, tmp_path: Path) -> None:
    outcome = recognised(line, str(tmp_path), {})
    assert outcome.settings["bind"] == ["unix:/run/gr.sock"]
    assert not {"host", "port"} & outcome.settings.keys()
    for flag in ("--host", "--port"):
        assert [remark.kind for remark in outcome.about(flag)] == [NOT_NEEDED]
    text = page(line, str(tmp_path), {})
    loads(text, tmp_path)
    printed = shown(text, tmp_path)
    assert printed.returncode == 0, printed.stderr
    assert "0.0.0.0" not in printed.stdout


@pytest.mark.parametrize("server", ["gunicorn", "uvicorn"])
def test_an_empty_value_in_quotes_is_one(tmp_path: Path, server: str) -> None:
    outcome = recognised(f"{server} --forwarded-allow-ips '' --backlog 7 a:b; true", str(tmp_path), {})
    assert (outcome.settings["forwarded_allow_ips"], outcome.settings["backlog"], outcome.target) == ("", 7, "a:b")


def test_a_limit_that_is_narrower_than_ours_stays_as_narrow(tmp_path: Path) -> None:
    outcome = recognised("gunicorn --limit-request-fields 50 --limit-request-line 2000 a:b", str(tmp_path), {})
    assert outcome.settings["limit_header_lines"] == 50
    assert outcome.settings["limit_request_line_bytes"] == 2000


def test_gunicorn_believes_who_connects_to_a_unix_socket_whatever_its_lists_say(tmp_path: Path) -> None:
    words = "--forwarded-allow-ips 10.0.0.1 --protocol uwsgi --uwsgi-allow-from 10.0.0.2"
    for where in ("unix:/run/x.sock", "unix:$SOCKET"):
        outcome = recognised(f"gunicorn {words} -b {where} a:b", str(tmp_path), {})
        assert outcome.settings["forwarded_allow_ips"] == "10.0.0.1,unix"
        assert outcome.settings["gateway_allow"] == "10.0.0.2,unix"
    outcome = recognised(f"gunicorn {words} -b :8000 a:b", str(tmp_path), {})
    assert outcome.settings["forwarded_allow_ips"] == "10.0.0.1"
    for nobody in ("''", "'*'"):
        outcome = recognised(f"gunicorn -b unix:/run/x.sock --forwarded-allow-ips {nobody} a:b", str(tmp_path), {})
        assert "unix" not in outcome.settings["forwarded_allow_ips"]


@pytest.mark.parametrize(
    ("line", "option", "reason"),
    [
        ("waitress-serve --trusted-proxy=10.0.0.1 --trusted-proxy-headers=x-forwarded-for a:b",
         "--trusted-proxy-headers", "-Prefix and Forwarded are believed"),
        ("waitress-serve --clear-untrusted-proxy-headers a:b", "--trusted-proxy", "unix sockets are believed"),
        ("uvicorn --uds /run/x.sock a:b", "--forwarded-allow-ips", "believes no proxy on a unix socket"),
    ],
)  # fmt: skip
def test_what_is_believed_here_and_not_there_is_told(tmp_path: Path, line: str, option: str, reason: str) -> None:
    remarks = recognised(line, str(tmp_path), {}).about(option)
    assert [(remark.kind, reason in remark.reason) for remark in remarks] == [(DIFFERENT, True)], remarks


def test_what_is_not_watched_there_is_not_watched_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    line = f"granian a:b --reload --reload-ignore-dirs media --reload-ignore-paths {tmp_path}/var/log"
    assert recognised(line, str(tmp_path), {}).settings["reload_exclude"] == ["media", "var/log"]
    line = f"gunicorn a:b --reload --reload-extra-file {tmp_path}/shop.yaml --reload-extra-file /etc/shop.yaml"
    outcome = recognised(line, str(tmp_path), {})
    assert outcome.settings["reload_include"] == ["shop.yaml"]
    assert [remark.value for remark in outcome.about("reload_extra_files")] == ["/etc/shop.yaml"]


def test_a_socket_from_a_variable_goes_before_host_and_port(tmp_path: Path) -> None:
    outcome = recognised("uvicorn app:app --uds $SOCKET --host 0.0.0.0 --port $PORT", str(tmp_path), {})
    assert outcome.flags == ['--bind "unix:$SOCKET"']
    assert not {"bind", "host", "port"} & outcome.settings.keys()


def test_all_addresses_stand_where_one_of_them_has_a_variable(tmp_path: Path) -> None:
    outcome = recognised("gunicorn -b unix:/run/x.sock -b 127.0.0.1:$PORT -e A=1 -e B=$B a:b", str(tmp_path), {})
    assert set(outcome.flags) == {
        '--bind "127.0.0.1:$PORT"', "--bind unix:/run/x.sock", '--env "B=$B"', "--env A=1",
    }  # fmt: skip
    assert not {"bind", "env"} & outcome.settings.keys()


def test_a_value_with_a_variable_runs_nothing_in_the_shell(tmp_path: Path) -> None:
    outcome = recognised("gunicorn a:b -e 'A=$A`id`\"$(id)'", str(tmp_path), {})
    told = subprocess.run(["sh", "-c", f"printf %s {outcome.flags[0].split(' ', 1)[1]}"], env={"A": "1"},
                          capture_output=True, text=True, timeout=10)  # fmt: skip
    assert told.stdout == 'A=1`id`"$(id)'


def test_an_address_that_is_none_is_refused_at_the_start_and_not_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.ini").write_text("[uwsgi]\nhttp-socket = 127.0.0.1:http\nmodule = a\n")
    outcome = recognised("a.ini", str(tmp_path), {})
    assert outcome.flags == ["--bind 127.0.0.1:http"]


SCRIPTS = {
    "called": "import uvicorn\nuvicorn.run('shop:app', port=1)\n",
    "under main": "import uvicorn\nif __name__ == '__main__':\n    uvicorn.run('shop:app')\n",
    "imported": "from waitress import serve as start\nfrom shop import app\nstart(app)\n",
    "of an object": "from shop import app\nworkers = 2\napp.run(host='0.0.0.0')\n",
    "in a function": "import uvicorn\ndef main():\n    uvicorn.run('shop:app')\nmain()\n",
    "awaited": "import asyncio, shop\nasyncio.run(shop.main())\n",
    "unknown": "import shop\nshop.start_all()\n",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_that_starts_a_server_is_refused_and_not_run(name: str, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    (tmp_path / "run.py").write_text(f"open({str(ran)!r}, 'w')\n{SCRIPTS[name]}")
    with pytest.raises(Problem) as caught:
        page("run.py", str(tmp_path), {})
    assert caught.value.status == CONFIG
    assert "was not run" in caught.value.text()
    assert "forehand migrate '" in caught.value.text()
    assert not ran.exists()


def test_a_configuration_that_calls_what_it_needs_is_run(tmp_path: Path) -> None:
    (tmp_path / "conf.py").write_text(
        "import multiprocessing, subprocess, sys\nprint('hello')\n"
        "workers = multiprocessing.cpu_count() * 0 + int(subprocess.run([sys.executable, '-c', 'print(3)'], "
        "capture_output=True).stdout)\n"
        "def post_fork(server, worker):\n    worker.run()\n"
    )
    assert recognised("conf.py", str(tmp_path), {}).settings["workers"] == 3


def test_the_page_names_all_that_was_read(tmp_path: Path) -> None:
    (tmp_path / "gunicorn.conf.py").write_text("workers = 2\n")
    (tmp_path / "Procfile").write_text("web: gunicorn a:b\n")
    first = page("Procfile", str(tmp_path), {}).partition("\n")[0]
    assert first == "# Made by `forehand migrate` from Procfile and gunicorn.conf.py (Procfile, gunicorn)."


def test_the_file_alone_serves(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("def app(e, s):\n    s('200 OK', [])\n    return [b'x']\n")
    printed = shown(page("uvicorn shop:app --interface wsgi --port 8123", str(tmp_path), {}), tmp_path)
    assert 'application = "shop:app"' in printed.stdout
