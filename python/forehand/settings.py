"""Every option, defined once.

Knows: names, kinds, defaults and words of all options. From this table follow the command
line's flags, the `FOREHAND_…` variables, the keys of the TOML file, `--help`, `--print-config`,
docs/settings.md and shell completion. Limits come from the engine (crates/wire/src/limits.rs),
which defines them. Does not know: what an option does.
"""

from __future__ import annotations

from forehand import _core
from forehand.supervisor import options as supervision

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

GROUPS = {
    "Application": "what is served",
    "Address": "where it listens",
    "Work": "how requests are worked on",
    "Workers": supervision.GROUPS["Workers"],
    "Proxies": "what stands in front of the server",
    "Logs": "what is told",
    "Timeouts": "how long the server waits; 30, 0.5, 30s and 500ms are understood",
    "Limits": "how much the server takes; 65536, 64K, 1M and 1G are understood",
    "Strictness": "what the RFCs leave to the server's choice (docs/protocol-policy.md)",
    "Process": supervision.GROUPS["Process"],
    "Hooks": supervision.GROUPS["Hooks"],
}

LEVELS = ("debug", "info", "warning", "error", "critical")


class Option:
    """One option: `kind` is str, int, bool, size, time, list, choice or workers."""

    __slots__ = ("aliases", "check", "choices", "default", "group", "help", "kind", "metavar", "name")

    def __init__(
        self,
        name: str,
        kind: str,
        default: Any,
        group: str,
        help: str,
        *,
        metavar: str = "",
        aliases: tuple[str, ...] = (),
        choices: tuple[str, ...] = (),
        check: Callable[[Any], object] | None = None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.group = group
        self.help = help
        self.metavar = metavar or {"int": "N", "size": "BYTES", "time": "SECONDS", "choice": "NAME"}.get(kind, "TEXT")
        self.aliases = aliases
        self.choices = choices
        self.check = check

    @property
    def flag(self) -> str:
        """The long flag."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """The environment variable."""
        return "FOREHAND_" + self.name.upper()

    def parse(self, text: str) -> Any:
        """The value of a text from the command line or the environment. ValueError says what is allowed."""
        return self.judge(PARSERS[self.kind](text))

    def judge(self, value: Any) -> Any:
        """A value of the right type, if it is one that can be used."""
        types: dict[str, type] = {"str": str, "choice": str, "list": list, "bool": bool}
        expected: Any = types.get(self.kind, (int, float))
        if isinstance(value, dict) and self.kind == "list":
            # A table in TOML: its pairs.
            value = [f"{key}={member}" for key, member in value.items()]
        if isinstance(value, str) and self.kind != "str" and self.kind != "choice":
            value = PARSERS[self.kind](value)
        if value == "auto" and self.kind == "workers":
            return value
        good = isinstance(value, expected) and (self.kind == "bool" or not isinstance(value, bool))
        if not good:
            raise ValueError(f"{value!r} is not {WORDS[self.kind]}")
        if self.kind in ("int", "size", "time", "workers") and value < 0:
            raise ValueError(f"{value!r} is below zero")
        if self.kind in ("int", "size", "workers") and value != int(value):
            raise ValueError(f"{value!r} is not a whole number")
        for member in value if self.kind == "list" else [value]:
            if self.kind == "list" and not isinstance(member, str):
                raise ValueError(f"{member!r} is not text")
            if self.choices and member not in self.choices:
                from forehand.errors import near

                raise ValueError(f"'{member}' is none of {', '.join(self.choices)}{near(member, list(self.choices))}")
        if self.check is not None:
            self.check(value)
        return value


WORDS = {
    "str": "text",
    "choice": "one of the names",
    "int": "a whole number",
    "bool": "true or false",
    "size": "a size such as 65536, 64K, 1M or 1G",
    "time": "a time such as 30, 0.5, 30s or 500ms",
    "list": "a list of names",
    "workers": "a number of processes or 'auto'",
}


def _int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"'{text}' is not {WORDS['int']}") from None


def _bool(text: str) -> bool:
    known = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if text.lower() not in known:
        raise ValueError(f"'{text}' is not {WORDS['bool']}")
    return known[text.lower()]


def _scaled(text: str, units: dict[str, float], words: str) -> float:
    digits = text.strip().rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = text.strip()[len(digits) :].lower()
    try:
        number = float(digits)
    except ValueError:
        raise ValueError(f"'{text}' is not {words}") from None
    if unit not in units or number != number or number in (float("inf"), float("-inf")):
        raise ValueError(f"'{text}' is not {words}")
    return number * units[unit]


SIZES: dict[str, float] = {
    "": 1,
    "b": 1,
    "k": 1 << 10,
    "kb": 1 << 10,
    "kib": 1 << 10,
    "m": 1 << 20,
    "mb": 1 << 20,
    "mib": 1 << 20,
}
SIZES.update({"g": 1 << 30, "gb": 1 << 30, "gib": 1 << 30})
TIMES: dict[str, float] = {"": 1, "s": 1, "ms": 0.001, "m": 60, "min": 60, "h": 3600}


def _size(text: str) -> int:
    return int(_scaled(text, SIZES, WORDS["size"]))


def _time(text: str) -> float:
    return _scaled(text, TIMES, WORDS["time"])


def _workers(text: str) -> int | str:
    try:
        return "auto" if text.strip().lower() == "auto" else int(text)
    except ValueError:
        raise ValueError(f"'{text}' is not {WORDS['workers']}") from None


def _list(text: str) -> list[str]:
    return [member.strip() for member in text.split(",") if member.strip()]


PARSERS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "choice": str,
    "int": _int,
    "bool": _bool,
    "size": _size,
    "time": _time,
    "list": _list,
    "workers": _workers,
}


def _threads(value: int) -> None:
    if not 1 <= value <= 1024:
        raise ValueError(f"{value} is not between 1 and 1024")


def _greenlets(value: int) -> None:
    if not 1 <= value <= 1_000_000:
        raise ValueError(f"{value} is not between 1 and 1000000")


def _access(value: str) -> None:
    if value:
        _core.check_access_format(value)


def _mount(value: str) -> None:
    if value and (not value.startswith("/") or value.endswith("/")):
        raise ValueError(f"'{value}' does not begin with a slash, or ends in one")


def _header(value: str) -> None:
    if not value.isprintable() or not value.isascii():
        raise ValueError(f"{value!r} has characters that a header cannot have")


def _limit_name(name: str, kind: str) -> str:
    """`limit_…` for what is counted, the engine's own name for times."""
    return name if kind == "milliseconds" or name == "error_log_rate" else f"limit_{name}"


ALIASES = {
    "keep_alive_timeout": ("--keep-alive",),
    "request_timeout": ("--timeout", "-t"),
    "graceful_timeout": ("--timeout-graceful-shutdown", "--workers-kill-timeout"),
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
            ),
        )


