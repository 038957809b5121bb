"""uWSGI's options and what becomes of each, by name and, for the many that belong together, by family.

Knows: what uWSGI's options mean. Does not know: how files are read (`uwsgi_file.py`).
Facts: `uwsgi --help` of version 2.0 and uWSGI's documentation.
"""

from __future__ import annotations

import os
import re

from forehand import errors
from forehand.errors import Problem
from forehand.listen import GATEWAYS
from forehand.migrate import asgi, uwsgi_static
from forehand.migrate.mod_wsgi import script_target
from forehand.migrate.outcome import Outcome, differs, not_needed, same, switch, unsupported
from forehand.migrate.uwsgi_families import PROTOCOL, STATS, SYSTEMD, reason
from forehand.migrate.uwsgi_log import access_format

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from forehand.migrate.outcome import Rule

ROTATE = "logrotate, and SIGUSR1 reopens the files"
GREENLETS = "requests run in threads, as many as `threads` at a time, or with worker_class gevent in greenlets"
ALWAYS = "it is always so"


def number(value: str) -> str:
    """The number that a value begins with, as C's atoi has it: `4 ; four` is 4."""
    found = re.match(r"\s*\d+", value)
    return found[0].strip() if found else value


def address(value: str) -> str:
    """An address of uWSGI's as one of ours."""
    text = value.split(",")[0].strip()
    if re.fullmatch(r"\$\{\w+\}", text):
        return text  # what it stands for is known to nobody here
    if text.startswith(("/", "./", "../")) or (":" not in text and not text.isdigit()):
        return f"unix:{text}"
    return re.sub(r"^\*:", ":", text)


def _http(outcome: Outcome, origin: str, value: Any) -> None:
    _bind(outcome, origin, value)


def _bind(outcome: Outcome, origin: str, value: str, word: str = "") -> None:
    found = word + address(value)
    outcome.put("bind", found if "$" in found else [found], origin)


def _socket(outcome: Outcome, origin: str, value: Any) -> None:
    _speaks(outcome, origin, value, "uwsgi")


def _speaks(outcome: Outcome, origin: str, value: str, protocol: str) -> None:
    """An address at which a web server's own protocol is spoken, as it was."""
    _bind(outcome, origin, value, f"{protocol}:")
    found = address(value)
    if not found.startswith(("unix:", "127.", "localhost:", "$")) and outcome.took("bind", origin):
        outcome.differs(
            origin, value, "only web servers on this machine are believed, unless gateway_allow names others"
        )


def _scgi(outcome: Outcome, origin: str, value: Any) -> None:
    _speaks(outcome, origin, value, "scgi")


def _fastcgi(outcome: Outcome, origin: str, value: Any) -> None:
    _speaks(outcome, origin, value, "fastcgi")


def _persistent(outcome: Outcome, origin: str, value: Any) -> None:
    _bind(outcome, origin, value)
    if outcome.took("bind", origin) or "$" in value:
        outcome.differs(origin, value, PROTOCOL)


def _whole(name: str, unit: str = "", remark: str = "") -> Rule:
    def rule(outcome: Outcome, origin: str, value: Any) -> None:
        outcome.put(name, number(value) + unit, origin)
        if remark and outcome.took(name, origin):
            outcome.differs(origin, value, remark)

    return rule


