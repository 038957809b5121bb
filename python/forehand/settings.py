"""Every option, defined once.

Knows: names, kinds, defaults and words of all options. From this table follow the command
line's flags, the `FOREHAND_…` variables, the keys of the TOML file, `--help`, `--print-config`,
docs/settings.md and shell completion. Limits come from the engine (crates/wire/src/limits.rs),
which defines them. Does not know: what an option does.
"""

from __future__ import annotations

from forehand import _core, lanes, sendfile, static_files, tls_options, tracing_options
from forehand.digits import number
from forehand.listen import check_port, secured
from forehand.option import Option, joined
from forehand.supervisor import options as supervision

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

GROUPS = {
    "Application": "what is served",
    "Address": "where it listens, and with which certificates (docs/tls.md)",
    "Work": "how requests are run",
    "Workers": supervision.GROUPS["Workers"],
    "Proxies": "what stands in front of the server",
    "Logs": "what is logged, how and where",
    "Timeouts": "how long the server waits; 30, 0.5, 30s and 500ms are understood",
    "Limits": "how much the server takes; 65536, 64K, 1M and 1G are understood",
    "Strictness": "what the RFCs leave to the server's choice (docs/protocol-policy.md)",
    "Process": supervision.GROUPS["Process"],
    "Looking inside": supervision.GROUPS["Looking inside"],
    "Hooks": supervision.GROUPS["Hooks"],
}

LEVELS = ("debug", "info", "warning", "error", "critical")


#: Where `--threads auto` begins.
THREADS_START = 32


def _threads(value: int | str) -> None:
    if value != "auto" and not 1 <= int(value) <= 1024:
        raise ValueError(f"{value} is not between 1 and 1024")


def _greenlets(value: int) -> None:
    if not 1 <= value <= 1_000_000:
        raise ValueError(f"{value} is not between 1 and 1000000")


def _access(value: str) -> None:
    if value not in ("", "auto", "none"):
        _core.check_access_format(value)


def _syslog(value: str) -> None:
    from forehand.log_config import syslog_address

    syslog_address(value)


def _facility(value: str) -> None:
    from logging.handlers import SysLogHandler

    if value not in SysLogHandler.facility_names:
        raise ValueError(f"'{value}' is none of {', '.join(SysLogHandler.facility_names)}")


def _mount(value: str) -> None:
    if value and (not value.startswith("/") or value.endswith("/")):
        raise ValueError(f"'{value}' does not begin with a slash, or ends in one")


def _mode(value: str) -> None:
    try:
        good = 0 <= number(value, base=8) <= 0o777
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"'{value}' is not an octal mode such as 660")


def _header(value: str) -> None:
    if not value.isprintable() or not value.isascii():
        raise ValueError(f"{value!r} has characters that a header cannot have")


def _limit_name(name: str, kind: str) -> str:
    """`limit_…` for what is counted, the engine's own name for times."""
    return name if kind == "milliseconds" or name == "error_log_rate" else f"limit_{name}"


ALIASES = {
    "keep_alive_timeout": ("--keep-alive", "--timeout-keep-alive"),
    "request_timeout": ("--timeout", "-t"),
    "graceful_timeout": ("--timeout-graceful-shutdown", "--workers-kill-timeout"),
    "limit_ws_message_bytes": ("--ws-max-size",),
    "limit_ws_queue": ("--ws-max-queue",),
}
BRIEFS = {
    "request_timeout": "answer 504 to a request that takes longer",
    "keep_alive_timeout": "how long an idle connection stays open",
    "graceful_timeout": "how long running requests may take at a stop",
    "limit_body_bytes": "the largest request body",
}


def _limits() -> Iterator[tuple[str, Option]]:
    for name, kind, default, reason, answer, _counter in _core.limits():
        option = _limit_name(name, kind)
        value = default / 1000 if kind == "milliseconds" else default
        yield (
            name,
            Option(
                option,
                {"milliseconds": "time", "count": "int"}.get(kind, "size"),
                int(value) if value == int(value) else value,
                "Logs" if name == "error_log_rate" else "Timeouts" if kind == "milliseconds" else "Limits",
                f"{reason}; beyond it: {answer}",
                aliases=ALIASES.get(option, ()),
                brief=BRIEFS.get(option, ""),
            ),
        )


