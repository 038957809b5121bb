"""Behind a real nginx that speaks a web server's own protocol to us: what arrives, and what its clients get."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests
from gatewayrequests import WRITERS, place
from serving import PATIENCE, Serving
from test_gateways import DRIVEN

Serve = Callable[..., Serving]
Front = Callable[[Serving, str], str]

CONFIG = """
{user} daemon off; pid {folder}/pid; error_log stderr;
events {{ worker_connections 64; }}
http {{
  access_log off; client_max_body_size 64m; keepalive_requests 100000;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream kept {{ server {address}; keepalive 4; }}
  server {{
    listen 127.0.0.1:{port};
    include /etc/nginx/{protocol}_params;
    location / {{ {protocol}_pass {address}; }}
    location /prefix {{
      {protocol}_pass {address}; include /etc/nginx/{protocol}_params; {protocol}_param SCRIPT_NAME /prefix;
    }}
    location /streamed {{ {protocol}_pass {address}; {protocol}_buffering off; {protocol}_request_buffering off; }}
    {more}
  }}
}}
"""
#: What only FastCGI has: connections that are kept, and files of variables without a PATH_INFO.
KEPT = """
    location /kept {{
      fastcgi_pass kept; fastcgi_keep_conn on;
      location /kept/streamed {{ fastcgi_pass kept; fastcgi_buffering off; fastcgi_request_buffering off; }}
    }}
    location ~ ^/placed(?<rest>/.*)$ {{
      fastcgi_pass kept; include /etc/nginx/fastcgi_params;
      fastcgi_param SCRIPT_NAME /placed; fastcgi_param PATH_INFO $rest;
    }}
    location /both {{
      fastcgi_pass kept; include /etc/nginx/fastcgi_params; fastcgi_param PATH_INFO $fastcgi_script_name;
    }}
    location /told {{
      fastcgi_pass kept; include /etc/nginx/fastcgi_params;
      fastcgi_param PATH_INFO $document_uri; fastcgi_param SCRIPT_NAME /told;
    }}
    location /all {{ fastcgi_pass kept; fastcgi_keep_conn on; }}
    location /few {{ fastcgi_pass kept; fastcgi_keep_conn on; {few} }}
