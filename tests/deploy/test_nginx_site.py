"""The site of deploy/nginx.conf: nginx takes it as it is, and serves through it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import requests
from serving import Serving

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "deploy" / "nginx.conf"
WAIT = 20
AROUND = """
{user} daemon off; pid {folder}/pid; error_log stderr;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
{site}
}}
"""


def nginx() -> str:
    """The program."""
    found = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    assert found, "nginx is missing: install it (Debian: nginx-light)"
    return found


def written(folder: Path, site: str) -> Path:
    """A whole configuration round a site."""
    path = folder / "nginx.conf"
    path.write_text(AROUND.format(user="user root;" if os.geteuid() == 0 else "", folder=folder, site=site))
    return path


def test_nginx_takes_the_site_as_it_is(tmp_path: Path) -> None:
    # Only the port is another: not everybody may bind 80, and `nginx -t` binds.
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    site = SITE.read_text().replace("listen 80;", f"listen 127.0.0.1:{port};")
    assert site != SITE.read_text()
    done = subprocess.run([nginx(), "-t", "-c", str(written(tmp_path, site)), "-p", str(tmp_path)],
                          capture_output=True, text=True, timeout=WAIT)  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_page_and_a_static_file_pass_through_the_site(serve: Callable[..., Serving], tmp_path: Path) -> None:
    serve("echo", f"--bind=unix:{tmp_path}/sock")
    (tmp_path / "static").mkdir()
    (tmp_path / "static" / "a.txt").write_text("a file")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        site = SITE.read_text()
        for old, new in (("listen 80;", f"listen 127.0.0.1:{port};"), ("/run/shop/http.sock", f"{tmp_path}/sock"),
                         ("/srv/shop/static", f"{tmp_path}/static")):  # fmt: skip
            assert old in site
            site = site.replace(old, new)
        process = subprocess.Popen(
            [nginx(), "-c", str(written(tmp_path, site)), "-p", str(tmp_path)],
            env={**os.environ, "NGINX": f"{listener.fileno()};"}, pass_fds=[listener.fileno()],
        )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{port}"
        found = requests.post(url + "/a?b", data=b"body", timeout=WAIT).json()
        assert (found["PATH_INFO"], found["QUERY_STRING"], found["body"]) == ("/a", "b", "body")
        assert (found["REMOTE_ADDR"], found["HTTP_HOST"]) == ("127.0.0.1", f"127.0.0.1:{port}")
        static = requests.get(url + "/static/a.txt", timeout=WAIT)
        assert (static.text, static.headers["Cache-Control"]) == ("a file", "max-age=86400")
    finally:
        process.terminate()
        process.wait(WAIT)