def _asgi() -> Iterator[Option]:
    yield Option(
        "interface", "choice", "auto", "Application",
        "how the application is called; auto: found out from its signature",
        choices=("auto", "wsgi", "asgi"),
    )  # fmt: skip
    yield Option(
        "lifespan", "choice", "auto", "Application",
        "whether an ASGI application gets lifespan events; auto: unless it does not support them",
        choices=("auto", "on", "off"),
    )  # fmt: skip
    yield Option(
        "loop", "choice", "auto", "Work", "the event loop of ASGI applications; auto: uvloop where it is installed",
        choices=("auto", "asyncio", "uvloop"),
    )  # fmt: skip


def _gevent() -> Iterator[Option]:
    yield Option(
        "worker_class", "choice", "thread", "Work",
        "what a WSGI request runs in: a thread, or a greenlet of gevent (docs/gevent.md); sync and gthread, "
        "gunicorn's names, mean thread",
        choices=("thread", "gevent", "sync", "gthread"), aliases=("-k",), brief="thread, or gevent for greenlets",
    )  # fmt: skip
    yield Option(
        "worker_connections", "int", 1000, "Work",
        "greenlets that run at the same time in a worker with --worker-class gevent; further requests wait in the "
        "queue",
        check=_greenlets,
    )  # fmt: skip


def _addresses() -> Iterator[Option]:
    yield Option(
        "bind", "list", ["127.0.0.1:8000"], "Address",
        "HOST:PORT, [V6]:PORT, :PORT, unix:PATH or fd://N, each also behind http:// or https://; behind h2c:// it is "
        "for HTTP/2 without TLS, by prior knowledge; behind fastcgi:, uwsgi: or scgi: "
        "it is for a web server that speaks that protocol; with ?proxy=v1, ?proxy=v2 or "
        "?proxy=any at its end each connection begins with a PROXY header; may be repeated",
        metavar="ADDRESS", aliases=("-b",),
        brief="HOST:PORT, unix:PATH or fd://N; repeatable",
    )  # fmt: skip
    yield Option("host", "str", "", "Address", "the host of a single address, with --port; in place of --bind")
    yield Option("port", "int", 0, "Address", "the port of a single address, with --host; in place of --bind",
                 check=check_port)  # fmt: skip
    yield Option(
        "socket_mode", "str", "666", "Address",
        "permissions of unix sockets, octal: 666 lets every user connect, a proxy's too, 660 the owner and the group; "
        "a umask that is set is taken off the default",
        metavar="MODE", aliases=("--chmod-socket", "--uds-permissions"), check=_mode,
    )  # fmt: skip
    yield Option(
        "socket_user", "str", "", "Address", "who owns unix sockets, where the server is root; none: the user that "
        "workers run as", metavar="USER",
    )  # fmt: skip
    yield Option("socket_group", "str", "", "Address", "the group of unix sockets, such as the proxy's",
                 metavar="GROUP")  # fmt: skip
    yield Option("backlog", "int", 2048, "Address", "connections that the kernel keeps waiting")
    yield Option(
        "defer_accept", "bool", True, "Address",
        "let the kernel hold a connection until its request is there, for a second at most (Linux)",
    )  # fmt: skip