def _workers(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.put("workers", "auto" if value == "auto" else number(value), origin)


def _buffer(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.raise_limit("limit_header_bytes", int(number(value)) if number(value).isdigit() else value, origin)


def _gevent(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.put("worker_connections", number(value), origin)
    if outcome.took("worker_connections", origin):
        outcome.put("worker_class", "gevent", origin)


def _stats_push(outcome: Outcome, origin: str, value: Any) -> None:
    """`statsd:HOST:PORT,PREFIX`; its other pushers have no counterpart."""
    kind, _, place = str(value).partition(":")
    address, _, prefix = place.partition(",")
    if kind != "statsd":
        outcome.unsupported(origin, value, STATS)
        return
    outcome.put("statsd_host", address, origin)
    if prefix:
        outcome.put("statsd_prefix", prefix, origin)
    if outcome.took("statsd_host", origin):
        outcome.differs(origin, value, "the names are others, and begin with `forehand.` (docs/looking-inside.md)")


def _home(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.program = f"{value.rstrip('/')}/bin/forehand"
    outcome.differs(origin, value, "install forehand there, and start it from there")


def _paths(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.put("pythonpath", f"{outcome.settings.get('pythonpath', '')},{value}".strip(","), origin)


def _environment(outcome: Outcome, origin: str, value: Any) -> None:
    if "=" in value:
        outcome.put("env", value if "$" in value else [value], origin)
    else:
        outcome.unsupported(origin, value, "it sets no value")


def _umask(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.put("umask", f"{int(value, 8):03o}" if re.fullmatch("[0-7]+", value) else value, origin)


def _socket_mode(outcome: Outcome, origin: str, value: Any) -> None:
    # Without a value it is 666.
    asgi.socket_mode(outcome, origin, value if re.fullmatch("[0-7]+", value) and value != "1" else "666")


def _socket_owner(outcome: Outcome, origin: str, value: Any) -> None:
    user, _, group = value.partition(":")
    for name, one in (("socket_user", user), ("socket_group", group)):
        if one:
            outcome.put(name, one, origin)


def _log(outcome: Outcome, origin: str, value: Any) -> None:
    # `logger = NAME PLUGIN:ARGUMENTS` gives it a name that routes speak of.
    plain = re.sub(r"^\w+ (?=\w+:)", "", value)
    kind, colon, rest = plain.partition(":")
    if plain.startswith("/dev/std") or kind == "stdio":
        outcome.not_needed(origin, value, "lines go to standard error")
    elif kind in ("syslog", "rsyslog"):
        address, _, prefix = rest.partition(",") if kind == "rsyslog" else ("", "", rest.partition(",")[0])
        outcome.put("log_syslog", True, origin)
        if address:
            outcome.put("log_syslog_to", f"udp://{address if ':' in address else address + ':514'}", origin)
        if prefix:
            outcome.put("log_syslog_prefix", prefix, origin)
    elif origin == "log-socket" or (colon and kind != "file" and "/" not in kind):
        outcome.unsupported(origin, value, "lines go to standard error, to a file or to syslog (log_syslog)")
    else:
        outcome.put("log_file", plain.removeprefix("file:").partition(",")[0], origin)


def _daemonize(outcome: Outcome, origin: str, value: Any) -> None:
    _log(outcome, origin, value)
    outcome.unsupported(origin, value, SYSTEMD)


def _route(outcome: Outcome, origin: str, value: Any) -> None:
    found = re.fullmatch(r"\^(/[\w/.-]*) harakiri:(\d+)", value)
    if found and origin == "route":
        outcome.path_timeouts[found[1]] = float(found[2])
    else:
        outcome.unsupported(origin, value, "there is no routing language: a proxy's work, or a WSGI middleware's")


def _reload(outcome: Outcome, origin: str, value: Any) -> None:
    if value not in ("0", "false"):
        outcome.put("reload", True, origin)


RULES: dict[str, Rule] = {
    **uwsgi_static.RULES,
    # Address
    **dict.fromkeys(("http", "http-socket", "http11-socket", "httprouter"), _http),
    **dict.fromkeys(("socket", "uwsgi-socket"), _socket),
    "scgi-socket": _scgi,
    "fastcgi-socket": _fastcgi,
    "puwsgi-socket": _persistent,
    "listen": _whole("backlog"),
    "chmod-socket": _socket_mode,
    "chown-socket": _socket_owner,
    "chmod": _socket_mode,
    "vacuum": switch(not_needed("unix sockets and the pid file are removed at the end")),
    # Application
    **dict.fromkeys(("home", "virtualenv", "venv", "pyhome"), _home),
    **dict.fromkeys(("pythonpath", "python-path", "pp"), _paths),
    "chdir": same("chdir"),
    "chdir2": same("chdir"),
    "env": _environment,
    "need-app": switch(not_needed("a first start without an application ends with status 4")),
    "single-interpreter": switch(not_needed(ALWAYS)),
    "enable-threads": switch(not_needed(ALWAYS)),
    "manage-script-name": switch(not_needed("script_name is for all requests")),
    "plugins": not_needed("only Python applications are served"),
    "plugin": not_needed("only Python applications are served"),
    "plugins-dir": not_needed("there are no plugins"),
    "plugin-dir": not_needed("there are no plugins"),
    "strict": switch(not_needed(ALWAYS)),
    # Work
    "processes": _workers,
    "workers": _workers,
    "threads": _whole("threads"),
    "master": switch(not_needed("workers are supervised, always")),
    "lazy-apps": switch(not_needed("each worker imports the application, unless preload says otherwise")),
    "lazy": switch(not_needed("each worker imports the application, unless preload says otherwise")),
    "thunder-lock": switch(not_needed("a worker whose threads are all busy does not accept")),
    "offload-threads": not_needed("a slow reader holds no thread, up to limit_response_buffer_bytes"),
    "harakiri": _whole("request_timeout", remark="the client gets 504 and the others go on; uWSGI kills the worker"),
    "harakiri-graceful-timeout": _whole("request_timeout_grace", remark="forehand.RequestTimeout is raised in the "
                                        "thread, and the worker is replaced where it does not come back by then"),
    "harakiri-graceful-signal": unsupported("no signal is sent: forehand.RequestTimeout is raised in the thread"),
    "harakiri-queue-threshold": unsupported("an overdue request is ended however many wait; limit_queue and "
                                            "queue_timeout bound the queue"),
    "harakiri-verbose": switch(not_needed("the stack of an overdue request is logged")),
    "max-requests": _whole("max_requests"),
    "max-requests-delta": _whole("max_requests_jitter", remark="uWSGI adds it by worker number; here by chance"),
    "max-worker-lifetime": _whole("max_worker_age"),
    "max-worker-lifetime-delta": not_needed("replacements come first, one after the other"),
    "min-worker-lifetime": not_needed("workers that keep crashing are replaced more and more slowly"),
    "reload-on-rss": _whole("max_worker_memory", "M"),
    "evil-reload-on-rss": _whole("max_worker_memory", "M"),
    "reload-on-as": unsupported("max_worker_memory bounds memory in use, not address space"),
    "evil-reload-on-as": unsupported("max_worker_memory bounds memory in use, not address space"),
    "worker-reload-mercy": _whole("graceful_timeout"),
    "reload-mercy": _whole("graceful_timeout"),
    "buffer-size": _buffer,
    "limit-post": _whole("limit_body_bytes"),
    "post-buffering": not_needed("bodies are received before a thread is taken"),
    "post-buffering-bufsize": not_needed("bodies are received before a thread is taken"),
    "socket-timeout": _whole("write_timeout"),
    "so-write-timeout": _whole("write_timeout"),
    "http-timeout": differs("there is no hop between a router and the workers; request_timeout ends overdue requests"),
    "http-connect-timeout": not_needed("there is no hop between a router and the workers"),
    "http-headers-timeout": _whole("header_timeout"),
    "http-keepalive": not_needed("connections are kept; keep_alive_timeout says for how long"),
    "add-header": unsupported("let the application or the proxy add headers; `Connection: close` is not needed"),
    "py-auto-reload": _reload,
    "py-autoreload": _reload,
    "python-auto-reload": _reload,
    "python-autoreload": _reload,
    "log-x-forwarded-for": switch(not_needed("the access log has the client's address, behind trusted proxies too")),
    # Process
    "uid": same("user"),
    "gid": same("group"),
    "umask": _umask,
    "pidfile": same("pid_file"),
    "pidfile2": same("pid_file"),
    "safe-pidfile": same("pid_file"),
    "safe-pidfile2": same("pid_file"),
    "daemonize": _daemonize,
    "daemonize2": _daemonize,
    "die-on-term": switch(not_needed("SIGTERM stops the server")),
    "exit-on-reload": switch(unsupported("a reload starts new workers, and never ends the server")),
    "no-orphans": switch(not_needed("workers end with their parent")),
    "master-fifo": unsupported("`forehand reload`, `stop` and `workers +1` over the socket that `control` names"),
    "max-fd": unsupported("systemd: LimitNOFILE="),
    "limit-as": unsupported("systemd: MemoryMax=; max_worker_memory replaces a worker that has grown"),
    "limit-nproc": unsupported("systemd: LimitNPROC="),
    "cpu-affinity": unsupported("systemd: CPUAffinity="),
    "prio": unsupported("systemd: Nice="),
    "auto-procname": switch(not_needed("processes are named after the application")),
    "procname": same("process_name"),
    "procname-master": same("process_name"),
    "procname-prefix": unsupported("process_name is the whole name"),
    "procname-prefix-spaced": unsupported("process_name is the whole name"),
    "chroot": unsupported("systemd: RootDirectory="),
    "close-on-exec": switch(not_needed(ALWAYS)),
    "no-defer-accept": lambda outcome, origin, _: outcome.put("defer_accept", False, origin),
    "tcp-nodelay": switch(not_needed(ALWAYS)),
    "reuse-port": switch(not_needed("workers share one listener; a connection goes to one that is free")),
    "thread-stacksize": unsupported("threads have the system's stack size: ulimit -s"),
    "disable-sendfile": switch(unsupported("sendfile(2) is used for what wsgi.file_wrapper returns")),
    "py-call-osafterfork": switch(not_needed("Python's own fork hooks run")),
    "py-tracebacker": unsupported("`forehand stacks` shows what every thread is doing"),
    "wsgi-env-behaviour": not_needed("each request has an environ of its own"),
    "wsgi-env-behavior": not_needed("each request has an environ of its own"),
    "wsgi-disable-file-wrapper": unsupported("wsgi.file_wrapper cannot be switched off"),
    "catch-exceptions": switch(unsupported("tracebacks go to the log, and never to a client")),
    # Logs
    **dict.fromkeys(("logto", "logto2", "logger", "log-socket"), _log),
    "memory-report": switch(unsupported("`forehand status` shows the memory of each worker")),
    "log-date": not_needed("every line has the time"),
    "logdate": not_needed("every line has the time"),
    **dict.fromkeys(("log-maxsize", "log-backupname", "log-truncate", "log-reopen", "touch-logrotate",
                     "touch-logreopen"), unsupported(ROTATE)),
    "logfile-chmod": unsupported("files have the permissions that umask leaves"),
    "logfile-chown": unsupported("files belong to the user that the server runs as"),
    "log-master": switch(not_needed("each line is written whole")),
    "threaded-logger": switch(not_needed("no worker waits for a log")),
    **dict.fromkeys(("ignore-sigpipe", "ignore-write-errors", "disable-write-exception", "write-errors-tolerance",
                     "write-errors-exception-only"), not_needed("a client that leaves is no error")),
    "stats": unsupported(STATS),
    "stats-push": _stats_push,
    "show-config": switch(not_needed("`forehand --print-config` does it")),
    "gevent": _gevent,
    "gevent-monkey-patch": switch(not_needed("with worker_class gevent everything is patched")),
    "gevent-early-monkey-patch": switch(not_needed("it is patched before the application is imported")),
    "ugreen": switch(unsupported(GREENLETS)),
    "async": unsupported(GREENLETS),
    "route": _route,
    "print": not_needed("it prints something while uWSGI reads its configuration, and sets nothing"),
    "autoload": switch(not_needed("there are no plugins")),
    "so-keepalive": switch(not_needed("keep_alive_timeout ends connections that are idle")),
}  # fmt: skip

# How many workers run, by load.
CHEAPER = (
    "cheaper", "cheaper-algo", "cheaper-initial", "cheaper-step", "cheaper-overload", "cheaper-rss-limit-hard",
    "cheaper-rss-limit-soft",
)  # fmt: skip
# What is run with these is no Python.
FOREIGN = ("psgi", "perl", "php", "rack", "rails", "ruby", "rb-", "lua", "cgi", "mono", "jvm", "jwsgi", "go-", "v8-")
TARGET = ("module", "wsgi", "wsgi-file", "file", "callable", "mount")
TOGETHER = (
    *TARGET,
    *CHEAPER,
    *uwsgi_static.TOGETHER,
    "protocol",
    "socket-protocol",
    "disable-logging",
    "log-format",
    "logformat",
    "req-logger",
    "log-4xx",
    "log-5xx",
    "lazy-apps",
)


def rule(name: str) -> Rule | None:
    """What becomes of an option; None for a name that is no option of uWSGI's as far as is known here."""
    family = reason(name)
    return RULES.get(name) or (unsupported(family) if family else None)


def translate(outcome: Outcome, pairs: Iterable[tuple[str, str]], placed: set[str]) -> None:
    """What becomes of options in order. `placed` are names that placeholders asked for."""
    pairs = [(key, _plain(outcome, key, value)) for key, value in pairs]
    values = dict(pairs)
    protocol = values.get("protocol", values.get("socket-protocol", "uwsgi"))
    for key, value in pairs:
        if key in TARGET or key in (
            "protocol",
            "socket-protocol",
            *CHEAPER,
            *uwsgi_static.TOGETHER,
            "disable-logging",
            "log-format",
            "logformat",
            "req-logger",
        ):
            continue
        known = rule(key) if key in RULES or key not in placed else None
        if key == "socket" and protocol == "http":
            _http(outcome, key, value)
        elif key == "socket" and protocol not in GATEWAYS:
            _persistent(outcome, key, value)
        elif key == "socket":
            _speaks(outcome, key, value, protocol)
        elif known:
            outcome.take(known, key, value)
        elif key not in placed:
            outcome.unsupported(key, value, "it is not a known option of uWSGI; perhaps a placeholder")
    _protocol(outcome, values)
    _target(outcome, pairs)
    _cheaper(outcome, values)
    uwsgi_static.translate(outcome, pairs)
    _access_log(outcome, values)
    if "umask" not in values:
        asgi.closed_socket(outcome, "755", "uWSGI's, as umask 022 leaves it")
    asgi.default_address(outcome, "no address is given")
    processes = outcome.settings.get("workers", "1")
    if str(processes) != "1" and not {"lazy-apps", "lazy"} & values.keys():
        outcome.put("preload", True, "no lazy-apps")
        outcome.differs("lazy-apps", "", "without it uWSGI imports the application before it forks, as preload does")
    if "gevent" in values:
        if "threads" in outcome.settings:
            del outcome.settings["threads"]
            outcome.not_needed("threads", values["threads"], "with gevent each request has a greenlet")
    elif "threads" not in values:
        outcome.differs("threads", "", "a worker of uWSGI's runs one request at a time; here up to 32 run in each. "
                        "Where the application is not made for threads: threads = 1")  # fmt: skip


def _plain(outcome: Outcome, key: str, value: str) -> str:
    """A value without what looks like a comment: uWSGI keeps it, and reads numbers up to it."""
    found = re.match(r"(.*?)\s+[#;](?!\S*=).*$", value)
    if not found or key.startswith("log") or key in ("print", "route"):
        return value
    outcome.differs(key, value, "uWSGI takes a comment behind a value for a part of it; here it is left out")
    return found[1]


def _protocol(outcome: Outcome, values: dict[str, str]) -> None:
    for key in ("protocol", "socket-protocol"):
        if values.get(key) == "http":
            outcome.not_needed(key, "http", "HTTP is spoken here, too")
        elif values.get(key) in GATEWAYS:
            outcome.not_needed(key, values[key], "the address says what is spoken there")
        elif key in values:
            outcome.differs(key, values[key], PROTOCOL)


def _cheaper(outcome: Outcome, values: dict[str, str]) -> None:
    """One line for what uWSGI does by load: how much memory is held, and what was chosen."""
    named = [key for key in CHEAPER if key in values]
    if not named:
        return
    least, most = number(values.get("cheaper", "1")), outcome.settings.get("workers", 1)
    told = f"uWSGI runs {least} to {most} workers, by load; here as many run as `workers` says"
    if "cheaper" in values and least.isdigit() and most != "auto" and int(least) < int(most) and not (
        {"threads", "gevent", "async"} & values.keys()
    ):  # fmt: skip
        outcome.settings["workers"] = max(1, int(least))
        outcome.origins["workers"] = f"{outcome.origins['workers']}, cheaper"
        told += (
            f". {least} are taken, which hold the memory that uWSGI's hold at rest, as each runs up to 32 requests in "
            f"threads; with threads = 1: workers = {most}, whose memory is held all the time"
        )
    else:
        told += ": their memory is held all the time"
    outcome.unsupported(", ".join(named), values[named[0]], f"{told}. `forehand workers +1` adds one")


def _target(outcome: Outcome, pairs: list[tuple[str, str]]) -> None:
    values = dict(pairs)
    named = values.get("callable", "")
    module = values.get("module") or values.get("wsgi")
    path = values.get("wsgi-file") or values.get("file")
    mounts = [value for key, value in pairs if key == "mount"]
    if module:
        outcome.target = module if ":" in module or not named else f"{module}:{named}"
    elif path:
        script_target(outcome, path, named or "application", outcome.settings.get("chdir", ""))
    strange = [key for key, _ in pairs if key.startswith(FOREIGN)]
    if strange and not (module or path or mounts):
        raise Problem(errors.CONFIG, f"this is not a Python application: the configuration has {strange[0]}",
                      hint="Forehand serves WSGI and ASGI applications of Python")  # fmt: skip
    for value in mounts:
        where, _, what = value.partition("=")
        if outcome.target:
            if len(mounts) > 1 or module or path:
                outcome.unsupported("mount", value, "one target is served; route inside of the application")
            continue
        if where.strip("/"):
            outcome.put("script_name", "/" + where.strip("/"), "mount")
        if what.endswith(".py"):
            script_target(outcome, what, named or "application", outcome.settings.get("chdir", ""))
        else:
            outcome.target = what if ":" in what or not named else f"{what}:{named}"
    if outcome.target and os.path.splitext(outcome.target.partition(":")[0])[1] == ".py":
        script_target(outcome, outcome.target.partition(":")[0], outcome.target.partition(":")[2], "")


def _access_log(outcome: Outcome, values: dict[str, str]) -> None:
    if values.get("disable-logging", "false").lower() not in ("false", "0", "no", "off"):
        outcome.put("access_log", "none", "disable-logging")
        return
    form = values.get("log-format") or values.get("logformat")
    if not form:
        outcome.put("access_log", "combined", "uWSGI logs each request unless told not to")
    elif access_format(form):
        outcome.put("access_log", access_format(form), "log-format")
    else:
        outcome.put("access_log", "combined", "log-format")
        outcome.unsupported("log-format", form, "not all of its parts are known here; combined is the nearest")
    where = values.get("req-logger", "")
    if where.startswith(("file:", "/")):
        outcome.put("access_log_file", where.removeprefix("file:"), "req-logger")
    elif where:
        outcome.unsupported("req-logger", where, "the access log goes to standard output or to a file")
    elif "log_file" in outcome.settings:
        outcome.put("access_log_file", outcome.settings["log_file"], outcome.origins["log_file"])
    elif "log_syslog" not in outcome.settings:
        outcome.differs("access_log", "", "uWSGI writes it to standard error, and here it goes to standard output: "
                        "access_log_file names a file")  # fmt: skip
