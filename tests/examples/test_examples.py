"""The examples, through real clients."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import requests
from serving import Serving

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_pong_shows_that_it_works(serve: Callable[..., Serving]) -> None:
    server = serve("pong", cwd=EXAMPLES / "pong")
    page = requests.get(server.url, timeout=10)
    assert page.status_code == 200
    assert "What the application was given" in page.text
    assert "<th>SERVER_PROTOCOL</th><td>HTTP/1.1</td>" in page.text
    assert requests.get(server.url + "/ping", timeout=10).text == "Pong!"
    assert requests.get(server.url + "/x", timeout=10).status_code == 404
    curl = subprocess.run(["curl", "-sS", server.url + "/ping"], capture_output=True, timeout=10, check=True)
    assert curl.stdout == b"Pong!"


def test_flask(serve: Callable[..., Serving]) -> None:
    server = serve("app", cwd=EXAMPLES / "flask_notes")
    with requests.Session() as session:
        assert "been here 1 times" in session.get(server.url, timeout=10).text
        assert "been here 2 times" in session.get(server.url, timeout=10).text
        page = session.post(server.url, {"text": "<b>bold"}, timeout=10)
        assert page.history[0].status_code == 303
        assert "&lt;b&gt;bold" in page.text
        added = session.post(server.url + "/api/notes", json={"text": "from JSON"}, timeout=10)
        assert (added.status_code, added.json()) == (201, {"number": 2})
        assert session.get(server.url + "/api/notes", timeout=10).json() == {"notes": ["<b>bold", "from JSON"]}
        lines = session.get(server.url + "/count/5000", timeout=10, stream=True).iter_lines()
        assert [int(line) for line in lines] == list(range(5000))
        data = os.urandom(1_000_000)
        told = session.post(server.url + "/upload", files={"file": data}, timeout=10).json()
        assert told == {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        assert session.get(server.url + "/broken", timeout=10).status_code == 500
        assert session.get(server.url + "/teapot", timeout=10).status_code == 418
        assert session.head(server.url, timeout=10).content == b""


@pytest.fixture(params=[False, True], ids=["plain", "validated"])
def shop(request: pytest.FixtureRequest, serve: Callable[..., Serving], tmp_path: Path) -> Serving:
    env = {"SHOP_DATA": str(tmp_path)}
    setup = (
        "import django; django.setup()\n"
        "from django.core.management import call_command\n"
        "call_command('migrate', verbosity=0)\n"
        "from django.contrib.auth.models import User\n"
        "User.objects.create_superuser('anna', 'anna@example.org', 'secret')\n"
    )
    subprocess.run(
        [sys.executable, "-c", setup], cwd=EXAMPLES / "django_shop", check=True, timeout=120,
        env={**os.environ, **env, "DJANGO_SETTINGS_MODULE": "shop.settings"},
    )  # fmt: skip
    if request.param:
        env["SHOP_VALIDATE"] = "1"
    return serve("shop.wsgi", cwd=EXAMPLES / "django_shop", env=env)


def test_django(shop: Serving) -> None:
    with requests.Session() as session:
        login = session.get(shop.url + "/admin/login/", timeout=20)
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', login.text)
        assert token is not None
        form = {"username": "anna", "password": "secret", "next": "/admin/", "csrfmiddlewaretoken": token[1]}
        inside = session.post(shop.url + "/admin/login/", form, timeout=20)
        assert inside.url == shop.url + "/admin/"
        assert "Site administration" in inside.text
        assert session.post(shop.url + "/admin/login/", {"username": "x"}, timeout=20).status_code == 403
        assert session.get(shop.url, timeout=20).text.startswith("visit 1:")
        assert session.get(shop.url, timeout=20).text.startswith("visit 2:")
        data = os.urandom(5_000_000)
        reply = session.post(shop.url + "/upload/", {"name": "Ball"}, files={"picture": ("b.bin", data)}, timeout=20)
        number = reply.json()["number"]
        assert session.get(shop.url, timeout=20).text == "visit 3: Ball"
        assert session.get(f"{shop.url}/admin/catalogue/article/{number}/change/", timeout=20).status_code == 200
        back = session.get(f"{shop.url}/file/{number}/", timeout=20)
        assert hashlib.sha256(back.content).digest() == hashlib.sha256(data).digest()
        streamed = session.get(shop.url + "/stream/3000/", timeout=20).content
        assert streamed == b"".join(bytes([i % 251]) * 1024 for i in range(3000))
        assert session.get(shop.url + "/file/999/", timeout=20).status_code == 404
        assert session.get(shop.url + "/broken/", timeout=20).status_code == 500
        assert session.head(shop.url, timeout=20).content == b""
        page = session.get(shop.url + "/admin/login/", timeout=20)
        assert page.status_code == 200


def test_django_chunked_upload(shop: Serving) -> None:
    boundary = "x" * 20
    body = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="name"\r\n\r\nChunked\r\n'
        f'--{boundary}\r\nContent-Disposition: form-data; name="picture"; filename="c"\r\n\r\n{"y" * 100_000}\r\n'
        f"--{boundary}--\r\n"
    ).encode()
    reply = requests.post(
        shop.url + "/upload/",
        data=(body[at : at + 9999] for at in range(0, len(body), 9999)),
        headers={"Content-Type": f"multipart/form-data; boundary={boundary}"},
        timeout=20,
    )
    assert reply.json()["size"] == 100_000


NGINX = """
{user} daemon off; pid {folder}/pid; error_log stderr; worker_processes 1;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream forehand {{ server {upstream}; keepalive 8; }}
  server {{
    listen 127.0.0.1:{port};
{locations}
  }}
}}
"""


def test_behind_nginx(serve: Callable[..., Serving], tmp_path: Path) -> None:
    nginx = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
    assert nginx, "nginx is missing: install nginx (Debian: nginx-light)"
    docs = (EXAMPLES.parent / "docs" / "behind-nginx.md").read_text()
    location = re.search(r"```nginx\n.*?(    location / \{.*?\n    \})", docs, re.S)
    assert location, "docs/behind-nginx.md has no location"
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = serve("echo", f"--bind=unix:{tmp_path}/sock")
    config = tmp_path / "nginx.conf"
    config.write_text(
        NGINX.format(
            user="user root;" if os.geteuid() == 0 else "",
            folder=tmp_path,
            upstream=f"unix:{tmp_path}/sock",
            port=port,
            locations=location[1],
        )
    )
    process = subprocess.Popen([nginx, "-c", str(config), "-p", str(tmp_path)])
    try:
        adapter = requests.adapters.HTTPAdapter(max_retries=requests.adapters.Retry(20, backoff_factor=0.05))
        with requests.Session() as session:
            session.mount("http://", adapter)
            for _ in range(3):
                found = session.get(
                    f"http://127.0.0.1:{port}/a?b", headers={"X-Forwarded-For": "9.9.9.9"}, timeout=10
                ).json()
                assert found["REMOTE_ADDR"] == "127.0.0.1", "what the client claims is not believed"
                assert found["HTTP_HOST"] == f"127.0.0.1:{port}"
                assert found["wsgi.url_scheme"] == "http"
            body = session.post(f"http://127.0.0.1:{port}/", data=b"x" * 500_000, timeout=10).json()["body"]
            assert len(body) == 500_000
    finally:
        process.terminate()
        process.wait(10)
    assert server.stop() == 0