def _work() -> Iterator[Option]:
    yield Option(
        "threads", "count", THREADS_START, "Work",
        "requests that may block at the same time; threads start when they are needed. 32 keep three servers "
        "below the 100 connections that PostgreSQL allows; auto: more while they finish more requests, fewer where "
        "they do not (docs/workers.md)",
        metavar="N|auto", check=_threads, brief="requests that may block at a time, in a worker",
    )  # fmt: skip
    yield Option("threads_max", "int", 128, "Work", "with --threads auto there are never more", check=_threads)
    yield Option(
        "lanes", "list", [], "Work",
        "routes that are slow or quick, whatever is measured: /PREFIX=slow or /PREFIX=quick; a table in TOML. Slow "
        "ones leave a thread to the others (docs/workers.md)", metavar="PAIRS", check=lanes.check_lanes,
    )  # fmt: skip
    yield Option(
        "route_limits", "list", [], "Work",
        "requests below a path that may be inside the application at the same time, in a worker: /PREFIX=N; a table in "
        "TOML. More of them wait", metavar="PAIRS", check=lanes.check_limits,
    )  # fmt: skip
    yield Option(
        "priorities", "list", [], "Work",
        "which routes are refused last and first when more is asked than can be done: /PREFIX=high, normal or low; a "
        "table in TOML", metavar="PAIRS", check=lanes.check_priorities,
    )  # fmt: skip
    yield Option(
        "fair_by", "str", "", "Work",
        "clients take turns where requests wait for threads, told apart by: client (its address), header:NAME; empty: "
        "first come, first served", metavar="WHAT", check=lanes.check_fair_by,
    )  # fmt: skip
    yield Option(
        "request_buffering", "bool", True, "Work",
        "receive a request's whole body before a thread is taken; off: the application reads it as it arrives, "
        "as ASGI applications always do",
    )  # fmt: skip
    yield Option(
        "static", "list", [], "Work",
        "send files of a folder below a path, or one file at it, without the application: PATH=FOLDER or PATH=FILE, "
        "then, with semicolons between, index=NAME, fallback=FILE, try, max-age=SECONDS, immutable=PATTERN, "
        "header=NAME: VALUE; may be repeated",
        metavar="PATH=FOLDER", check=static_files.check, split=static_files.split, tables=static_files.from_tables,
    )  # fmt: skip
    yield Option(
        "sendfile", "list", [], "Work",
        "send the file that the application names in X-Sendfile, by its path in this folder, or in X-Accel-Redirect, "
        "by NAME and its path behind it, in place of the body (docs/static-files.md); without it those headers are "
        "passed on; may be repeated",
        metavar="NAME=FOLDER", check=sendfile.check,
    )  # fmt: skip
    yield Option("server_header", "str", "", "Work", "the value of the Server header; empty: none is sent",
                 check=_header)  # fmt: skip


def _proxies() -> Iterator[Option]:
    yield Option(
        "forwarded_allow_ips", "str", "127.0.0.0/8,::1,unix", "Proxies",
        "peers whose X-Forwarded-* and Forwarded headers are trusted: addresses, networks, 'unix', '*'; empty: none",
        metavar="PEERS", check=_core.check_trust, tables=joined, brief="peers whose X-Forwarded-* headers are trusted",
    )  # fmt: skip
    yield Option(
        "forwarded_headers", "choice", "both", "Proxies",
        "which headers those peers set; a client's own of the other kind are then dropped (both: they must agree)",
        choices=("both", "x-forwarded", "forwarded"),
    )  # fmt: skip
    yield Option(
        "proxy_protocol_from", "str", "127.0.0.0/8,::1,unix", "Proxies",
        "load balancers that may connect to addresses with ?proxy=, where their PROXY header says who the client is: "
        "addresses, networks, 'unix', '*'; everybody else is refused there",
        metavar="PEERS", check=_core.check_trust, tables=joined,
    )  # fmt: skip
    yield Option(
        "proxy_protocol_tls", "bool", False, "Proxies",
        "believe what PROXY v2 headers say of the client's TLS: the scheme is https, HTTPS and SSL_* are set",
    )  # fmt: skip
    yield Option(
        "gateway_allow", "str", "127.0.0.0/8,::1,unix", "Proxies",
        "web servers that may connect to addresses with fastcgi:, uwsgi: or scgi:, where their variables say who the "
        "client is and what it wants: addresses, networks, 'unix', '*'; everybody else is refused there",
        metavar="PEERS", check=_core.check_trust, tables=joined,
    )  # fmt: skip
    yield Option("url_scheme", "choice", "http", "Proxies", "wsgi.url_scheme, unless a trusted proxy says otherwise",
                 choices=("http", "https"))  # fmt: skip


