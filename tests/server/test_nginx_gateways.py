"""Behind a real nginx that speaks a web server's own protocol to us: what arrives, and what its clients get."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gatewayrequests import WRITERS, place
from serving import PATIENCE, Serving
from test_gateways import DRIVEN

# Other interpreters have what their own tests need, which these are not among.
requests = pytest.importorskip("requests")

Serve = Callable[..., Serving]
Front = Callable[[Serving, str], str]

CONFIG = """
{user} daemon off; pid {folder}/pid; error_log stderr;
events {{ worker_connections 64; }}
http {{
  access_log off; client_max_body_size 64m;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port};
    include /etc/nginx/{protocol}_params;
    location / {{ {protocol}_pass {address}; }}
    location /prefix {{
      {protocol}_pass {address}; include /etc/nginx/{protocol}_params; {protocol}_param SCRIPT_NAME /prefix;
    }}
    location /streamed {{ {protocol}_pass {address}; {protocol}_buffering off; {protocol}_request_buffering off; }}
  }}
}}
"""

each = pytest.mark.parametrize("protocol", sorted(WRITERS))
driven = pytest.mark.parametrize("driver", DRIVEN)


@pytest.fixture
def front() -> Iterator[Front]:
    """`front(served, "uwsgi")` puts nginx before it, on a socket that is bound already; the URL."""
    binary = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    assert binary, "nginx is missing: install it (Debian: nginx-light)"
    folder = Path(tempfile.mkdtemp(prefix="forehand-nginx-"))
    folder.chmod(0o755)
    running: list[subprocess.Popen[bytes]] = []

    def start(served: Serving, protocol: str) -> str:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            config = folder / "nginx.conf"
            names = {user.pw_name for user in pwd.getpwall()}
            user = next((name for name in ("www-data", "nginx", "nobody") if name in names), "nobody")
            host, backend = place(served)
            config.write_text(
                CONFIG.format(
                    user=f"user {user};" if os.geteuid() == 0 else "", folder=folder, port=port, protocol=protocol,
                    address=f"{host}:{backend}",
                )
            )  # fmt: skip
            env = {**os.environ, "NGINX": f"{listener.fileno()};"}
            command = [binary, "-c", str(config), "-p", str(folder)]
            running.append(subprocess.Popen(command, env=env, pass_fds=[listener.fileno()]))
        return f"http://127.0.0.1:{port}"

    yield start
    for process in running:
        process.terminate()
        process.wait(PATIENCE)
    shutil.rmtree(folder)


@each
@driven
def test_requests_of_every_shape_arrive_whole(
    serve: Serve, front: Front, driver: tuple[str, ...], protocol: str
) -> None:
    target, *more = driver
    served = serve(target, *more, f"--bind={protocol}://127.0.0.1:0")
    url = front(served, protocol)
    evil = {"Proxy": "http://evil", "X-Forwarded-For": "9.9.9.9", "X-Forwarded-Proto": "https"}
    found = requests.get(f"{url}/a%20b/%C3%A9?q=%20x", headers={"X-Two-Words": "1"}, timeout=PATIENCE).json()
    if "path" in found:
        assert (found["path"], found["query_string"], found["root_path"]) == ("/a b/é", "q=%20x", "")
        assert ["x-two-words", "1"] in found["headers"]
        assert (found["client"][0], found["scheme"], found["http_version"]) == ("127.0.0.1", "http", "1.1")
    else:
        assert found["PATH_INFO"].encode("latin-1").decode() == "/a b/é"
        assert (found["QUERY_STRING"], found["SCRIPT_NAME"], found["HTTP_X_TWO_WORDS"]) == ("q=%20x", "", "1")
        assert (found["REMOTE_ADDR"], found["wsgi.url_scheme"]) == ("127.0.0.1", "http")
    text = json.dumps(requests.get(url, headers=evil, timeout=PATIENCE).json())
    assert "http://evil" not in text
    body = bytes(range(256)) * 8000
    expected = [len(body), hashlib.sha256(body).hexdigest()]
    # Of a body that it does not wait for nginx 1.22 tells no length by SCGI, which knows no other end.
    for path in ("/", "/streamed") if protocol == "uwsgi" else ("/",):
        assert requests.post(url + path, data=body, timeout=PATIENCE).json()["body"] == expected
        parts = (body[at : at + 50_000] for at in range(0, len(body), 50_000))
        assert requests.post(url + path, data=parts, timeout=PATIENCE).json()["body"] == expected, "without a length"
    assert served.stop() == 0
    assert "AssertionError" not in served.log(), "wsgiref.validate"


@each
@driven
def test_replies_of_every_shape_reach_the_client(
    serve: Serve, front: Front, driver: tuple[str, ...], protocol: str
) -> None:
    target, *more = driver
    served = serve(target, *more, f"--bind={protocol}://127.0.0.1:0")
    url = front(served, protocol)
    for path in ("/", "/streamed"):
        assert requests.get(f"{url}{path}?parts", timeout=PATIENCE).content == b"one,two,three"
        head = requests.head(f"{url}{path}?left", timeout=PATIENCE)
        assert (head.status_code, head.content) == (200, b"")
        assert requests.get(f"{url}{path}?nothing", timeout=PATIENCE).status_code == 204
        assert requests.get(f"{url}{path}?unchanged", timeout=PATIENCE).status_code == 304
        assert requests.get(f"{url}{path}?fails", timeout=PATIENCE).status_code == 500
    # What breaks never looks complete: the chunked reply of nginx has no end, or nothing came at all.
    with pytest.raises(requests.exceptions.RequestException):
        requests.get(f"{url}/streamed?broken", timeout=PATIENCE).raise_for_status()
    with requests.get(f"{url}/streamed?endless", stream=True, timeout=PATIENCE) as endless:
        assert endless.raw.read(4)
    served.until(lambda: requests.get(f"{url}/?left", timeout=PATIENCE).text != "0")


@each
def test_a_prefix_is_the_applications_place(serve: Serve, front: Front, protocol: str) -> None:
    # nginx's `scgi_params` have no PATH_INFO: the prefix is cut where the server is told of it.
    given = [("checked", ()), ("app", ("--interface=asgi",))] if protocol == "uwsgi" else []
    for target, options in [
        *given,
        ("checked", ("--script-name=/prefix",)),
        ("app", ("--interface=asgi", "--script-name=/prefix")),
    ]:
        served = serve(f"doors:{target}", f"--bind={protocol}://127.0.0.1:0", *options)
        found = requests.get(f"{front(served, protocol)}/prefix/a%20b", timeout=PATIENCE).json()
        if target == "app":
            assert (found["root_path"], found["path"]) == ("/prefix", "/prefix/a b")
        else:
            assert (found["SCRIPT_NAME"], found["PATH_INFO"]) == ("/prefix", "/a b"), options