def _asgi() -> Iterator[Option]:
    yield Option(
        "interface", "choice", "auto", "Application", "what the application is called with; auto looks at it",
        choices=("auto", "wsgi", "asgi"),
    )  # fmt: skip
    yield Option(
        "lifespan", "choice", "auto", "Application",
        "whether an ASGI application is told of start and stop; auto: unless it refuses to hear of it",
        choices=("auto", "on", "off"),
    )  # fmt: skip
    yield Option(
        "loop", "choice", "auto", "Work", "the event loop of ASGI applications; auto: uvloop where it is installed",
        choices=("auto", "asyncio", "uvloop"),
    )  # fmt: skip


def _gevent() -> Iterator[Option]:
    yield Option(
        "worker_class", "choice", "thread", "Work",
        "what a WSGI request runs in: a thread, or a greenlet of gevent (docs/gevent.md); sync and gthread, names "
        "of gunicorn's, mean thread",
        choices=("thread", "gevent", "sync", "gthread"), aliases=("-k",),
    )  # fmt: skip
    yield Option(
        "worker_connections", "int", 1000, "Work",
        "greenlets that run at the same time in a worker of gevent's; further requests wait in the queue",
        check=_greenlets,
    )  # fmt: skip


def _own() -> Iterator[Option]:
    yield Option("chdir", "str", "", "Application", "go to this folder first", metavar="DIR")
    yield Option(
        "pythonpath", "str", "", "Application", "folders, with commas between, to look for modules in first",
        metavar="DIRS", aliases=("--app-dir",),
    )  # fmt: skip
    yield Option(
        "env", "list", [], "Application", "set a variable before the application is imported; may be repeated",
        metavar="NAME=VALUE", aliases=("-e",),
    )  # fmt: skip
    yield Option("factory", "bool", False, "Application", "the target is a function that makes the application")
    yield Option("script_name", "str", "", "Application", "the path that the application is mounted at: SCRIPT_NAME",
                 metavar="PATH", aliases=("--root-path",), check=_mount)  # fmt: skip
    yield Option(
        "bind", "list", ["127.0.0.1:8000"], "Address",
        "HOST:PORT, [V6]:PORT, :PORT, unix:PATH or fd://N; may be repeated", metavar="ADDRESS", aliases=("-b",),
    )  # fmt: skip
    yield Option("host", "str", "", "Address", "the host of a single address, with --port")
    yield Option("port", "int", 0, "Address", "the port of a single address, with --host")
    yield Option("backlog", "int", 2048, "Address", "connections that the kernel keeps waiting")
    yield Option(
        "defer_accept", "bool", True, "Address",
        "let the kernel hold a connection until its request is there, for a second at most (Linux)",
    )  # fmt: skip
    yield Option(
        "threads", "int", 32, "Work",
        "requests that may block at the same time; threads start when they are needed. 32 keep three servers "
        "below the 100 connections that PostgreSQL allows",
        check=_threads,
    )  # fmt: skip
    yield Option(
        "request_buffering", "bool", True, "Work",
        "receive a request's whole body before a thread is taken; off: the application reads it as it arrives, "
        "as ASGI applications always do",
    )  # fmt: skip
    yield Option("server_header", "str", "", "Work", "the value of the Server header; empty: none is sent",
                 check=_header)  # fmt: skip
    yield Option(
        "forwarded_allow_ips", "str", "127.0.0.0/8,::1,unix", "Proxies",
        "peers whose X-Forwarded-* and Forwarded are believed: addresses, networks, 'unix', '*'; empty: nobody's",
        metavar="PEERS", check=_core.check_trust,
    )  # fmt: skip
    yield Option(
        "forwarded_headers", "choice", "both", "Proxies",
        "which headers those peers set; a client's own of the other kind are then dropped (both: they must agree)",
        choices=("both", "x-forwarded", "forwarded"),
    )  # fmt: skip
    yield Option("url_scheme", "choice", "http", "Proxies", "wsgi.url_scheme where no trusted proxy says it",
                 choices=("http", "https"))  # fmt: skip
    yield Option(
        "access_log", "str", "", "Logs",
        "a line for each reply: common, combined, json, or a format such as '%h %r %s %D'; empty: none",
        metavar="FORMAT", check=_access,
    )  # fmt: skip
    yield Option("access_log_file", "str", "-", "Logs", "where those lines go; - is standard output",
                 metavar="FILE", aliases=("--access-logfile",))  # fmt: skip
    yield Option("log_level", "choice", "info", "Logs", "the least grave lines that are told", choices=LEVELS)
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
OPTIONS: dict[str, Option] = {option.name: option for option in (*_own(), *_gevent(), *_asgi(), *LIMITS.values())}