def _logs() -> Iterator[Option]:
    yield Option(
        "access_log", "str", "auto", "Logs",
        "a line for each request: common, combined, json, a format such as '%h %r %s %D', or none; auto: common on a "
        "terminal and with --reload, combined where access_log_file says so, otherwise none",
        metavar="FORMAT", check=_access, bare="common", off="none",
        brief="log requests: common, combined, json, ...",
    )  # fmt: skip
    yield Option(
        "log_format", "choice", "text", "Logs", "how the server's own lines look: text, or a JSON object for each",
        choices=("text", "json"),
    )  # fmt: skip
    yield Option(
        "log_colors", "choice", "auto", "Logs",
        "colours in the server's own lines; auto: on a terminal, unless NO_COLOR is set", choices=("auto", "on", "off"),
    )  # fmt: skip
    yield Option(
        "log_config", "str", "", "Logs",
        "give all lines to Python's logging, configured by this file: a dictionary for logging.config.dictConfig in "
        "JSON or TOML, or an INI file for fileConfig; the loggers are forehand.error and forehand.access",
        metavar="FILE", aliases=("--log-config-json",),
    )  # fmt: skip
    yield Option("log_syslog", "bool", False, "Logs", "send all lines to syslog, by Python's logging")
    yield Option(
        "log_syslog_to", "str", "unix:///dev/log", "Logs", "where syslog listens: unix://PATH, udp://HOST:PORT or "
        "tcp://HOST:PORT", metavar="ADDRESS", check=_syslog,
    )  # fmt: skip
    yield Option("log_syslog_facility", "str", "user", "Logs", "the facility of those lines", metavar="NAME",
                 check=_facility)  # fmt: skip
    yield Option("log_syslog_prefix", "str", "forehand", "Logs", "the program's name in those lines", metavar="NAME")
    yield Option("access_log_file", "str", "-", "Logs", "where those lines go; - is standard output",
                 metavar="FILE", aliases=("--access-logfile",))  # fmt: skip
    yield Option("log_level", "choice", "info", "Logs", "the least severe lines that are logged", choices=LEVELS,
                 brief="the least severe lines that are logged")  # fmt: skip


def _own() -> Iterator[Option]:
    yield Option(
        "application", "str", "", "Application", "what is served, where the command line names nothing",
        metavar="MODULE[:ATTRIBUTE]", aliases=("--app", "--wsgi-app"),
    )  # fmt: skip
    yield Option("chdir", "str", "", "Application", "go to this folder first", metavar="DIR",
                 brief="go to this folder first")  # fmt: skip
    yield Option(
        "pythonpath", "str", "", "Application", "folders, with commas between, to look for modules in first",
        metavar="DIRS", aliases=("--app-dir",), tables=joined,
    )  # fmt: skip
    yield Option(
        "env", "list", [], "Application", "set a variable before the application is imported; may be repeated",
        metavar="NAME=VALUE", aliases=("-e",), brief="set a variable for the application",
    )  # fmt: skip
    yield Option(
        "env_file", "str", "", "Application",
        "read variables from this file (NAME=VALUE lines) for the server and the application; those that are set "
        "already stay (needs the package python-dotenv)",
        metavar="FILE", aliases=("--env-files",), brief="read variables from this file",
    )  # fmt: skip
    yield Option("factory", "bool", False, "Application", "the target is a function that makes the application",
                 brief="the target is a function that makes it")  # fmt: skip
    yield Option("script_name", "str", "", "Application", "the path that the application is mounted at: SCRIPT_NAME",
                 metavar="PATH", aliases=("--root-path",), check=_mount,
                 brief="the path that the application is mounted at")  # fmt: skip
    yield from _addresses()
    yield from tls_options.options(Option)
    yield from _work()
    yield from _proxies()
    yield from _logs()
    yield from supervision.options(Option)
    yield Option(
        "http_relax", "list", [], "Strictness", "allow what is refused by default",
        metavar="RULES", choices=tuple(name for name, _ in _core.relaxable()),
    )  # fmt: skip
    yield Option(
        "http_refuse", "list", [], "Strictness", "refuse what is allowed by default",
        metavar="RULES", choices=tuple(name for name, _ in _core.refusable()),
    )  # fmt: skip


