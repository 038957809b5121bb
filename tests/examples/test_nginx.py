"""The configuration of docs/behind-nginx.md, word for word, in a real nginx on loopback.

nginx listens on a socket that the test has bound and hands over, so that no port is guessed and none is waited for.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests
from conftest import EXAMPLES, Start

PAGE = EXAMPLES.parent / "docs" / "behind-nginx.md"
WAIT = 20
CONFIG = """
{user} daemon off; pid {folder}/pid; error_log stderr;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
{upstream}
  server {{
    listen 127.0.0.1:{port};
{location}
  }}
}}
"""

Front = Callable[[str], str]


def _documented(pattern: str) -> str:
    found = re.search(pattern, PAGE.read_text(), re.S | re.M)
    assert found, f"{PAGE.name} has no {pattern}"
    return found[0]


def _options() -> list[str]:
    """The options of the page's command, but for its target and its address."""
    words = shlex.split(_documented(r"(?<=^forehand shop.wsgi ).*?$"))
    assert words[:2] == ["--bind", "unix:/run/shop/http.sock"]
    return words[2:]


def _user() -> str:
    """Whom nginx runs as where it may choose: a user of its own, as everywhere."""
    for name in ("www-data", "nginx", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise AssertionError("this system has no user for nginx")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody can enter, as /run/shop is; the tests' own is its user's alone."""
    path = Path(tempfile.mkdtemp(prefix="forehand-nginx-"))
    path.chmod(0o755)
    # As services run: what is made is not for others, unless its maker says so.
    before = os.umask(0o077)
    yield path
    os.umask(before)
    shutil.rmtree(path)


@pytest.fixture
def nginx(folder: Path) -> Iterator[Front]:
    """`nginx("unix:/path")` puts it in front of that address; the URL."""
    binary = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    assert binary, "nginx is missing: install it (Debian: nginx-light)"
    running: list[subprocess.Popen[bytes]] = []

    def start(address: str) -> str:
        upstream = _documented(r"^upstream forehand \{.*?^\}").replace("unix:/run/shop/http.sock", address)
        assert address in upstream
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            config = folder / "nginx.conf"
            config.write_text(
                CONFIG.format(
                    user=f"user {_user()};" if os.geteuid() == 0 else "", folder=folder, upstream=upstream, port=port,
                    location=_documented(r"^    location / \{.*?^    \}"),
                )
            )  # fmt: skip
            command = [binary, "-c", str(config), "-p", str(folder)]
            env = {**os.environ, "NGINX": f"{listener.fileno()};"}
            running.append(subprocess.Popen(command, env=env, pass_fds=[listener.fileno()]))
        return f"http://127.0.0.1:{port}"

    yield start
    for process in running:
        process.terminate()
        process.wait(WAIT)


def test_what_nginx_says_is_believed_and_what_its_client_says_is_not(serve: Start, nginx: Front, folder: Path) -> None:
    server = serve("echo", f"--bind=unix:{folder}/sock", *_options())
    url = nginx(f"unix:{folder}/sock")
    claims = {"X-Forwarded-For": "9.9.9.9", "X-Forwarded-Proto": "https", "Forwarded": "for=7.7.7.7;proto=https"}
    found = requests.get(url + "/a?b", headers=claims, timeout=WAIT).json()
    assert found["REMOTE_ADDR"] == "127.0.0.1"
    assert found["wsgi.url_scheme"] == "http"
    assert url == f"http://{found['HTTP_HOST']}"
    assert (found["PATH_INFO"], found["QUERY_STRING"]) == ("/a", "b")
    assert server.stop() == 0


def test_connections_behind_nginx_are_kept(serve: Start, nginx: Front) -> None:
    # Nobody is trusted, so that the application is told the port of nginx's own connection.
    server = serve("echo", "--forwarded-allow-ips=")
    url = nginx(f"127.0.0.1:{server.port}")
    kept = {requests.get(url, headers={"Connection": "close"}, timeout=WAIT).json()["REMOTE_PORT"] for _ in range(5)}
    assert len(kept) == 1, kept


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_a_body_passes_through_nginx(serve: Start, nginx: Front, folder: Path, chunked: bool) -> None:
    serve("echo", f"--bind=unix:{folder}/sock", *_options())
    url = nginx(f"unix:{folder}/sock")
    body = b"x" * 500_000
    parts = (body[at : at + 7777] for at in range(0, len(body), 7777))
    found = requests.post(url, data=parts if chunked else body, timeout=WAIT).json()
    assert found["CONTENT_LENGTH"] == str(len(body))
    assert found["body"] == body.decode()


def test_a_page_passes_through_nginx_again_and_again(serve: Start, nginx: Front, folder: Path) -> None:
    serve("pong", f"--bind=unix:{folder}/sock", *_options(), cwd=EXAMPLES / "pong")
    url = nginx(f"unix:{folder}/sock")
    with requests.Session() as session:
        assert {session.get(url + "/ping", timeout=WAIT).text for _ in range(200)} == {"Pong!"}