"""
#: The variables that the page about nginx has in place of nginx's own file of them.
PAGE = Path(__file__).resolve().parents[2] / "docs" / "behind-nginx.md"
FEW = " ".join(line.strip() for line in PAGE.read_text().splitlines() if line.startswith("        fastcgi_param "))
#: What that file has beside them.
NGINX_OWN = {"DOCUMENT_ROOT", "DOCUMENT_URI", "REDIRECT_STATUS", "SERVER_ADDR"}

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
                    address=f"{host}:{backend}", more=KEPT.format(few=FEW) if protocol == "fastcgi" else "",
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
    for path in {"uwsgi": ("/", "/streamed"), "fastcgi": ("/", "/streamed", "/kept", "/kept/streamed")}.get(
        protocol, ("/",)
    ):
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
    for path in ("/", "/streamed", *(("/kept", "/kept/streamed") if protocol == "fastcgi" else ())):
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
    # nginx's `scgi_params` and `fastcgi_params` have no PATH_INFO: the prefix is cut where the server is told of it.
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


class Counted:
    """Passes connections on to a server, and counts them."""

    def __init__(self, served: Serving) -> None:
        self.served, self.accepted, self.sockets = served, 0, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.urls = [f"fastcgi://127.0.0.1:{self.listener.getsockname()[1]}"]
        self.thread = threading.Thread(target=self.accept)
        self.thread.start()

    def accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            server = socket.create_connection(place(self.served))
            self.sockets += [client, server]
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self.pass_on, args=(source, target), daemon=True).start()

    @staticmethod
    def pass_on(source: socket.socket, target: socket.socket) -> None:
        try:
            while part := source.recv(65536):
                target.sendall(part)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            # One side has broken off: so does this one for the other, whose thread is woken first.
            with contextlib.suppress(OSError):
                target.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                target.shutdown(socket.SHUT_RD)
                target.close()

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(PATIENCE)
        for sock in self.sockets:
            sock.close()


@driven
def test_connections_are_kept_where_nginx_is_told_so(serve: Serve, front: Front, driver: tuple[str, ...]) -> None:
    target, *more = driver
    served = serve(target, *more, "--bind=fastcgi://127.0.0.1:0")
    counted = Counted(served)
    try:
        url = front(counted, "fastcgi")
        for path, most in (("/kept", 1), ("/", 60)):
            before = counted.accepted
            for _ in range(20):
                assert requests.get(f"{url}{path}?parts", timeout=PATIENCE).content == b"one,two,three"
                assert requests.get(f"{url}{path}?nothing", timeout=PATIENCE).status_code == 204
                assert requests.post(f"{url}{path}", data=b"hello", timeout=PATIENCE).json()["body"][0] == 5
            assert counted.accepted - before == most, path
        # One that breaks takes its connection with it, and the next has another.
        with pytest.raises(requests.exceptions.RequestException):
            requests.get(f"{url}/kept/streamed?broken", timeout=PATIENCE).raise_for_status()
        assert requests.get(f"{url}/kept?parts", timeout=PATIENCE).content == b"one,two,three"
    finally:
        counted.close()


def test_at_a_reload_no_request_is_lost_where_connections_are_kept(serve: Serve, front: Front) -> None:
    served = serve("doors:checked", "--bind=fastcgi://127.0.0.1:0", "--workers", "2", "--drain-keep-alive", "300ms")
    url = front(served, "fastcgi")
    replies: list[tuple[int, bytes]] = []
    over = threading.Event()

    def keep_asking() -> None:
        with requests.Session() as session:
            # As fast as it can be served, a crowd would take the processors from the workers that come.
            while not over.wait(0.005):
                try:
                    reply = session.get(f"{url}/kept?parts", timeout=PATIENCE)
                except requests.exceptions.RequestException as error:
                    return replies.append((0, str(error).encode()))
                replies.append((reply.status_code, reply.content))
        return None

    crowd = [threading.Thread(target=keep_asking) for _ in range(3)]
    for one in crowd:
        one.start()
    try:
        for _ in range(2):
            before = [worker["pid"] for worker in served.status()["workers"]]
            served.until(lambda seen=len(replies): len(replies) > seen + 20)
            assert served.order("reload")[0] == 0
            # Those that leave answer what comes, and close what is idle, while others are asked.
            served.until(lambda before=before: not any(os.path.exists(f"/proc/{pid}") for pid in before))
    finally:
        over.set()
        for one in crowd:
            one.join(PATIENCE)
    assert set(replies) == {(200, b"one,two,three")}


@driven
def test_the_variables_that_the_page_names_are_all_that_is_needed(
    serve: Serve, front: Front, driver: tuple[str, ...]
) -> None:
    target, *more = driver
    served = serve(target, *more, "--bind=fastcgi://127.0.0.1:0")
    url = front(served, "fastcgi")
    for method, body in (("GET", None), ("POST", b"hello")):
        few, usual = (
            json.loads(requests.request(method, url + path, data=body, timeout=PATIENCE).text.replace(path[:4], ""))
            for path in ("/few/a%20b%C3%A9?c=d", "/all/a%20b%C3%A9?c=d")
        )
        if "path" in few:
            told = usual["extensions"]["forehand.gateway"]
            assert told.keys() - few["extensions"].pop("forehand.gateway").keys() >= NGINX_OWN - {"DOCUMENT_URI"}
            del usual["extensions"]["forehand.gateway"]
            # A port of its own for each of nginx's connections.
            few["client"][1] = usual["client"][1]
            hosts = [dict(found["headers"]).pop("host") for found in (few, usual)]
            for found in (few, usual):
                found["headers"] = [pair for pair in found["headers"] if pair[0] != "host"]
        else:
            hosts = [found.pop("HTTP_HOST") for found in (few, usual)]
            few["REMOTE_PORT"] = usual["REMOTE_PORT"]
            few["SERVER_SOFTWARE"] = usual["SERVER_SOFTWARE"]
            usual = {name: value for name, value in usual.items() if name not in NGINX_OWN}
        assert few == usual
        # Of the client's own word for it nginx's file says nothing, or, as Debian has it, the same as the page.
        assert hosts[0] == "127.0.0.1" and hosts[1] in (hosts[0], url.removeprefix("http://"))
    assert served.stop() == 0
    assert "AssertionError" not in served.log(), "wsgiref.validate"


def test_a_place_that_nginx_says_twice_is_the_last_one(serve: Serve, front: Front) -> None:
    served = serve("doors:checked", "--bind=fastcgi://127.0.0.1:0")
    found = requests.get(f"{front(served, 'fastcgi')}/placed/a%20b?c", timeout=PATIENCE).json()
    assert (found["SCRIPT_NAME"], found["PATH_INFO"]) == ("/placed", "/a b")
    assert "REMOTE_USER" not in found, "nobody has said who it is"


def test_what_nginx_says_as_both_places_is_the_path_and_what_it_says_once_more_is_the_place(
    serve: Serve, front: Front
) -> None:
    served = serve("doors:checked", "--bind=fastcgi://127.0.0.1:0")
    url = front(served, "fastcgi")
    for path, placed in [
        ("/both", ("", "/both")),
        ("/both/", ("", "/both/")),
        ("/both/a%20b", ("", "/both/a b")),
        ("/told", ("/told", "")),
        ("/told/a%20b", ("/told", "/a b")),
    ]:
        found = requests.get(url + path, timeout=PATIENCE).json()
        assert (found["SCRIPT_NAME"], found["PATH_INFO"]) == placed, path
    assert served.stop() == 0
    assert "AssertionError" not in served.log(), "wsgiref.validate"