LIMITS: dict[str, Option] = dict(_limits())
#: Limit → the counters that tell when it was reached; none for a cache and the like.
COUNTED: dict[str, tuple[str, ...]] = {
    limit[0]: () if limit[5].startswith("none") else tuple(limit[5].split(", ")) for limit in _core.limits()
}
OPTIONS: dict[str, Option] = {option.name: option for option in (*_own(), *_gevent(), *_asgi(), *LIMITS.values())}


#: What a supervisor reads of them, as it stands.
SUPERVISED = (
    "preload", "reload", "reload_dir", "reload_include", "reload_exclude", "reload_strategy", "readiness",
    "startup_timeout", "max_worker_age",
    "max_worker_memory", "worker_memory_kind", "control", "process_name", "pid_file", "user", "group", "umask",
    "log_file", "log_level", "log_format", "log_colors", "log_config", "log_syslog", "log_syslog_to",
    "log_syslog_facility", "log_syslog_prefix", "status_bind", "status_token_file", "liveness_stall",
    "metrics_app", "statsd_host", "statsd_interval", "statsd_prefix", "dogstatsd_tags",
    "shutdown_delay", "trace_endpoint",
)  # fmt: skip


#: Where values come from, the weakest first: what platforms set for any server goes before nothing but defaults.
DEFAULT, PLATFORM, FILE, VARIABLE, GIVEN = range(5)