#: What a supervisor reads of them, as it stands.
SUPERVISED = (
    "preload", "reload", "reload_dir", "reload_strategy", "readiness", "startup_timeout", "max_worker_age",
    "max_worker_memory", "worker_memory_kind", "control", "pid_file", "user", "group", "umask", "log_file", "log_level",
)  # fmt: skip


class Settings:
    """All values, and where each came from (`default`, a variable, a file and line, a flag)."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {
            name: list(option.default) if option.kind == "list" else option.default for name, option in OPTIONS.items()
        }
        self.sources: dict[str, str] = dict.fromkeys(OPTIONS, "default")

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def put(self, name: str, value: Any, source: str) -> None:
        """Set a value that was judged before."""
        self.values[name] = value
        self.sources[name] = source

    def addresses(self) -> list[str]:
        """What is to be bound: `--bind`, or `--host` and `--port`."""
        if self.sources["host"] == self.sources["port"] == "default":
            return list(self["bind"])
        host = self["host"] or "127.0.0.1"
        host = f"[{host}]" if ":" in host and not host.startswith("[") else host
        return [f"{host}:{self['port'] if self.sources['port'] != 'default' else 8000}"]

    def is_gevent(self) -> bool:
        """True where requests run in greenlets."""
        return bool(self["worker_class"] == "gevent")

    def contradiction(self) -> str:
        """What is set and means nothing beside the worker class; empty: all is well."""
        if self.is_gevent() and self.sources["threads"] != "default":
            return (
                "threads means nothing with worker_class gevent, where each request has a greenlet: "
                "worker_connections says how many"
            )
        if not self.is_gevent() and self.sources["worker_connections"] != "default":
            return (
                "worker_connections belongs to worker_class gevent: for threads, threads says how many requests run "
                "at the same time, and limit_connections how many connections are open"
            )
        return ""

    def plan(self) -> dict[str, Any]:
        """All that a server's process needs to know, in types that `marshal` can write."""
        return {
            "addresses": self.addresses(),
            "backlog": self["backlog"],
            "defer_accept": self["defer_accept"],
            "access_log_file": self["access_log_file"] if self["access_log"] else "-",
            "quiet": self["log_level"] in ("warning", "error", "critical"),
            "threads": self["threads"],
            "patience": self["graceful_timeout"],
            "interface": self["interface"],
            "lifespan": self["lifespan"],
            "loop": self["loop"],
            "worker_class": "gevent" if self.is_gevent() else "thread",
            "engine": self.for_engine(),
            "workers": supervision.cpus() if self["workers"] == "auto" else int(self["workers"]),
            "hooks": {name: self[name] for name in OPTIONS if name.startswith("on_")},
            **{name: self[name] for name in SUPERVISED},
        }

    def for_engine(self) -> dict[str, object]:
        """What `_core.Server` reads."""
        names = (
            "threads", "request_buffering", "server_header", "forwarded_allow_ips", "forwarded_headers",
            "url_scheme", "access_log", "log_level", "http_relax", "http_refuse", "script_name",
        )  # fmt: skip
        settings: dict[str, object] = {name: self[name] for name in names}
        if self.is_gevent():
            settings["threads"] = self["worker_connections"]
        settings["limits"] = {
            name: round(self[option.name] * 1000) if option.kind == "time" else int(self[option.name])
            for name, option in LIMITS.items()
        }
        pairs = [supervision.prefix_time(member) for member in self["request_timeouts"]]
        # The longest prefix decides, so that it is looked at first.
        pairs.sort(key=lambda pair: -len(pair[0]))
        settings["request_timeouts"] = [(prefix, round(time * 1000)) for prefix, time in pairs]
        settings["max_requests"] = (self["max_requests"], self["max_requests_jitter"])
        settings["watch_routes"] = self["max_worker_memory"] > 0
        return settings