class Settings:
    """All values, and where each came from (`default`, a variable, a file and line, a flag)."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {
            name: list(option.default) if option.kind == "list" else option.default for name, option in OPTIONS.items()
        }
        self.sources: dict[str, str] = dict.fromkeys(OPTIONS, "default")
        self.ranks: dict[str, int] = dict.fromkeys(OPTIONS, DEFAULT)
        #: What `env_file` has for the application, but for variables that were set before.
        self.file_variables: dict[str, str] = {}

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def put(self, name: str, value: Any, source: str, rank: int = GIVEN) -> None:
        """Set a value that was judged before. A source of a lower rank than the one before changes nothing."""
        if rank >= self.ranks[name]:
            self.values[name] = value
            self.sources[name] = source
            self.ranks[name] = rank

    def addresses(self) -> list[str]:
        """What is to be bound: `--bind`, or `--host` and `--port`, whichever was said last."""
        if self.ranks["bind"] >= max(self.ranks["host"], self.ranks["port"]):
            found = list(self["bind"])
        else:
            host = self.single_host()
            host = f"[{host}]" if ":" in host and not host.startswith("[") else host
            found = [f"{host}:{self['port'] if self.ranks['port'] != DEFAULT else 8000}"]
        return [secured(address) for address in found] if self["tls_cert"] or self["tls_self_signed"] else found

    def single_host(self) -> str:
        """The host of a single address. A platform that names the port means all addresses of its container."""
        alone = self.ranks["port"] == PLATFORM and self.ranks["host"] == DEFAULT
        return self["host"] or ("0.0.0.0" if alone else "127.0.0.1")

    def socket_access(self) -> dict[str, Any]:
        """Who may use unix sockets: a mode, and names of a user and a group (empty: as it comes)."""
        mode = int(self["socket_mode"], 8)
        if self["umask"] and self.ranks["socket_mode"] == DEFAULT:
            mode &= ~int(self["umask"], 8)
        return {
            "mode": mode,
            "user": self["socket_user"] or self["user"],
            "group": self["socket_group"] or self["group"],
        }

    def told_sources(self) -> list[str]:
        """A line for each setting that is not the default: its value, and where it came from."""
        said = [name for name in OPTIONS if self.ranks[name] != DEFAULT]
        return [f"setting {name} = {self[name]!r}, from {self.sources[name]}" for name in said if name != "env"]

    def variables(self) -> dict[str, str]:
        """What the application finds in its environment beside what is there."""
        return {**self.file_variables, **dict(pair.split("=", 1) for pair in self["env"])}

    def is_gevent(self) -> bool:
        """True where requests run in greenlets."""
        return bool(self["worker_class"] == "gevent")

    def plan(self) -> dict[str, Any]:
        """All that a server's process needs to know, in types that `marshal` can write."""
        return {
            "addresses": self.addresses(),
            "tls": tls_options.plan(self.values, self.addresses()),
            "socket_access": self.socket_access(),
            "variables": self.variables(),
            "file_variables": sorted(self.file_variables),
            "backlog": self["backlog"],
            "defer_accept": self["defer_accept"],
            "access_log_file": self["access_log_file"] if self["access_log"] not in ("", "none") else "-",
            # Told with `log_level` debug alone: what came from where.
            "sources": self.told_sources() if self["log_level"] == "debug" else [],
            # What is told in any case.
            "doubts": lanes.doubts(self),
            "quiet": self["log_level"] in ("warning", "error", "critical"),
            "threads": self["threads_max"] if self["threads"] == "auto" else self["threads"],
            "graceful_timeout": self["graceful_timeout"],
            "interface": self["interface"],
            "lifespan": self["lifespan"],
            "loop": self["loop"],
            "worker_class": "gevent" if self.is_gevent() else "thread",
            "engine": self.for_engine(),
            "workers": supervision.cpus() if self["workers"] == "auto" else int(self["workers"]),
            "tracing": tracing_options.plan(self["trace_endpoint"], self["trace_sample"], self.variables()),
            "hooks": {name: self[name] for name in OPTIONS if name.startswith("on_")},
            **{name: self[name] for name in SUPERVISED},
        }

    def for_engine(self) -> dict[str, object]:
        """What `_core.Server` reads."""
        names = (
            "threads", "request_buffering", "server_header", "forwarded_allow_ips", "forwarded_headers",
            "proxy_protocol_from", "proxy_protocol_tls", "gateway_allow", "url_scheme", "access_log",
            "log_level", "http_relax", "http_refuse", "script_name",
        )  # fmt: skip
        settings: dict[str, object] = {name: self[name] for name in names}
        if self.is_gevent():
            settings["threads"] = self["worker_connections"]
        elif self["threads"] == "auto":
            settings["threads"] = min(THREADS_START, self["threads_max"])
            settings["threads_auto"] = (self["threads_max"], self["max_worker_memory"], self["worker_memory_kind"])
        settings["limits"] = {
            name: round(self[option.name] * 1000) if option.kind == "time" else int(self[option.name])
            for name, option in LIMITS.items()
        }
        pairs = [lanes.time_below(member) for member in self["request_timeouts"]]
        # The longest prefix decides, so that it is looked at first.
        settings["request_timeouts"] = sorted(pairs, key=lambda pair: -len(pair[0]))
        settings.update(lanes.for_engine(self))
        settings["static"] = static_files.for_engine(self["static"])
        settings["sendfile"] = sendfile.for_engine(self["sendfile"])
        settings["max_requests"] = (self["max_requests"], self["max_requests_jitter"])
        settings["watch_routes"] = self["max_worker_memory"] > 0
        for name in ("fair_by", "computing_apart", "request_id", "server_timing"):
            settings[name] = self[name]
        settings["ask_routes"] = bool(self["status_bind"])
        settings["health_paths"] = [supervision.health_path(text) for text in self["health_paths"]]
        settings["liveness_stall"] = round(self["liveness_stall"] * 1000)
        settings["slow_request"] = round(self["slow_request"] * 1000)
        return settings
